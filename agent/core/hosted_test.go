package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// FuzzGrant has an agent take a task that another has made up: it runs, or goes back, and
// nothing of it is left when the grant has ended.
func FuzzGrant(f *testing.F) {
	env := func(e dag.Environment) []byte {
		return encodeEnvironments([]dag.Environment{e})
	}
	f.Add([]byte(nil), "", uint8(0), uint8(1), false)
	f.Add([]byte(nil), "", uint8(2), uint8(2), true)
	f.Add(env(dag.Environment{Name: "e", Go: "./e"}), "e", uint8(1), uint8(1), true)
	f.Add(env(dag.Environment{Name: "e", Go: "./e"}), "other", uint8(1), uint8(1), false)
	f.Fuzz(func(t *testing.T, environment []byte, name string, ports, inputs uint8, far bool) {
		c := New(Config{Agent: "a", Total: comms.Resources{CPU: 1000, Memory: 1 << 30}, Memory: 1 << 20, ArenaBytes: 1 << 16, ForwardAfter: time.Second})
		now := time.Unix(1000, 0)
		step := func(ev Event) (back bool) {
			now = now.Add(time.Millisecond)
			for _, a := range c.Step(now, ev) {
				if p, ok := a.(ToPeer); ok {
					m, ok := p.Msg.(*comms.GrantReport)
					back = back || ok && m.Items[0].Back != ""
				}
			}
			if err := c.Check(); err != nil {
				t.Fatalf("after %T: %v", ev, err)
			}
			return back
		}
		m := granted(comms.CallKind{Environment: name})
		m.Environment = environment
		for i := range ports {
			m.Kind.Inputs = append(m.Kind.Inputs, comms.KindIn{Name: fmt.Sprint(i), List: i%2 == 1})
		}
		task := comms.GrantTask{Grant: 9, Name: "fit/0"}
		for i := range inputs {
			in := comms.GrantInput{Port: uint32(i), Data: comms.Desc{Attempt: 1, Size: 1, Place: comms.Place{Kind: comms.PlaceInline, Bytes: []byte("x")}}}
			if far {
				in.Data.Place, in.Of = comms.Place{Kind: comms.PlaceAgent, Where: "b"}, comms.DatasetID{Job: comms.JobID{1}}
			}
			task.Inputs = append(task.Inputs, in)
		}
		m.Tasks = []comms.GrantTask{task, task}
		step(PeerUp{Agent: "b"})
		if back := step(FromPeer{Agent: "b", Msg: m}); !back && len(c.hosts) != 1 {
			t.Fatal("the task is neither here nor returned")
		}
		step(FromPeer{Agent: "b", Msg: &comms.GrantEnd{Grants: []uint64{9, 9}}})
		step(Idle{})
		if len(c.jobs) > 0 {
			t.Fatalf("%d jobs are left of a grant that has ended", len(c.jobs))
		}
		if len(c.hosts)+len(c.copies) > 0 {
			t.Fatalf("%d tasks and %d datasets are left of a grant that has ended", len(c.hosts), len(c.copies))
		}
	})
}

// granted is a grant of tasks of function F of a task of a job.
func granted(k comms.CallKind) *comms.Grant {
	k.Function, k.Outputs = "F", []comms.KindOut{{Name: "y"}}
	return &comms.Grant{Root: comms.TaskID{Job: comms.JobID{1}, Index: 4}, Group: "fit", Kind: k, Dir: "/job", Tenant: "anna", Depth: 1}
}
