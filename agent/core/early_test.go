package core

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/cascade-run/cascade/comms"
)

// Notices whose Assign does not come are bounded in bytes and in time. Then they are
// dropped, and nothing else happens: an agent that has forgotten a job may still be told
// of it.
func TestEarlyNoticesAreBounded(t *testing.T) {
	at := time.Unix(1, 0)
	c := New(Config{Agent: "a"})
	step := func(ev Event) (timer time.Time) {
		t.Helper()
		for _, a := range c.Step(at, ev) {
			switch a := a.(type) {
			case ResetPeer:
				t.Errorf("the link to %s is made anew", a.Agent)
			case SetTimer:
				timer = a.At
			}
		}
		return timer
	}
	early := func(bytes int) time.Time {
		return step(FromPeer{Agent: "b", Msg: &comms.Notice{Job: comms.JobID{1}, Epoch: 1,
			Datasets: []comms.Desc{{Place: comms.Place{Kind: comms.PlaceInline, Bytes: make([]byte, bytes)}}}}})
	}
	if timer := early(1000); !timer.Equal(at.Add(earlyFor)) {
		t.Errorf("after one notice the timer is set to %v", timer)
	}
	early(earlyBytes)
	if len(c.early) != 1 || c.earlyBytes < earlyBytes || len(c.lapsed) != 1 {
		t.Errorf("after too many bytes %d notices of %d bytes wait, and %d are noted as dropped", len(c.early), c.earlyBytes, len(c.lapsed))
	}
	at = at.Add(earlyFor)
	step(Tick{})
	if len(c.early) != 0 || c.earlyBytes != 0 || len(c.lapsed) != 1 {
		t.Errorf("after %v %d notices of %d bytes wait, and %d are noted as dropped", earlyFor, len(c.early), c.earlyBytes, len(c.lapsed))
	}
	at = at.Add(lapsedFor)
	step(FromPeer{Agent: "c", Msg: &comms.Notice{Job: comms.JobID{2}}})
	at = at.Add(earlyFor)
	step(Tick{})
	if len(c.lapsed) != 1 || c.lapsed[0].from != "c" {
		t.Errorf("after %v it is still noted what was dropped: %v", lapsedFor, c.lapsed)
	}
}

// What was dropped is not kept in memory, however few notices come after it.
func TestDroppedNoticesAreFreed(t *testing.T) {
	at := time.Unix(1, 0)
	c := New(Config{Agent: "a"})
	var all []weak.Pointer[comms.Notice]
	for range 8 {
		m := &comms.Notice{Job: comms.JobID{1}, Epoch: 1, Datasets: make([]comms.Desc, 1000)}
		all = append(all, weak.Make(m))
		c.Step(at, FromPeer{Agent: "b", Msg: m})
		at = at.Add(time.Second)
	}
	left := func() (n int) {
		runtime.GC()
		for _, m := range all {
			if m.Value() != nil {
				n++
			}
		}
		return n
	}
	at = time.Unix(4, 0).Add(earlyFor) // of the fourth
	c.Step(at, Tick{})
	if n := left(); n != 4 || len(c.early) != 4 {
		t.Errorf("%d notices are in memory, %d wait; want 4", n, len(c.early))
	}
	at = at.Add(earlyFor)
	c.Step(at, Tick{})
	if n := left(); n != 0 || c.early != nil {
		t.Errorf("%d notices are in memory, and %d wait; want none", n, len(c.early))
	}
	runtime.KeepAlive(c)
}

// When an Assign comes of which notices were dropped, who told them tells them again.
func TestDroppedNoticesAreToldAgain(t *testing.T) {
	g := graph(t, chainJob)
	peers := []comms.Assignment{{Agent: "a", Run: []comms.Range{{First: 0, Last: 0}}}}
	for _, c := range []struct {
		what              string
		told, life, epoch uint64 // of the notice; of the Assign
		peers             []comms.Assignment
		reset             bool
		noted             int
	}{
		{"its own epoch", 2, 1, 2, peers, true, 0},
		{"an epoch before", 3, 1, 2, peers, true, 0}, // of which others may have been dropped
		{"an epoch after", 1, 1, 2, peers, false, 0},
		{"an epoch without peers", 2, 1, 2, nil, false, 0},
		{"another life", 2, 2, 2, peers, false, 1},
	} {
		t.Run(c.what, func(t *testing.T) {
			w := newWorld(t, hostOf(2), first)
			w.keep = true
			w.step(FromPeer{"a", &comms.Notice{Job: comms.JobID{1}, JobIncarnation: 1, Epoch: c.told}})
			w.now = w.now.Add(earlyFor)
			w.step(Tick{})
			if len(w.c.lapsed) != 1 {
				t.Fatalf("%d agents are noted", len(w.c.lapsed))
			}
			w.log = nil
			w.assign(1, g, comms.Assign{JobIncarnation: c.life, Epoch: c.epoch, Run: []comms.Range{{First: 1, Last: 1}}, Peers: c.peers})
			if reset := w.resets("a") == 1; reset != c.reset || len(w.c.lapsed) != c.noted {
				t.Errorf("the link is made anew: %v; %d agents are still noted", reset, len(w.c.lapsed))
			}
		})
	}
}

// TestLateForTheAssign: a job whose Assign comes when the notices about it were dropped runs to its end.
func TestLateForTheAssign(t *testing.T) {
	n := pair(t)
	g := graph(t, chainJob)
	job := n.worlds[0].assign(1, g, comms.Assign{Run: []comms.Range{{First: 0, Last: 0}}, Peers: []comms.Assignment{{Agent: "b", Incarnation: 1, Run: []comms.Range{{First: 1, Last: 1}}}}})
	n.run()
	w := n.worlds[1]
	w.now = w.now.Add(earlyFor)
	w.step(Tick{})
	if len(w.c.early) != 0 || len(w.c.lapsed) != 1 || w.resets("a") != 0 {
		t.Fatalf("%d notices wait, %d agents are noted, %d links were made anew", len(w.c.early), len(w.c.lapsed), w.resets("a"))
	}
	w.assign(1, g, comms.Assign{Run: []comms.Range{{First: 1, Last: 1}}, Peers: []comms.Assignment{{Agent: "a", Incarnation: 1, Run: []comms.Range{{First: 0, Last: 0}}}}})
	n.run()
	w.allEnded(job)
	if w.done[comms.TaskID{Job: job, Index: 1}] != 1 {
		t.Error("the reader has not run")
	}
}

// resets counts how often the link to an agent was made anew.
func (w *world) resets(agent string) (n int) {
	for _, a := range w.log {
		if r, ok := a.(ResetPeer); ok && r.Agent == agent {
			n++
		}
	}
	return n
}
