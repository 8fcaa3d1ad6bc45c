package core

import (
	"fmt"
	"math/bits"
	"testing"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// drawGraph draws a graph of up to eight tasks, some of whose inputs tolerate failures.
func drawGraph(t *rapid.T) *dag.Graph {
	b := dag.NewBuilder("r")
	b.Environment(dag.Environment{Name: "e", Go: "./e"})
	var before []dag.Handle
	for n := range rapid.IntRange(1, 8).Draw(t, "tasks") {
		grp := dag.Group{Name: fmt.Sprintf("t%d", n), Run: dag.Run{Environment: "e", Function: "F"}, Outputs: []dag.OutputDecl{{Name: "x"}}}
		var many []dag.From
		for k, h := range before {
			switch rapid.IntRange(0, 3).Draw(t, "edge") {
			case 0:
				grp.Inputs = append(grp.Inputs, dag.One(fmt.Sprintf("i%d", k), h.Out("x")))
			case 1:
				many = append(many, h.Out("x"))
			}
		}
		if len(many) > 0 {
			in := dag.Many("many", many...)
			in.Min = rapid.IntRange(0, len(many)).Draw(t, "min")
			grp.Inputs = append(grp.Inputs, in)
		}
		before = append(before, b.Add(grp))
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestNeededIsSmallest compares with every set of tasks: those that satisfy the
// rules, the smallest of them is what Needed finds.
func TestNeededIsSmallest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		n := g.NumTasks()
		states := make([]TaskState, n)
		there, once := make([]bool, n), make([]bool, n)
		for i := range n {
			states[i] = rapid.SampledFrom([]TaskState{TaskWaiting, TaskDone, TaskDone, TaskFailed}).Draw(t, "state")
			there[i] = states[i] != TaskWaiting && rapid.Bool().Draw(t, "there")
			once[i] = there[i] || states[i] == TaskDone || rapid.Bool().Draw(t, "once")
		}
		l := &Lineage{Graph: g, Again: rapid.Bool().Draw(t, "again"), State: func(i dag.TaskIndex) TaskState { return states[i] },
			Expand:    NewStates(g).Expand,
			Available: func(r comms.DatasetRef) bool { return there[r.Task] }, Published: func(r comms.DatasetRef) bool { return once[r.Task] }}
		var targets []dag.TaskIndex
		var wanted []comms.DatasetRef
		for i := range n {
			if rapid.Bool().Draw(t, "target") {
				targets = append(targets, dag.TaskIndex(i))
			}
			if rapid.IntRange(0, 3).Draw(t, "wanted") == 0 {
				wanted = append(wanted, comms.DatasetRef{Task: dag.TaskIndex(i)})
			}
		}
		run, err := l.Needed(targets, wanted)
		if err != nil {
			t.Fatal(err)
		}
		var got uint
		for _, i := range run {
			got |= 1 << i
		}
		best := uint(1<<n - 1)
		for set := range uint(1 << n) {
			if bits.OnesCount(set) < bits.OnesCount(best) && satisfies(t, l, set, targets, wanted) {
				best = set
			}
		}
		if got != best || !satisfies(t, l, got, targets, wanted) {
			t.Fatalf("runs %0*b, the smallest set is %0*b (states %v, there %v, targets %v, wanted %v)", n, got, n, best, states, there, targets, wanted)
		}
	})
}

// satisfies says in other words what Needed must achieve: when the tasks of set
// run, in order, every target has ended and every wanted dataset is there.
func satisfies(t *rapid.T, l *Lineage, set uint, targets []dag.TaskIndex, wanted []comms.DatasetRef) bool {
	runs := func(i dag.TaskIndex) bool { return set>>i&1 == 1 }
	for _, i := range targets {
		if l.State(i) != TaskDone && !runs(i) {
			return false
		}
	}
	for _, r := range wanted {
		if !l.Available(r) && !runs(r.Task) {
			return false
		}
	}
	for i := range l.Graph.NumTasks() {
		if !runs(dag.TaskIndex(i)) {
			continue
		}
		ins, err := l.Graph.Inputs(dag.TaskIndex(i))
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range ins {
			can := 0
			for _, src := range in.Sources {
				if l.Available(comms.DatasetRef{Task: src.Task}) || l.State(src.Task) != TaskFailed {
					can++
				}
			}
			for _, src := range in.Sources {
				absent := !l.Available(comms.DatasetRef{Task: src.Task}) && !runs(src.Task)
				never := !l.Again && !l.Published(comms.DatasetRef{Task: src.Task})
				tolerated := l.State(src.Task) == TaskFailed && (in.Min > 0 && can >= in.Min || never)
				if absent && !tolerated {
					return false
				}
			}
		}
	}
	return true
}

const streamJob = `
job: s
environments: {e: {go: ./e}}
tasks:
  gen: {run: "e:F", generates: {x: "*"}}
  each: {run: "e:F", for: {i: "gen.x[*]"}, in: {x: "gen.x[${i}]"}, out: [x]}
  fixed: {run: "e:F", generates: {x: 2}}
  all: {run: "e:F", in: {x: "each[*].x", y: "fixed.x[1]"}, out: [x, y]}
outputs: [all.x]
`

