package executor

import (
	"testing"

	"github.com/cascade-run/cascade/comms"
)

// TestDeathEndsHolds has the process of an actor die whose last handle is gone and which has an open call: nothing holds what
// stands for it in values any more.
func TestDeathEndsHolds(t *testing.T) {
	for name, die := range map[string]func(*actorProcess){
		"it ends":  func(p *actorProcess) { p.end("it is over", nil) },
		"it falls": func(p *actorProcess) { p.fallen("it is over", nil) },
	} {
		r := &run{exec: &Executor{ctx: t.Context(), welcome: &comms.Welcome{}}}
		r.ctx = &runContext{exec: r.exec, run: r}
		c := r.called()
		c.armed = true // nothing is sent
		s := &strand{id: sharedStrand}
		c.strands[sharedStrand] = s
		hold := &callState{run: r, ref: comms.CallRef{Strand: s.id}, put: true, data: &callData{}}
		s.calls.Set(0, hold)
		p := newActorProcess(r.actorsOf(), 1, "")
		a := p.newActor("Tally", ActorLife{})
		a.hold, a.last = hold, 1
		a.open.Set(1, &actorCall{actor: a})
		p.leave(a)
		if len(c.drops) > 0 {
			t.Errorf("%s: the hold ended before the open call", name)
		}
		die(p)
		if len(c.drops) != 1 {
			t.Errorf("%s: %d holds have ended, want 1", name, len(c.drops))
		}
	}
}
