package comms

import (
	"reflect"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/dag"
)

// column draws n numbers: evenly spaced ones, which take no more room than two, or any.
func column(t *rapid.T, name string, n int, bits uint) []uint64 {
	mask := ^uint64(0) >> (64 - bits)
	out := make([]uint64, n)
	if rapid.Bool().Draw(t, name+" even") {
		v, d := rapid.Uint64().Draw(t, name), rapid.Uint64().Draw(t, name+" difference")
		for i := range out {
			out[i] = v & mask
			v += d
		}
		return out
	}
	for i := range out {
		out[i] = rapid.Uint64().Draw(t, name) & mask
	}
	return out
}

func TestStepsKeepEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "n")
		kind, task, attempt, reads := column(t, "kind", n, 32), column(t, "task", n, 32), column(t, "attempt", n, 32), column(t, "reads", n, 32)
		keeps, only := column(t, "keeps", n, 64), column(t, "only", n, 64)
		name, with := rapid.SampledFrom([]string{"", "a[1]", "b"}), rapid.SampledFrom([]string{"", "\x80"})
		steps := make([]Step, n)
		for i := range steps {
			steps[i] = Step{Kind: uint32(kind[i]), Task: dag.TaskIndex(task[i]), Attempt: uint32(attempt[i]), Reads: uint32(reads[i]),
				Keeps: keeps[i], Only: only[i], Name: name.Draw(t, "name")}
			if w := with.Draw(t, "with"); w != "" {
				steps[i].With = []byte(w)
			}
		}
		got, err := ReadSteps(AppendSteps(nil, steps))
		for i := range got {
			if len(got[i].With) == 0 {
				got[i].With = nil
			}
		}
		if err != nil || !reflect.DeepEqual(got, steps) {
			t.Fatalf("%+v, %v; want %+v", got, err, steps)
		}
	})
}

func TestEndsKeepEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "n")
		start, took, cpu := column(t, "start", n, 62), column(t, "duration", n, 40), column(t, "cpu", n, 40)
		rss, in, out, copied := column(t, "rss", n, 64), column(t, "in", n, 64), column(t, "out", n, 64), column(t, "copied", n, 64)
		task, attempt, reads := column(t, "task", n, 32), column(t, "attempt", n, 32), column(t, "reads", n, 32)
		ends, usages := make([]End, n), make([]Usage, n)
		for i := range ends {
			usages[i] = Usage{int64(start[i]), int64(took[i]), int64(cpu[i]), rss[i], in[i], out[i], copied[i], nil}
			ends[i] = End{dag.TaskIndex(task[i]), uint32(attempt[i]), uint32(reads[i]), usages[i]}
		}
		block := AppendUsages(nil, usages)
		if got, err := ReadUsages(block, nil); err != nil || !reflect.DeepEqual(got, usages) {
			t.Fatalf("%+v, %v; want %+v", got, err, usages)
		}
		got, err := ReadEnds(AppendEnds(nil, n, func(i int) End { return ends[i] }, block), nil)
		if err != nil || !reflect.DeepEqual(got, ends) {
			t.Fatalf("%+v, %v; want %+v", got, err, ends)
		}
	})
}

