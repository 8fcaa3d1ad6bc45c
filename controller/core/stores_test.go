package core

import (
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/planner"
	"github.com/cascade-run/cascade/profiles"
)

// What agents say of their stores is in plans: tasks whose outputs are needed later go
// where there is room for these, and less has to be spilled.
func TestPlansCountStores(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		a, b int64 // stores in GiB, 0: an agent of before they were told
		over int   // outputs for which no store has room
	}{{2, 16, 0}, {16, 2, 0}, {4, 4, 0}, {0, 0, 0}} {
		made := madeOn(t, c.a*gib, c.b*gib)
		over := 0
		for i, store := range []int64{c.a, c.b} {
			if store > 0 {
				over += max(made[i]-int(store), 0)
			}
		}
		if over != c.over || made[0]+made[1] != 8 {
			t.Errorf("with stores of %d and %d GiB agents get %d and %d that make a GiB each", c.a, c.b, made[0], made[1])
		}
		if c.a == c.b && made[0] != 4 {
			t.Errorf("with equal stores agents get %d and %d", made[0], made[1])
		}
	}
}

// madeOn runs a job on two agents as far as they are told what to run, and returns how many
// tasks that make a GiB each gets.
func madeOn(t *testing.T, stores ...int64) (made [2]int) {
	t.Helper()
	g, err := dag.ParseYAML("job.yaml", []byte(`
job: j
tasks:
  make: {run: F, for: {i: "0..7"}, out: [x, small]}
  all: {run: G, in: {x: "make[*].small"}, out: [y]}
  use: {run: H, for: {i: "0..7"}, in: {x: "make[${i}].x", y: all.y}, out: [z]}
outputs: ["use[0].z"]
`), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := profiles.File{Profiles: []profiles.Entry{
		{Job: "j", Task: "make", Function: "F", Runs: 1, Seconds: 0.2, Outputs: map[string]float64{"x": 1 << 30, "small": 0}},
		{Job: "j", Task: "all", Function: "G", Runs: 1, Seconds: 1},
		{Job: "j", Task: "use", Function: "H", Runs: 1, Seconds: 0.2},
	}}
	c, now := New(Config{Incarnation: 1, Spread: true, Bandwidth: 1e8, Effort: planner.Effort{Evaluations: 300}}), time.Unix(1000, 0)
	todo := []Event{Started{}}
	for i, name := range []string{"a", "b"} {
		link := LinkID(i + 1)
		todo = append(todo, LinkUp{Link: link, Agent: true, Name: name, Incarnation: 1},
			Received{link, &comms.Register{Agent: name, Incarnation: 1, Total: comms.Resources{CPU: 2000, Memory: 1 << 30}, Store: stores[i]}},
			Received{link, &comms.Snapshot{Done: true}})
	}
	todo = append(todo, LinkUp{Link: 3, Name: "client", Incarnation: 1}, Received{3, &comms.Submit{Req: 1, Job: comms.JobID{1}, Graph: []byte("g"), GraphHash: "g"}})
	for len(todo) > 0 {
		actions := c.Step(now, todo[0])
		todo = todo[1:]
		for _, a := range actions {
			switch a := a.(type) {
			case Prepare:
				p, err := planner.Spread(g, f.Snapshot(), a.Cluster)
				if err != nil {
					t.Fatal(err)
				}
				todo = append(todo, Prepared{Token: a.Token, Job: a.Job, Graph: g, Bytes: []byte("g"), Plan: p})
			case Improve:
				p, err := planner.Better(a.Graph, a.First, a.Cluster, a.Effort)
				if err != nil {
					t.Fatal(err)
				}
				todo = append(todo, Improved{Token: a.Token, Job: a.Job, Plan: p})
			case Create:
				todo = append(todo, Stored{Token: a.Token})
			case Store:
				todo = append(todo, Stored{Token: a.Token})
			case Send:
				if m, ok := a.Msg.(*comms.Assign); ok {
					if m.Run == nil { // all
						made[a.Link-1] = 8
					}
					for _, r := range m.Run {
						made[a.Link-1] += max(int(min(r.Last, 7))-int(r.First)+1, 0)
					}
				}
			}
		}
	}
	return made
}
