package sim

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// TestProgramsDoAll: a few seeds are enough for each thing that a program may do to be done.
func TestProgramsDoAll(t *testing.T) {
	did := map[string]int{}
	note := func(what string, is bool) {
		if is {
			did[what]++
		}
	}
	for seed := uint64(1); seed <= 60; seed++ {
		w := newWorld(Options{Seed: seed, Programs: true, Forwards: seed%2 == 0})
		w.heard = func(_, way string, m comms.Message) {
			if !strings.HasPrefix(way, "from ") {
				return
			}
			switch m := m.(type) {
			case *comms.Calls:
				for i := range m.Items {
					it := &m.Items[i]
					note("a value is put", it.Kind == 0)
					note("a call of a second strand", it.Kind != 0 && it.Ref.Strand != 0)
					note("a named call", it.Name != "")
					for _, in := range it.Inputs {
						note("an element is passed on", in.From == comms.FromCall && in.Element > 0)
						note("an output is passed on", in.From == comms.FromCall)
						note("an input is passed on", in.From == comms.FromInput)
						note("a value in shared memory", in.Data.Place.Kind == comms.PlaceSegment && in.From == comms.FromValue)
					}
				}
				for _, k := range m.Kinds {
					note("a stream", k.Outputs[0].Generate != dag.GenerateNone)
					note("a list", k.Inputs[0].List)
					note("two outputs", len(k.Outputs) == 2)
					note("a call that is tried again", k.Retries > 0)
					note("a call that stays", k.Here)
					note("a call that must go elsewhere", len(k.Resources.Custom) > 0)
				}
				note("a program that is not repeatable", m.Once)
				note("an argument refers to a call", len(m.Refs) > 0)
				for i := range m.Items {
					for _, in := range m.Items[i].Inputs {
						note("a reference is found in a result", in.From == comms.FromCallValue)
						note("a reference is found in an input", in.From == comms.FromInputValue)
					}
				}
			case *comms.Listed:
				note("a result refers to calls", true)
			case *comms.GrantReport:
				for i := range m.Items {
					note("a result of another agent refers to calls", len(m.Items[i].Refs) > 0)
				}
			case *comms.CallDrop:
				note("calls are cancelled", m.Cancel)
				note("calls are dropped", !m.Cancel)
			case *comms.CallWait:
				note("a wait for several calls", len(m.Refs) > 1 && m.N > 1)
				note("a wait for some of them", m.N > 0 && len(m.Refs) > int(m.N))
			case *comms.CallRead:
				note("a result is read", true)
			case *comms.Grant:
				note("calls go elsewhere", true)
				note("a reference of another agent is read", m.Kind.Function == "")
				for i := range m.Tasks {
					note("an argument of another agent refers to calls", len(m.Tasks[i].Refs) > 0)
				}
			}
		}
		if w.run(); w.failed != nil {
			t.Errorf("seed %d: %v", seed, w.failed)
		}
		note("another try meets a call", w.oracle.calls.again > 0)
		note("the end of a call is stored", len(w.oracle.calls.ended) > 0)
		note("a program is below the second", w.oracle.calls.deepest > 1)
	}
	for _, what := range []string{"an argument refers to a call", "a reference is found in a result", "a reference is found in an input", "a result refers to calls",
		"a result of another agent refers to calls", "a reference of another agent is read", "an argument of another agent refers to calls", "a value is put", "a call of a second strand", "a named call", "an element is passed on", "an output is passed on", "an input is passed on",
		"a value in shared memory", "a stream", "a list", "two outputs", "a call that is tried again", "a call that stays", "a call that must go elsewhere", "a program that is not repeatable",
		"calls are cancelled", "calls are dropped", "a wait for several calls", "a wait for some of them", "a result is read", "calls go elsewhere", "another try meets a call", "the end of a call is stored", "a program is below the second"} {
		if did[what] == 0 {
			t.Errorf("no program does it: %s", what)
		}
	}
}

