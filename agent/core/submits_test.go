package core

import (
	"cmp"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// submits is what concerns graphs that tasks run.
func (s *script) submits(cmd string, w []string, named map[string]string) string {
	switch cmd {
	case "graph": // EXECUTOR calls one of a task, with a value or what an earlier call returns
		given := dag.NewDoor("x", "a1", dag.GivenFunction)
		given.Outputs = []dag.OutputDecl{{Name: "data"}}
		taken := dag.NewDoor("results", "a1", dag.TakenFunction)
		taken.Inputs = []dag.InputDecl{dag.One("output0", dag.From{Text: "t.y"})}
		b := dag.NewBuilder("g")
		b.Add(given)
		b.Add(dag.Group{Name: "t", Run: dag.Run{Function: "F"}, Inputs: []dag.InputDecl{dag.One("x", dag.From{Text: "x.data"})}, Outputs: []dag.OutputDecl{{Name: "y"}}})
		b.Add(taken)
		g, err := b.Build()
		if err != nil {
			s.t.Fatal(err)
		}
		in := comms.CallInput{From: comms.FromCall, Ref: comms.CallRef{Number: uint64(number(cmp.Or(named["earlier"], "0")))}}
		if v := named["value"]; v != "" {
			in = comms.CallInput{Data: comms.Desc{Codec: "raw", Size: uint64(len(v)), Place: comms.Place{Kind: comms.PlaceInline, Bytes: []byte(v)}}}
		}
		k := comms.CallKind{ID: 2, Function: "g", Graph: g.Encode(), Inputs: []comms.KindIn{{Name: "x"}}, Outputs: []comms.KindOut{{Name: "output0"}}}
		return s.step(FromExecutor{comms.ExecutorID(number(w[0])), &comms.Calls{Run: comms.RunID(number(named["run"])), Kinds: []comms.CallKind{k},
			Items: []comms.CallItem{{Ref: callRef(named), Kind: 2, Inputs: []comms.CallInput{in}}}}})
	case "assign-graph": // the N-th job that is open
		m := s.c.submits.open[number(w[0])-1].submit
		g, err := dag.Decode(m.Graph)
		if err != nil {
			s.t.Fatal(err)
		}
		return s.step(FromController{Msg: &comms.Assign{Job: m.Job, Epoch: 1, Dir: m.Dir, Run: []comms.Range{{Last: 2}}}, Graph: g})
	case "refused": // the N-th job that is open
		return s.step(FromController{Msg: &comms.Reply{Req: s.c.submits.open[number(w[0])-1].submit.Req, Code: comms.CodeConflict, Message: "no room"}})
	}
	m := &comms.Progress{Job: s.c.submits.open[number(w[0])-1].submit.Job, Final: true, Phase: map[string]comms.JobPhase{"done": comms.JobDone, "failed": comms.JobFailed, "cancelled": comms.JobCancelled}[w[1]]}
	if named["error"] != "" {
		m.Error = &comms.TaskError{Kind: comms.ErrorTask, Task: "t", Message: named["error"]}
	}
	return s.step(FromController{Msg: m})
}
