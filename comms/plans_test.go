package comms

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/dag"
)

func TestPlansKeepEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := rapid.SliceOfN(rapid.SampledFrom([]float64{0, 1, 0.1, math.Inf(1), -2}), 1, 9).Draw(t, "ranks")
		if got, err := ReadRanks(AppendRanks(nil, ranks)); err != nil || !reflect.DeepEqual(got, ranks) {
			t.Fatalf("ranks %v, %v; want %v", got, err, ranks)
		}
		number := rapid.SampledFrom([]dag.TaskIndex{0, 1, 2, 3, 4, 6, 9, math.MaxUint32})
		paths := rapid.SliceOfN(rapid.SliceOfN(number, 1, 5), 1, 4).Draw(t, "paths")
		if got, err := ReadPaths(AppendPaths(nil, paths)); err != nil || !reflect.DeepEqual(got, paths) {
			t.Fatalf("paths %v, %v; want %v", got, err, paths)
		}
	})
}

// Even paths and equal ranks take a few bytes, however long they are.
func TestPlansAreShort(t *testing.T) {
	paths, ranks := make([][]dag.TaskIndex, 10), make([]float64, 10_000)
	for i := range paths {
		for k := range 1000 {
			paths[i] = append(paths[i], dag.TaskIndex(10*k+i))
			ranks[10*k+i] = float64(1000 - k)
		}
	}
	if n := len(AppendPaths(nil, paths)); n > 80 {
		t.Errorf("10 paths of 1000 take %d bytes", n)
	}
	if n := len(AppendRanks(nil, ranks)); n > 9100 {
		t.Errorf("ranks of 1000 groups take %d bytes", n)
	}
}

func TestPlansRefused(t *testing.T) {
	short := func(b []byte) []byte { return b[:len(b)-1] }
	for what, b := range map[string][]byte{
		"ranks too many":    {0xff, 0xff, 0xff, 0x7f},
		"ranks cut short":   short(AppendRanks(nil, []float64{1, 2})),
		"ranks and more":    append(AppendRanks(nil, []float64{1}), 0),
		"ranks of none":     {1, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"ranks of too many": {1, 2, 0, 0, 0, 0, 0, 0, 0, 0},
		"paths too many":    {2, 0},
		"paths too long":    {1, 0xff, 0xff, 0xff, 0x7f},
		"paths cut short":   short(AppendPaths(nil, [][]dag.TaskIndex{{1, 5}, {7}})),
		"paths of fewer":    {1, 2, 1, 1, 0, 0},
		"paths of nothing":  {1, 1, 1, 0, 0, 0},
		"paths below zero":  {1, 2, 2, 2, 0, 1},
		"paths above all":   {1, 2, 2, 2, 0xff, 0xff, 0xff, 0xff, 0x0f, 2},
	} {
		var err error
		if strings.HasPrefix(what, "ranks") {
			_, err = ReadRanks(b)
		} else {
			_, err = ReadPaths(b)
		}
		if err == nil {
			t.Errorf("%s: read", what)
		}
	}
}

// FuzzPlans: bytes of any kind are read without a panic, and what was read is kept.
func FuzzPlans(f *testing.F) {
	f.Add(AppendRanks(nil, []float64{1, 1, 2}))
	f.Add(AppendPaths(nil, [][]dag.TaskIndex{{1, 5, 9}, {7}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if paths, err := ReadPaths(b); err == nil && len(paths) > 0 {
			if again, err := ReadPaths(AppendPaths(nil, paths)); err != nil || !reflect.DeepEqual(again, paths) {
				t.Fatalf("%v became %v, %v", paths, again, err)
			}
		}
		if ranks, err := ReadRanks(b); err == nil && len(ranks) > 0 {
			if again, err := ReadRanks(AppendRanks(nil, ranks)); err != nil || len(again) != len(ranks) {
				t.Fatalf("%d ranks became %d, %v", len(ranks), len(again), err)
			}
		}
	})
}