func mustParse(t testing.TB, src string) *dag.Graph {
	g, err := dag.ParseYAML("job.yaml", []byte(src), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestStatesUnderAnyEvents applies random events, also ones that make no sense,
// and requires that the counts stay right and that a replay gives the same.
func TestStatesUnderAnyEvents(t *testing.T) {
	g := mustParse(t, streamJob)
	rapid.Check(t, func(t *rapid.T) {
		r := NewReplay(g, true)
		live := NewStates(g)
		for n := range rapid.IntRange(0, 30).Draw(t, "batches") {
			b := records.Batch{Number: uint64(n), Agent: "a", Granting: records.GrantBegun}
			if rapid.IntRange(0, 5).Draw(t, "reset") == 0 {
				first := rapid.Uint32Range(0, 8).Draw(t, "first")
				b.Reset = []comms.Range{{First: dag.TaskIndex(first), Last: dag.TaskIndex(first + rapid.Uint32Range(0, 3).Draw(t, "more"))}}
			}
			for range rapid.IntRange(0, 3).Draw(t, "events") {
				task := dag.TaskIndex(rapid.Uint32Range(0, 12).Draw(t, "task"))
				e := comms.Event{Kind: comms.EventKind(rapid.IntRange(0, int(comms.EventEnv)+1).Draw(t, "kind")), Task: task,
					Attempt: rapid.Uint32Range(0, 3).Draw(t, "attempt"), Count: rapid.Uint64Range(0, 4).Draw(t, "count")}
				if rapid.Bool().Draw(t, "outputs") {
					e.Outputs = []comms.Desc{{Ref: comms.DatasetRef{Task: task, Element: rapid.Uint64Range(0, 4).Draw(t, "element")}, Size: 1}}
				}
				b.Events = append(b.Events, e)
			}
			r.Add(&b)
			live.Reset(b.Reset, b.Epoch+1)
			for i := range b.Events {
				live.Apply(&b.Events[i])
			}
			if err := live.check(); err != nil {
				t.Fatalf("batch %+v: %v", b, err)
			}
		}
		live.Each(func(i dag.TaskIndex, s TaskState) {
			_, attempt := live.Get(i)
			if again, replayed := r.States.Get(i); again != s || attempt != replayed {
				t.Fatalf("task %d is %s attempt %d, replayed %s attempt %d", i, s, attempt, again, replayed)
			}
		})
	})
}

func TestSecondCopyChangesNothing(t *testing.T) {
	g := mustParse(t, streamJob)
	s := NewStates(g)
	for _, e := range []comms.Event{
		{Kind: comms.EventStarted, Task: 0, Attempt: 1},
		{Kind: comms.EventRetry, Task: 0, Attempt: 1},
		{Kind: comms.EventFinished, Task: 0, Attempt: 2, Usage: &comms.Usage{Duration: 5}},
	} {
		s.Apply(&e)
		before := s.Totals()
		groups := s.Groups()
		s.Apply(&e)
		if e.Kind == comms.EventStarted {
			continue
		}
		if s.Totals() != before || s.Groups()[0] != groups[0] {
			t.Errorf("the second copy of %+v changed %+v to %+v", e, before, s.Totals())
		}
	}
	if st, attempt := s.Get(0); st != TaskDone || attempt != 2 {
		t.Errorf("state %s attempt %d", st, attempt)
	}
}

func TestNames(t *testing.T) {
	g := mustParse(t, streamJob)
	s := NewStates(g)
	gen, _ := g.Lookup("gen")
	s.Apply(&comms.Event{Kind: comms.EventPublished, Task: gen, Attempt: 1, Outputs: []comms.Desc{{Ref: comms.DatasetRef{Task: gen, Element: 1}}}})
	for _, c := range []struct{ name, want string }{
		{"gen.x[1]", "gen.x[1]"},
		{"gen", "gen.x[0] gen.x[1]"},
		{"gen.x", "gen.x[0] gen.x[1]"},
		{"gen.x[*]", "gen.x[0] gen.x[1]"},
		{"fixed.x[*]", "fixed.x[0] fixed.x[1]"},
		{"gen.x[*,*]", `dataset "gen.x[*,*]": want the element's number in brackets, or *`},
		{"all.x[*]", `dataset "all.x[*]": the output is no series, leave out [*]`},
		{"each[1]", "each[1].x"},
		{"each[1].x", "each[1].x"},
		{"fixed", "fixed.x[0] fixed.x[1]"},
		{"all.y", "all.y"},
		{"all", `dataset "all": the task has 2 outputs, name one: x, y`},
		{"all.z", `dataset "all.z": the task has no output "z"; it has: x, y`},
		{"all.x[1]", `dataset "all.x[1]": the output is no series, leave out [1]`},
		{"gen.x[a]", `dataset "gen.x[a]": want the element's number in brackets, or *`},
		{"each[7].x", `dataset "each[7].x": task each[7] never came to be`},
		{"each", "each[0].x each[1].x"},
		{"each.x", "each[0].x each[1].x"},
		{"each[*].x", "each[0].x each[1].x"},
		{"each[*,*].x", `no dataset "each[*,*].x" in job s: want TASK.OUTPUT, such as map.page or spread[2,500].mean`},
		{"each.y", `dataset "each.y": the task has no output "y"; it has: x`},
		{"nosuch.x", `no dataset "nosuch.x" in job s: want TASK.OUTPUT, such as map.page or spread[2,500].mean`},
	} {
		refs, _, err := Resolve(g, s, c.name)
		got := ""
		for _, r := range refs {
			got += " " + g.DatasetName(dag.Dataset(r))
		}
		if err != nil {
			got = " " + err.Error()
		}
		if got != " "+c.want {
			t.Errorf("%s:%s, want %s", c.name, got, c.want)
		}
	}
}

// However many tries an agent that was lost had told others of and not the
// controller, whoever has its tasks next uses other numbers. Instances of which
// the controller knows nothing are among them.
func TestNoAttemptTwice(t *testing.T) {
	g := mustParse(t, streamJob)
	gen, _ := g.Lookup("gen")
	all := []dag.TaskIndex{gen, gen + 1}
	slot := g.StreamSlots(gen, 0)[0]
	for e := range uint64(3) {
		i, err := g.Instance(slot, e)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, i)
	}
	type name struct {
		task    dag.TaskIndex
		attempt uint32
	}
	rapid.Check(t, func(t *rapid.T) {
		s := NewStates(g)
		by := map[name]int{}
		for process := range rapid.IntRange(1, 6).Draw(t, "processes") {
			var events []comms.Event
			for k, task := range all {
				_, attempt := s.Get(task)
				if k >= 2 {
					_, generator := s.Get(gen)
					attempt = max(attempt, comms.Following(generator))
					events = append(events, comms.Event{Kind: comms.EventPublished, Task: gen, Attempt: generator,
						Outputs: []comms.Desc{{Ref: comms.DatasetRef{Task: gen, Element: uint64(k - 2)}}}})
				}
				for range rapid.IntRange(0, 3).Draw(t, "tries") {
					n := name{task, attempt}
					if other, used := by[n]; used && other != process {
						t.Fatalf("processes %d and %d both make attempt %d.%d of task %d", other, process, attempt>>16, comms.Try(attempt), task)
					}
					by[n] = process
					events = append(events, comms.Event{Kind: comms.EventRetry, Task: task, Attempt: attempt})
					attempt = comms.NextTry(attempt)
				}
			}
			for i := range rapid.IntRange(0, len(events)).Draw(t, "told") {
				s.Apply(&events[i])
			}
			b := records.Batch{Epoch: uint64(process), Granting: records.GrantBegun}
			for _, task := range all {
				if state := s.get(task); state == TaskAbsent {
					continue
				}
				r := comms.Range{First: task, Last: task}
				if rapid.Bool().Draw(t, "reset") && s.attempt[task] > 1 {
					b.Reset = append(b.Reset, r)
				} else {
					b.Moved = append(b.Moved, r)
				}
			}
			s.StartOver(&b)
		}
	})
}

// A generator is made to start over while its agent does not know of it yet. What the
// agent says of an element that it made meanwhile is void; what it says of a task
// that had not begun counts, since that one keeps its attempt.
func TestEventsBeforeAReset(t *testing.T) {
	g := mustParse(t, `
job: j
tasks:
  read: {run: R, generates: {x: "*"}}
  each: {for: {i: "read.x[*]"}, run: E, in: {x: "read.x[${i}]"}, out: [y]}
  late: {run: L, out: [z]}
`)
	s := NewStates(g)
	apply := func(epoch uint64, kind comms.EventKind, name string, attempt uint32) bool {
		t.Helper()
		i, ok := g.Lookup(name)
		if !ok {
			t.Fatal("no task ", name)
		}
		s.At(&records.Batch{Epoch: epoch, Agent: "a"})
		return s.Apply(&comms.Event{Kind: kind, Task: i, Attempt: attempt})
	}
	late, _ := g.Lookup("late")
	apply(1, comms.EventStarted, "read", 1)
	s.Reset([]comms.Range{{First: 0, Last: 0}, {First: late, Last: late}}, 2)
	_, again := s.Get(0)
	for _, tt := range []struct {
		epoch   uint64
		kind    comms.EventKind
		task    string
		attempt uint32
		counts  bool
	}{
		{1, comms.EventPublished, "read", 2, false},
		{1, comms.EventRetry, "each[0]", 1, false},
		{1, comms.EventFinished, "each[0]", 1, false},
		{1, comms.EventFinished, "late", 1, true},
		{2, comms.EventStarted, "read", again, true},
		{2, comms.EventFinished, "each[0]", comms.Following(again), true},
	} {
		if got := apply(tt.epoch, tt.kind, tt.task, tt.attempt); got != tt.counts {
			t.Errorf("epoch %d: %d of %s, attempt %d: counts %v, want %v", tt.epoch, tt.kind, tt.task, tt.attempt, got, tt.counts)
		}
	}
	if err := s.check(); err != nil {
		t.Error(err)
	}
}