// TestModel: ends that a call may not have.
func TestModel(t *testing.T) {
	out := []comms.Desc{{}}
	failed := func(kind comms.ErrorKind, text string) *comms.CallEnd {
		return &comms.CallEnd{Error: &comms.TaskError{Kind: kind, Message: text}}
	}
	element := func(n uint64) *comms.CallEnd {
		return &comms.CallEnd{Element: true, Outputs: []comms.Desc{{Ref: comms.DatasetRef{Element: n}}}}
	}
	counts := func(n uint64) *comms.CallEnd { return &comms.CallEnd{Counts: []comms.StreamEnd{{Count: n}}} }
	bad := &callVar{act: &act{}, ways: ways{outputs: 1}, end: failed(comms.ErrorTask, onPurpose)}
	for name, c := range map[string]struct {
		v     callVar
		e     *comms.CallEnd
		fates func(*fates)
		drops bool
		wrong bool
	}{
		"it returns":                              {v: callVar{ways: ways{outputs: 1}}, e: &comms.CallEnd{Outputs: out}},
		"it returns one of two":                   {v: callVar{ways: ways{outputs: 2}}, e: &comms.CallEnd{Outputs: out}, wrong: true},
		"it returns twice":                        {v: callVar{ways: ways{outputs: 1}, end: &comms.CallEnd{}}, e: &comms.CallEnd{Outputs: out}, wrong: true},
		"it fails on purpose":                     {v: callVar{ways: ways{outputs: 1, fails: true}}, e: failed(comms.ErrorTask, onPurpose)},
		"it fails, and should not":                {v: callVar{ways: ways{outputs: 1}}, e: failed(comms.ErrorTask, onPurpose), wrong: true},
		"it returns, and should fail":             {v: callVar{ways: ways{outputs: 1, fails: true}}, e: &comms.CallEnd{Outputs: out}, wrong: true},
		"it is cancelled, and was not":            {v: callVar{ways: ways{outputs: 1}}, e: failed(comms.ErrorCancelled, ""), wrong: true},
		"it is cancelled":                         {v: callVar{act: &act{id: 7}, ways: ways{outputs: 1}}, e: failed(comms.ErrorCancelled, "")},
		"its argument is there":                   {v: callVar{ways: ways{outputs: 1}}, e: failed(comms.ErrorInput, ""), wrong: true},
		"its argument has failed":                 {v: callVar{ways: ways{outputs: 1}, reads: []*callVar{bad}}, e: failed(comms.ErrorInput, "")},
		"it returns although an argument failed":  {v: callVar{ways: ways{outputs: 1}, reads: []*callVar{bad}}, e: &comms.CallEnd{Outputs: out}, wrong: true},
		"its argument was dropped, and ran again": {v: callVar{ways: ways{outputs: 1}, reads: []*callVar{bad}}, e: &comms.CallEnd{Outputs: out}, drops: true},
		"an element":                              {v: callVar{ways: ways{outputs: 1, elements: 2}}, e: element(0)},
		"an element is left out":                  {v: callVar{ways: ways{outputs: 1, elements: 2}}, e: element(1), wrong: true},
		"an element too many":                     {v: callVar{ways: ways{outputs: 1, elements: 2}, elements: make([]comms.Desc, 2)}, e: element(2), wrong: true},
		"a stream ends":                           {v: callVar{ways: ways{outputs: 1, elements: 2}, elements: make([]comms.Desc, 2)}, e: counts(2)},
		"a stream is short":                       {v: callVar{ways: ways{outputs: 1, elements: 2}, elements: make([]comms.Desc, 1)}, e: counts(1), wrong: true},
		"a stream counts what was not told":       {v: callVar{ways: ways{outputs: 1, elements: 2}, elements: make([]comms.Desc, 1)}, e: counts(2), wrong: true},
		"bad luck":                                {v: callVar{ways: ways{outputs: 1}}, e: failed(comms.ErrorTask, badLuck), fates: func(f *fates) { f.taskFails = 1 }},
		"bad luck where there is none":            {v: callVar{ways: ways{outputs: 1}}, e: failed(comms.ErrorTask, badLuck), wrong: true},
		"poison where nothing crashes":            {v: callVar{ways: ways{outputs: 1}}, e: failed(comms.ErrorPoison, ""), wrong: true},
		"no room where all is in messages":        {v: callVar{ways: ways{outputs: 1}}, e: failed(comms.ErrorStore, ""), wrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := calm(t, 1, layered(t, 1, 1, false))
			w.drawn = fates{}
			if c.fates != nil {
				c.fates(&w.drawn)
			}
			x := newExecutor(w.agents[0], 1)
			x.calls.prog = &program{depth: 1, cancels: map[int]bool{7: true}, drops: map[int]bool{0: c.drops}}
			if c.v.act == nil {
				c.v.act = &act{}
			}
			if why := x.wrongEnd(&c.v, c.e); (why != "") != c.wrong {
				t.Errorf("the model says %q", why)
			}
		})
	}
}

// TestWithoutActs: acts that are left out are not in a program, nor is what needs them; the
// others are what they were.
func TestWithoutActs(t *testing.T) {
	less := 0
	for key := range uint64(100) {
		w := newWorld(Options{Seed: 1 + key, Programs: true})
		all := w.program(key, w.fate.programs.depth)
		if again := w.program(key, w.fate.programs.depth); !reflect.DeepEqual(all, again) {
			t.Fatalf("program %d is drawn in two ways", key)
		}
		w.ranProgram(all)
		for _, part := range w.runParts {
			w.without = []string{part}
			left := w.program(key, w.fate.programs.depth)
			if less += len(all.acts) - len(left.acts); len(left.acts) >= len(all.acts) {
				t.Errorf("without %s program %d has as many acts", part, key)
			}
			for _, a := range left.acts {
				if !slices.ContainsFunc(all.acts, func(o act) bool { return reflect.DeepEqual(a, o) }) {
					t.Errorf("without %s program %d has another act %d", part, key, a.id)
				}
			}
		}
	}
	if less == 0 {
		t.Error("nothing was left out")
	}
}
