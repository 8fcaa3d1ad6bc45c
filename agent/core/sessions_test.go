package core

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// admit has a program take its session.
func (w *world) admit(a Admit) {
	w.workers = append(w.workers, &worker{w: w, id: a.Executor, program: true, kinds: map[uint32]*comms.Kind{}, segs: map[uint32]uint64{},
		live: map[comms.RunID][]uint32{}})
	w.post(Spawned{Executor: a.Executor, PID: int64(a.Executor)})
}

// session does the next thing in the run of a session: it asks for memory, dies, or ends
// the session in order.
func (x *worker) session() {
	switch p := x.w.pick(1000, "session"); {
	case p < 300 && x.lease[0] == nil:
		x.token++
		x.wait = true
		x.send(&comms.LeaseReq{Token: x.token, Size: 4096, Run: x.cur.ID})
	case p < 300+x.w.crashes:
		x.die("signal: killed")
	case p > 900:
		if l := x.lease[0]; l != nil {
			x.back = append(x.back, l)
			l.Size = 0 // none of it was used
		}
		x.item(comms.ReportItem{Kind: comms.ReportFinished, Usage: &comms.Usage{Duration: 1000}})
		x.cur, x.stop = nil, true
	}
}

// leave is the end of a program, of which the agent hears by its link and by its process.
func (x *worker) leave(ev ExecutorDead) {
	broken := ExecutorBroken{x.id, ev.Why}
	if x.w.pick(2, "heard first") == 0 {
		x.w.post(broken)
		x.w.post(ev)
		return
	}
	x.w.post(ev)
	x.w.post(broken)
}

// TestRandomSessions has programs open sessions beside a random job: in any order, for
// sessions that are there or not, more than one for a session. Each session is given to one
// program at most, all of them end, and at the end nothing is held.
func TestRandomSessions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := randomGraph(t, true)
		host := randomHost(t)
		host.Total.Custom = append(host.Total.Custom, comms.Amount{Name: dag.AgentResource("a"), N: 1e12})
		w := newWorld(t, host, xorshift(rapid.Uint64().Draw(t, "seed")))
		w.randomFates(t)
		programs := map[uint64]int{} // what became of each that asked
		w.trace = func(_ Event, out []Action) {
			for _, a := range out {
				switch a := a.(type) {
				case Admit:
					programs[a.Key]++
				case Refuse:
					programs[a.Key]++
				}
			}
		}
		w.step(ControllerUp{})
		all := []comms.JobID{w.assign(1, g, comms.Assign{})}
		for n := range uint64(rapid.IntRange(1, 12).Draw(t, "things")) {
			id := byte(2 + w.pick(4, "session"))
			job := comms.JobID{id}
			switch _, there := w.jobs[job]; {
			case w.pick(2, "what") == 0:
				w.step(Attach{Key: n, Session: job, Output: w.pick(2, "output") == 0})
				programs[n] += 0
			case !there:
				s, err := dag.NewSession("session", "a", "")
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, w.assign(id, s, comms.Assign{}))
			case w.c.byJob[job] != nil && w.pick(3, "cancel") == 0:
				w.step(FromController{Msg: &comms.Steer{Job: job, Action: comms.SteerCancel, Reason: "enough"}})
			}
			for range w.pick(40, "turns") {
				w.turn()
			}
		}
		w.run()
		for _, job := range all {
			w.answer(job)
			w.allEnded(job)
		}
		for key, answers := range programs {
			if answers != 1 {
				t.Fatalf("program %d was answered %d times", key, answers)
			}
		}
		for _, job := range all {
			w.step(FromController{Msg: &comms.Steer{Job: job, Action: comms.SteerForget}})
		}
		w.run()
		w.nothingHeld()
		if n := len(w.c.sessions) + len(w.c.visitors) + len(w.c.lingering) + len(w.c.programs.execs); n > 0 {
			t.Fatalf("%d sessions, %d visitors, %d programs and %d that linger are left", len(w.c.sessions), len(w.c.visitors), len(w.c.programs.execs), len(w.c.lingering))
		}
	})
}
