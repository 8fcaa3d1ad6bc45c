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

// TestDropsBeforeTheActor has word of an actor come by the links of others before the item that makes it, which its maker sends.
func TestDropsBeforeTheActor(t *testing.T) {
	class := &Class{Func: &Func{Name: "Tally"}}
	for _, row := range []struct {
		name string
		tell func(*actorHost)
		dead string
	}{
		{"a kill", func(h *actorHost) { h.drop(&comms.ActorDrop{Kill: []uint64{1}, Why: "enough"}) }, "the actor has ended: it was killed: enough"},
		{"no value refers to it any more", func(h *actorHost) { h.free(&comms.ActorFreed{Actors: []uint64{1}}) }, ""},
	} {
		h := &actorHost{exec: &Executor{reg: &Registry{}, welcome: &comms.Welcome{}}, ctx: t.Context(), actors: map[uint64]*hostedActor{}, lines: map[uint64]*actorLine{}}
		h.exec.reg.classes = map[string]*Class{"Tally": class}
		row.tell(h)
		line, err := h.lineOf(&callerLink{host: h}, &comms.ActorCall{Name: comms.ActorName{Handle: 7, Number: 1}, Actor: 1, Class: "Tally"})
		if err != nil || line == nil {
			t.Fatalf("%s: its making is refused: %v", row.name, err)
		}
		a := line.actor
		if got := a.dead; (got == nil) != (row.dead == "") || got != nil && got.Message != row.dead {
			t.Errorf("%s: it is dead: %+v, want %q", row.name, got, row.dead)
		}
		if row.dead == "" {
			a.mu.Lock()
			if a.shared = true; len(a.lines) != 1 || !a.freed {
				t.Errorf("%s: the actor does not know it", row.name)
			}
			a.mu.Unlock()
			if a.leave(line); a.dead == nil {
				t.Errorf("%s: it goes on behind its last line", row.name)
			}
		}
		h.actors[1] = a
		a.stop(nil)
	}
}
