package sim

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// store is the controller's store, of several shards. A job is in one of them.
type store struct {
	w      *world
	c      *controller
	jobs   map[comms.JobID]*core.Kept
	agents map[string]records.Agent // durable at once
	shards []shard
}

// shard is a part of the store: what was written to it, in order, survives. A write
// takes time, and waits for no other shard's; when the process dies, a part of the
// writes on their way, from the oldest, still happens, of each shard another part.
type shard struct {
	writes []*write                // on their way, in order
	busy   time.Duration           // when the last of them will be done
	told   time.Duration           // when the driver hears of it: in order
	seen   map[string]records.Seen // by agent, of all jobs of the shard
}

type write struct{ apply func() }

// drawShards decides how many shards there are. It draws from numbers of its own, as drawDrains does.
func drawShards(seed uint64) int { return pick(rand.New(rand.NewPCG(seed, 44)), 1, 2, 2, 3) }

func newStore(w *world, c *controller) *store {
	s := &store{w: w, c: c, jobs: map[comms.JobID]*core.Kept{}, agents: map[string]records.Agent{}, shards: make([]shard, w.fate.shards)}
	for i := range s.shards {
		s.shards[i].seen = map[string]records.Seen{}
	}
	return s
}

// of is the shard of a job.
func (s *store) of(job comms.JobID) *shard { return &s.shards[int(job[15])%len(s.shards)] }

func (s *store) sorted() []*core.Kept {
	return slices.SortedFunc(maps.Values(s.jobs), func(a, b *core.Kept) int { return slices.Compare(a.Row.ID[:], b.Row.ID[:]) })
}

// put plans a write behind those before of its shard; done is told a little after it is durable.
func (s *store) put(job comms.JobID, apply, done func()) {
	sh, wr := s.of(job), &write{apply}
	sh.writes = append(sh.writes, wr)
	sh.busy = max(sh.busy, s.w.now) + s.w.between(10*time.Microsecond, s.w.fate.commit)
	life := s.c.life
	s.w.at(sh.busy, func() {
		if s.c.life != life || !s.c.running {
			return
		}
		sh.writes = sh.writes[1:]
		apply()
		if s.c.running {
			sh.told = max(sh.told, s.w.now+s.w.between(0, 50*time.Microsecond))
			s.c.after(sh.told-s.w.now, done)
		}
	})
}

// later runs something slow that sees all that was written to a job before.
func (s *store) later(job comms.JobID, do func()) {
	s.c.after(max(0, s.of(job).busy-s.w.now)+s.w.between(10*time.Microsecond, s.w.fate.commit), do)
}

// crash keeps, of each shard, a prefix of what was on its way.
func (s *store) crash() {
	for i := range s.shards {
		sh := &s.shards[i]
		n := 0
		if len(sh.writes) > 0 {
			n = s.w.rnd.IntN(len(sh.writes) + 1)
		}
		for _, wr := range sh.writes[:n] {
			wr.apply()
		}
		sh.writes, sh.busy, sh.told = nil, s.w.now, s.w.now
	}
}

// seenOf is how far the shard of a job has seen the events of agents.
func (s *store) seenOf(k *core.Kept) map[string]records.Seen { return maps.Clone(s.of(k.Row.ID).seen) }

// past is what the batches of a job tell.
func (s *store) past(k *core.Kept) *core.Past {
	p := k.Past()
	p.Seen = s.seenOf(k)
	return p
}

// loaded is what the store tells of a job when a controller starts.
func (s *store) loaded(k *core.Kept) core.Loaded {
	ev := k.Loaded()
	if !k.Row.Phase.Final() {
		ev.Past.Seen = s.seenOf(k)
	}
	return ev
}

func (s *store) create(a core.Create) {
	if s.w.chance(s.w.fate.createFails) {
		s.w.tell("store", []comms.JobID{a.Row.ID}, "refuses the job: the disk is nearly full")
		s.w.oracle.facts[a.Row.ID].refused = true
		s.put(a.Row.ID, func() {}, func() {
			s.c.answer(core.Stored{Token: a.Token, Code: comms.CodeUnavailable, Err: "the disk is nearly full"})
		})
		return
	}
	s.put(a.Row.ID, func() {
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
	s.put(a.Commit.Job, func() {
		if fails && s.c.running { // the driver ends when a write has failed
			s.of(a.Commit.Job).writes = nil // nothing of the shard passes a write that failed
			s.c.crash(s.w.between(0, 100*time.Millisecond), "a commit failed")
			return
		}
		s.apply(&a.Commit)
	}, func() { s.c.answer(core.Stored{Token: a.Token}) })
}

func (s *store) apply(c *records.Commit) {
	if c.Agent != "" {
		s.of(c.Job).seen[c.Agent] = c.Seen
	}
	k := s.jobs[c.Job]
	if k == nil {
		return // deleted meanwhile
	}
	s.w.oracle.committed(k, c)
	k.Apply(c)
	s.w.oracle.settled(k, c)
}

func (s *store) delete(a core.Delete) {
	s.put(a.Job, func() {
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
	have := map[comms.DatasetRef]records.Dataset{}
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

// asked is the job of a question; zero when it is about none.
func asked(m comms.Message) (job comms.JobID) {
	switch m := m.(type) {
	case *comms.Watch:
		job = m.Job
	case *comms.Locate:
		job = m.Job
	case *comms.Query:
		job = m.Job
	}
	return job
}
