package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// calm is a world in which nothing breaks, with one job whose tasks lie on agents
// by turns.
func calm(t *testing.T, agents int, g *dag.Graph) *world {
	t.Helper()
	var without []string
	for _, k := range tamings() {
		if k.name != "agents" && k.name != "third-agent" && k.name != "spread" {
			without = append(without, k.name)
		}
	}
	w := newWorld(Options{Seed: 1, Without: without})
	w.fate.agents, w.fate.spread = agents, spreadTurns
	w.fate.cuts, w.fate.segment, w.fate.grace = 0, 500, 10*time.Second
	w.agents = nil
	for i := range agents {
		w.agents = append(w.agents, newAgent(w, fmt.Sprintf("agent%d", i)))
	}
	j := &clientJob{graph: g, bytes: g.Encode()}
	j.id[15] = 1
	w.client.jobs = []*clientJob{j}
	w.oracle.facts = map[comms.JobID]*facts{}
	w.oracle.add(j.id, g)
	return w
}

// layered makes a job of n layers of m tasks, each of which reads one task of the
// layer before, or all.
func layered(t *testing.T, n, m int, all bool) *dag.Graph {
	t.Helper()
	var b strings.Builder
	b.WriteString("job: layers\nenvironments: {e: {go: ./e}}\ntasks:\n")
	for l := range n {
		in := ""
		if l > 0 && all {
			in = fmt.Sprintf("in: {x: \"l%d[*].o\"}, ", l-1)
		} else if l > 0 {
			in = fmt.Sprintf("in: {x: \"l%d[${i}].o\"}, ", l-1)
		}
		fmt.Fprintf(&b, "  l%d: {run: \"e:F\", for: {i: \"0..%d\"}, %sout: [o]}\n", l, m-1, in)
	}
	fmt.Fprintf(&b, "outputs: [\"l%d[*].o\"]\n", n-1)
	g, err := dag.ParseYAML("job.yaml", []byte(b.String()), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// untilDone runs the world until the store has the end of its job.
func untilDone(t *testing.T, w *world, each func()) {
	t.Helper()
	w.controller.boot()
	for _, a := range w.agents {
		a.boot()
	}
	w.client.boot()
	j := w.client.jobs[0]
	for !j.final {
		if each != nil {
			each()
		}
		if w.next(); w.failed != nil || w.now > w.fate.heal+patience {
			t.Fatalf("at %v: %v", w.now, w.failed)
		}
	}
	if j.phase != comms.JobDone {
		t.Fatalf("the job is %s", j.phase)
	}
}

// TestControllerIsOffTheCriticalPath: a chain whose tasks lie on two agents by
// turns runs from its first task to its last while the controller is frozen.
func TestControllerIsOffTheCriticalPath(t *testing.T) {
	w := calm(t, 2, layered(t, 20, 1, false))
	frozen, ended := false, 0
	untilDone(t, w, func() {
		f := w.oracle.facts[w.client.jobs[0].id]
		switch {
		case !frozen && len(f.begun) == 1: // the first task was given to an executor
			frozen = true
			w.controller.frozen = w.now + 5*time.Second
		case frozen && w.controller.frozen > w.now:
			ended = len(f.begun)
		}
	})
	if !frozen || ended != 20 {
		t.Fatalf("of a chain of 20 tasks on two agents %d began while the controller was frozen", ended)
	}
}

// TestControllerHearsOfTasksNotOfEdges: what agents tell the controller grows with
// the tasks; fifteen times the edges add nothing.
func TestControllerHearsOfTasksNotOfEdges(t *testing.T) {
	count := func(g *dag.Graph) (ends, messages, between int) {
		w := calm(t, 2, g)
		w.heard = func(who, way string, m comms.Message) {
			if ev, ok := m.(*comms.Events); ok && who == w.controller.name {
				messages++
				for i := range ev.Jobs {
					for k := range ev.Jobs[i].Events {
						ev.Jobs[i].Events[k].Each(func(e *comms.Event) bool {
							if e.Kind == comms.EventFinished {
								ends++
							}
							return true
						})
					}
				}
			}
			if n, ok := m.(*comms.Notice); ok && strings.HasPrefix(way, "to ") {
				between += len(n.Datasets)
			}
		}
		untilDone(t, w, nil)
		return ends, messages, between
	}
	oneEnds, oneMessages, one := count(layered(t, 5, 15, false))
	allEnds, allMessages, all := count(layered(t, 5, 15, true))
	t.Logf("60 edges: %d messages to the controller, %d datasets told between agents; 900 edges: %d and %d", oneMessages, one, allMessages, all)
	if oneEnds != 75 || allEnds != 75 || max(oneMessages, allMessages) > 2*75 {
		t.Errorf("the controller heard of %d ends in %d messages with 60 edges, of %d in %d with 900: want 75 ends, at most two messages for each", oneEnds, oneMessages, allEnds, allMessages)
	}
	// Each dataset that another agent reads is told it once, and not for each edge.
	if one != 60 || all != 60 {
		t.Errorf("agents told each other of %d datasets with 60 edges, of %d with 900: want one for each of the 60 that are read", one, all)
	}
}

// TestLongTaskSurvives: a task that takes ten minutes, and one on another agent that
// waits for it, run once each while the controller starts anew and links are away.
func TestLongTaskSurvives(t *testing.T) {
	const long = 10 * time.Minute
	w := calm(t, 2, layered(t, 2, 1, false))
	w.fate.executorHangs, w.fate.heal = 1000, long
	hung := func() (on *agent) {
		for _, a := range w.agents {
			if slices.ContainsFunc(a.execs, func(x *executor) bool { return x.hung }) {
				on = a
			}
		}
		return on
	}
	untilDone(t, w, func() {
		a := hung()
		if a == nil || w.fate.executorHangs == 0 {
			return
		}
		w.fate.executorHangs = 0
		w.at(time.Minute, func() { w.controller.crash(30*time.Second, "killed") })
		for i, pair := range [][2]string{{a.name, w.controller.name}, {w.agents[0].name, w.agents[1].name}} {
			away := time.Duration(3+i) * time.Minute
			w.at(away, func() { w.part(pair[0], pair[1]) })
			w.at(away+w.fate.grace/2, func() { w.join(pair[0], pair[1]) })
		}
	})
	f := w.oracle.facts[w.client.jobs[0].id]
	if w.now < long {
		t.Errorf("the job ended after %v: its first task was to take %v", w.now, long)
	}
	for _, task := range []dag.TaskIndex{0, 1} {
		if f.done[task] != 1 {
			t.Errorf("task %d ended in attempt %d: want 1", task, f.done[task])
		}
	}
}
