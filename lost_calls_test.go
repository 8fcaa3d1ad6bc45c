//go:build linux

package cascade_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
)

const (
	lostArray = 1 << 18 // numbers, of 2 MiB
	lostCalls = 12      // whose results are more than the store has room for
	lostStore = 8 * lostArray * 8
)

// losing is where a task finds the spill files of its agent, and a file in which each run writes a line.
type losing struct{ State, Log string }

// ran writes a line to a file that many processes write to.
func ran(file, line string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, line)
	return errors.Join(err, f.Close())
}

// rotAll changes a byte of each spill file, and counts them.
func rotAll(state string) (n int, err error) {
	err = filepath.WalkDir(state, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".spill") {
			return nil //nolint:nilerr // files come and go
		}
		n++
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		b := make([]byte, 1)
		_, err = f.ReadAt(b, 8*lostArray/2)
		b[0] ^= 0x55
		_, err2 := f.WriteAt(b, 8*lostArray/2)
		return errors.Join(err, err2, f.Close())
	})
	return n, err
}

func lostFirst(ctx context.Context, p losing) (cascade.Array[float64], error) {
	if err := ran(p.Log, "first"); err != nil {
		return cascade.Array[float64]{}, err
	}
	return rampOf(ctx, size{lostArray})
}

func lostNext(ctx context.Context, a cascade.Array[float64], p losing) (cascade.Array[float64], error) {
	if err := ran(p.Log, "next"); err != nil {
		return cascade.Array[float64]{}, err
	}
	out, err := cascade.Alloc[float64](ctx, len(a.Data))
	for i := range out.Data {
		out.Data[i] = a.Data[i] + 1
	}
	return out, err
}

// losesResults makes a chain of calls whose results do not fit into memory, and damages those on disk. Then it
// reads each, and releases it, so that one that comes later has nothing to be made of.
func losesResults(ctx context.Context, p losing) (int, error) {
	if err := ran(p.Log, "parent"); err != nil {
		return 0, err
	}
	all := []cascade.Future[cascade.Array[float64]]{lostFirstTask.Go(ctx, cascade.Val(p))}
	for len(all) < lostCalls {
		all = append(all, lostNextTask.Go(ctx, all[len(all)-1], cascade.Val(p)))
	}
	if _, err := sum.Go(ctx, all[lostCalls-1]).Get(ctx); err != nil {
		return 0, err
	}
	n, err := rotAll(p.State)
	if err != nil {
		return 0, err
	}
	for i, f := range all {
		a, err := f.Get(ctx)
		if err != nil {
			return 0, err
		}
		if got, want := a.Data[lostArray-1], float64(lostArray-1+i); got != want {
			return 0, fmt.Errorf("result %d ends with %v and not %v", i, got, want)
		}
		cascade.Release(f)
	}
	return n, nil
}

// losesValue puts a value, and damages it on disk in its first run.
func losesValue(ctx context.Context, p losing) (float64, error) {
	if err := ran(p.Log, "parent"); err != nil {
		return 0, err
	}
	a := cascade.Array[float64]{Shape: []int{lostArray}, Data: make([]float64, lostArray)}
	a.Data[0] = 7
	value, err := cascade.Put(ctx, a)
	if err != nil {
		return 0, err
	}
	if runs, err := os.ReadFile(p.Log); err != nil || bytes.Count(runs, []byte("parent")) == 1 {
		var all []cascade.Future[cascade.Array[float64]]
		for range lostCalls {
			all = append(all, lostFirstTask.Go(ctx, cascade.Val(p)))
		}
		for _, f := range all {
			if _, err := sum.Go(ctx, f).Get(ctx); err != nil {
				return 0, err
			}
		}
		if _, err := rotAll(p.State); err != nil {
			return 0, err
		}
	}
	return sum.Go(ctx, value).Get(ctx)
}

var (
	lostFirstTask    = cascade.Func1("lostFirst", lostFirst, "with -> a")
	lostNextTask     = cascade.Func2("lostNext", lostNext, "a, with -> a")
	losesResultsTask = cascade.Func1("losesResults", losesResults, "with -> n")
	losesValueTask   = cascade.Func1("losesValue", losesValue, "with -> sum")
)

// TestLostResults: the disk damages what called tasks returned, and what a task put, before it is read.
// What is lost is recomputed, the parent with it that alone can put a value again.
func TestLostResults(t *testing.T) {
	state := t.TempDir()
	c := cascadetest.Start(t, cascade.WithState(state), cascade.WithStore(lostStore), cascade.WithCPU(2))
	at := losing{State: state, Log: filepath.Join(t.TempDir(), "log")}
	runs := func(what string) int {
		b, err := os.ReadFile(at.Log)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(b), what)
	}

	g := cascade.NewGraph("results")
	n := losesResultsTask.Add(g, "t", cascade.With(at))
	g.Output(n, "")
	if lost := cascadetest.Result(t, c, g, n); lost == 0 || runs("parent") != 1 || runs("first")+runs("next") <= lostCalls {
		t.Errorf("%d results are lost, the parent has run %d times, its %d calls %d times", lost, runs("parent"), lostCalls, runs("first")+runs("next"))
	}

	at.Log += ".value"
	g = cascade.NewGraph("value")
	total := losesValueTask.Add(g, "t", cascade.With(at))
	g.Output(total, "")
	if got := cascadetest.Result(t, c, g, total); got != 7 || runs("parent") != 2 {
		t.Errorf("the sum of the value is %v, by %d runs of the task", got, runs("parent"))
	}
}
