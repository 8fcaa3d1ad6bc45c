package core

import (
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// FuzzForward has an agent take a call whose graph another has made up: it runs, or
// goes back, and nothing of it is left when it is recalled.
func FuzzForward(f *testing.F) {
	add := func(k comms.CallKind, env *dag.Environment) {
		g, err := graphOfCall(k, env)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(g.Encode(), uint8(len(k.Inputs)), false)
		f.Add(g.Encode(), uint8(len(k.Inputs)), true)
	}
	add(comms.CallKind{}, nil)
	add(comms.CallKind{Inputs: []comms.KindIn{{Name: "a"}, {Name: "b"}}, Resources: comms.Resources{GPU: 1000}}, nil)
	add(comms.CallKind{Inputs: []comms.KindIn{{Name: "a"}}}, &dag.Environment{Name: "e", Go: "./e"})
	f.Fuzz(func(t *testing.T, graph []byte, inputs uint8, far bool) {
		c := New(Config{Agent: "a", Total: comms.Resources{CPU: 1000, Memory: 1 << 30}, Memory: 1 << 20, ArenaBytes: 1 << 16, ForwardAfter: time.Second})
		now := time.Unix(1000, 0)
		step := func(ev Event) (back bool) {
			now = now.Add(time.Millisecond)
			for _, a := range c.Step(now, ev) {
				if p, ok := a.(ToPeer); ok {
					m, ok := p.Msg.(*comms.Forwarded)
					back = back || ok && m.Back != ""
				}
			}
			if err := c.Check(); err != nil {
				t.Fatalf("after %T: %v", ev, err)
			}
			return back
		}
		m := &comms.Forward{Call: comms.JobID{9}, Graph: graph, Name: "fit/0"}
		for range inputs {
			in := comms.ForwardedIn{Data: comms.Desc{Attempt: 1, Size: 1, Place: comms.Place{Kind: comms.PlaceInline, Bytes: []byte("x")}}}
			if far {
				in.Data.Place, in.Of = comms.Place{Kind: comms.PlaceAgent, Where: "b"}, comms.DatasetID{Job: comms.JobID{1}}
			}
			m.Inputs = append(m.Inputs, in)
		}
		step(PeerUp{Agent: "b"})
		if back := step(FromPeer{Agent: "b", Msg: m}); !back && len(c.guests) != 1 {
			t.Fatal("the call is neither here nor given back")
		}
		step(FromPeer{Agent: "b", Msg: &comms.Recall{Call: m.Call}})
		if len(c.guests) != 0 || len(c.jobs) != 0 || len(c.borrowed) != 0 {
			t.Fatalf("%d calls, %d jobs and %d datasets are left of a call that was recalled", len(c.guests), len(c.jobs), len(c.borrowed))
		}
	})
}

// graphOfCall is the graph that goes with a call of function F to another agent.
func graphOfCall(k comms.CallKind, env *dag.Environment) (*dag.Graph, error) {
	k.Function, k.Outputs = "F", []comms.KindOut{{Name: "y"}}
	e := &environment{job: &job{graph: noGraph}}
	if env != nil {
		e = &environment{job: &job{graph: &dag.Graph{Environments: []dag.Environment{*env}}}, name: env.Name}
	}
	shape, err := newShape(k, e)
	if err != nil {
		return nil, err
	}
	r := callRow{shape: shape, args: make([]argument, len(k.Inputs))}
	for i := range r.args {
		r.args[i].port = uint32(i)
	}
	return r.graph()
}