// One long name, or argument, of all steps is in memory once.
func TestEvenTextsAreOne(t *testing.T) {
	steps := make([]Step, MaxSteps)
	name := strings.Repeat("n", 1<<20)
	for i := range steps {
		steps[i].Name, steps[i].With = name, []byte{1}
	}
	b := AppendSteps(nil, steps)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, err := ReadSteps(b)
	runtime.ReadMemStats(&after)
	if err != nil || len(got) != MaxSteps || got[MaxSteps-1].Name != name {
		t.Fatalf("%d steps, %v", len(got), err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
		t.Errorf("%d bytes were decoded into %d MiB", len(b), took>>20)
	}
}

// A peer says what it likes: nothing took less than no time.
func TestNegativeDurations(t *testing.T) {
	block := AppendUsages(nil, []Usage{{Start: 5, Duration: -3, CPU: -1}, {Start: 9, Duration: 4}, {Start: 20, Duration: -1 << 63}})
	ends, err := ReadEnds(AppendEnds(nil, 3, func(int) End { return End{} }, block), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range ends {
		if e.Usage.Duration < 0 || e.Usage.CPU < 0 {
			t.Errorf("end %d: %+v", i, e.Usage)
		}
	}
}

// TestStepsAsRuns: what a run with steps stands for.
func TestStepsAsRuns(t *testing.T) {
	head := Run{ID: 7, Kind: 1, Task: 3, Attempt: 2, Live: []uint32{1}, Private: []uint32{1},
		Steps: AppendSteps(nil, []Step{{Kind: 2, Task: 13, Attempt: 1, Reads: 2, Keeps: 1, Only: 1}, {Kind: 2, Task: 23, Attempt: 1, Reads: 1, Name: "c[x]"}})}
	live := func(task dag.TaskIndex, attempt, output uint32, run RunID) []RunInput {
		return []RunInput{{Data: []Desc{{Ref: DatasetRef{Task: task, Output: output}, Attempt: attempt, Place: Place{Kind: PlaceLive, Run: run}}}}}
	}
	first := head
	first.Steps = nil
	want := []Run{first,
		{ID: 8, Kind: 2, Task: 13, Attempt: 1, Inputs: live(3, 2, 1, 7), Live: []uint32{0}, Private: []uint32{0}, With: []byte{}},
		{ID: 9, Kind: 2, Task: 23, Attempt: 1, Name: "c[x]", Inputs: live(13, 1, 0, 8), With: []byte{}},
	}
	if got, err := head.All(); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v\nwant %+v", got, err, want)
	}
}

func TestNamesOfAKind(t *testing.T) {
	k := &Kind{Group: "g", First: 10, Axes: []KindAxis{{First: 5, N: 2}, {First: -1, N: 3}}}
	var got []string
	for i := range dag.TaskIndex(6) {
		got = append(got, k.NameOf(10+i, ""))
	}
	want := []string{"g[5,-1]", "g[5,0]", "g[5,1]", "g[6,-1]", "g[6,0]", "g[6,1]"}
	if !reflect.DeepEqual(got, want) || k.NameOf(3, "given") != "given" || (&Kind{Group: "one"}).NameOf(3, "") != "one" {
		t.Fatalf("names %q, want %q", got, want)
	}
}

func TestGroupsOfAKind(t *testing.T) {
	for _, tt := range []struct{ group, task, want string }{
		{"g", "g[5,-1]", "g"},
		{"g", "m[0].calls/1", "g"},
		{"", "one", "one"},
		{"", "one[7]", "one"},
		{"", "one[a[b]", "one"},
	} {
		if got := (&Kind{Group: tt.group}).GroupOf(tt.task); got != tt.want {
			t.Errorf("kind of group %q, task %q: got %q, want %q", tt.group, tt.task, got, tt.want)
		}
	}
}

// FuzzColumns: bytes of any kind are read without a panic and without more memory
// than MaxSteps entries.
func FuzzColumns(f *testing.F) {
	u := AppendUsages(nil, []Usage{{Start: 5, Duration: 3}, {Start: 9, Duration: 4, CPU: 1}})
	f.Add(u)
	f.Add(AppendSteps(nil, []Step{{Kind: 1, Task: 2}, {Kind: 2, Task: 9, Name: "x"}}))
	f.Add(AppendEnds(nil, 2, func(i int) End { return End{Task: dag.TaskIndex(i)} }, u))
	f.Fuzz(func(t *testing.T, b []byte) {
		steps, _ := ReadSteps(b)
		ends, _ := ReadEnds(b, nil)
		usages, _ := ReadUsages(b, nil)
		if n := max(len(steps), len(ends), len(usages)); n > MaxSteps {
			t.Fatalf("%d entries", n)
		}
	})
}
