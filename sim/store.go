package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/dag"
)

// store is the controller's store: what was written, in order, survives. A
// write takes time; when the process dies, a part of the writes on their way,
// from the oldest, still happens.
type store struct {
	w      *world
	c      *controller
	jobs   map[comms.JobID]*core.Kept
	writes []*write      // on their way, in order
	busy   time.Duration // when the last of them will be done
	told   time.Duration // when the driver hears of it: in order
}

type write struct{ apply func() }

func newStore(w *world, c *controller) *store {
	return &store{w: w, c: c, jobs: map[comms.JobID]*core.Kept{}}
}

func (s *store) sorted() []*core.Kept {
	return slices.SortedFunc(maps.Values(s.jobs), func(a, b *core.Kept) int { return slices.Compare(a.Row.ID[:], b.Row.ID[:]) })
}

// put plans a write behind those before; done is told a little after it is durable.
func (s *store) put(apply, done func()) {
	wr := &write{apply}
	s.writes = append(s.writes, wr)
	s.busy = max(s.busy, s.w.now) + s.w.between(10*time.Microsecond, s.w.fate.commit)
	life := s.c.life
	s.w.at(s.busy, func() {
		if s.c.life != life || !s.c.running {
			return
		}
		s.writes = s.writes[1:]
		apply()
		if s.c.running {
			s.told = max(s.told, s.w.now+s.w.between(0, 50*time.Microsecond))
			s.c.after(s.told-s.w.now, done)
		}
	})
}

// later runs something slow that sees all that was written before.
func (s *store) later(do func()) {
	s.c.after(max(0, s.busy-s.w.now)+s.w.between(10*time.Microsecond, s.w.fate.commit), do)
}

// crash keeps a prefix of what was on its way.
func (s *store) crash() {
	n := 0
	if len(s.writes) > 0 {
		n = s.w.rnd.IntN(len(s.writes) + 1)
	}
	for _, wr := range s.writes[:n] {
		wr.apply()
	}
	s.writes, s.busy, s.told = nil, s.w.now, s.w.now
}

func (s *store) create(a core.Create) {
	if s.w.chance(s.w.fate.createFails) {
		s.w.tell("store", []comms.JobID{a.Row.ID}, "refuses the job: the disk is nearly full")
		s.w.oracle.facts[a.Row.ID].refused = true
		s.put(func() {}, func() {
			s.c.answer(core.Stored{Token: a.Token, Code: comms.CodeUnavailable, Err: "the disk is nearly full"})
		})
		return
	}
	s.put(func() {
		g, err := dag.Decode(a.Graph)
		if err != nil {
			s.w.fail(a.Row.ID, "the store is given a graph that cannot be decoded: %v", err)
			return
		}
		s.w.tell("store", []comms.JobID{a.Row.ID}, "job is durable")
		s.jobs[a.Row.ID] = core.NewKept(a, g)
	}, func() { s.c.answer(core.Stored{Token: a.Token}) })
}

func (s *store) commit(a core.Store) {
	fails := s.w.chance(s.w.fate.commitFails)
	s.put(func() {
		if fails && s.c.running { // the driver ends when a write has failed
			s.writes = nil // nothing passes a write that failed
			s.c.crash(s.w.between(0, 100*time.Millisecond), "a commit failed")
			return
		}
		s.apply(&a.Commit)
	}, func() { s.c.answer(core.Stored{Token: a.Token}) })
}

func (s *store) apply(c *core.Commit) {
	k := s.jobs[c.Job]
	if k == nil {
		return // deleted meanwhile
	}
	s.w.oracle.committed(k, c)
	k.Apply(c)
}

func (s *store) delete(a core.Delete) {
	s.put(func() {
		s.w.tell("store", []comms.JobID{a.Job}, "job is deleted")
		delete(s.jobs, a.Job)
		s.w.oracle.deleted(a.Job)
	}, func() { s.c.answer(core.Stored{Token: a.Token}) })
}

// answer answers a question of a client.
func (s *store) answer(a core.Ask) comms.Message {
	if m, ok := a.Msg.(*comms.Watch); ok {
		if k := s.jobs[m.Job]; k != nil {
			return core.EndOf(&k.Row, m.Req)
		}
		return &comms.Reply{Req: m.Req, Code: comms.CodeNotFound, Message: "no such job"}
	}
	q, ok := a.Msg.(*comms.Locate)
	if !ok {
		return &comms.Page{}
	}
	k := s.jobs[q.Job]
	if k == nil {
		return &comms.Reply{Req: q.Req, Code: comms.CodeNotFound, Message: "no such job"}
	}
	past := k.Past()
	have := map[comms.DatasetRef]core.DatasetRecord{}
	for _, d := range past.Data {
		have[d.Desc.Ref] = d
	}
	maps.Copy(have, k.Data)
	data, missing := core.LocateExports(k.Graph, past.States, have)
	if len(missing) > 0 {
		return &comms.Reply{Req: q.Req, Code: comms.CodeNotFound, Message: "output " + missing[0] + " was not produced"}
	}
	return &comms.Located{Req: q.Req, Data: data}
}
