package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/cascade-run/cascade/agent/core"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/memnet"
)

// Between agents: links for what they tell each other, and transfers of datasets,
// as package agent/transfer moves them. A transfer asks its sources one after the
// other; each that has the dataset, or brings it into memory, lets it be read for
// as long as a few bytes need, or much longer.

// peer is another agent as the driver of one sees it.
type agentPeer struct {
	a   *agent
	out outbox
}

// meetPeers dials every agent of a greater name: those of smaller ones dial this one.
func (a *agent) meetPeers() {
	a.peers = map[string]*agentPeer{}
	for _, b := range a.w.agents {
		if b.name == a.name {
			continue
		}
		a.peers[b.name] = &agentPeer{a: b}
		if a.name < b.name {
			if err := a.w.net.Connect(a.w.now, a.name, b.name); err != nil {
				a.w.fail(comms.JobID{}, "%v", err)
			}
		}
	}
}

// fromAgent is what the goroutine of a link to another agent does.
func (a *agent) fromAgent(p *agentPeer, d memnet.Delivery[comms.Message]) {
	switch d.Kind {
	case memnet.Up:
		if !d.Resumed {
			p.out.begins()
		}
		a.post(func() {
			if !d.Resumed {
				p.out.heard()
			}
			a.step(core.PeerUp{Agent: p.a.name, Incarnation: d.Incarnation, Resumed: d.Resumed})
		})
	case memnet.Down:
		a.post(func() {
			if d.Final {
				p.out.ends()
			}
			a.step(core.PeerDown{Agent: p.a.name, Over: d.Final})
		})
	case memnet.Credit:
		a.post(func() {
			if p.out.credit(a.w, a.w.net, a.name, p.a.name) {
				a.step(core.PeerFull{Agent: p.a.name})
			}
		})
	case memnet.Message:
		a.post(func() {
			a.w.tellMessage(a.name, "from "+p.a.name, d.Msg)
			if m, ok := d.Msg.(*comms.Grant); ok {
				a.w.oracle.granted(a, m)
			}
			a.step(core.FromPeer{Agent: p.a.name, Msg: d.Msg})
		})
	}
}

// performPeer does what concerns other agents; false when the action does not.
func (a *agent) performPeer(act core.Action) bool {
	w := a.w
	switch act := act.(type) {
	case core.MeetPeer, core.LeavePeer: // every agent has links to all
	case core.ResetPeer:
		w.fail(comms.JobID{}, "%s ends its link to %s: what it told was dropped before its Assign came", a.name, act.Agent)
	case core.ToPeer:
		p := a.peers[act.Agent]
		if p == nil {
			w.fail(comms.JobID{}, "%s tells %s something, which does not exist", a.name, act.Agent)
			return true
		}
		w.tellMessage(a.name, "to "+act.Agent, act.Msg)
		if m, ok := act.Msg.(*comms.Notice); ok {
			w.oracle.tells(a, m)
		}
		if p.out.send(w, w.net, a.name, act.Agent, act.Msg) {
			a.local = append(a.local, core.PeerFull{Agent: act.Agent, Full: true})
		}
	case core.Pull:
		w.startMove(a, act)
	case core.StopPull:
		for _, m := range w.moves {
			if m.to == a && m.life == a.life && m.pull.ID == act.Pull {
				a.after(w.between(0, time.Millisecond), func() { m.end("it was given up") })
			}
		}
	case core.Offer:
		a.offers[offerKey{act.Data, act.Attempt}] = &act
		k := offerKey{act.Data, act.Attempt}
		w.answerMoves(a, k, nil)
		if !slices.ContainsFunc(w.moves, func(m *move) bool { return m.reads && m.from == a && m.key() == k }) {
			a.post(func() { a.step(core.Unwanted{Data: k.data, Attempt: k.attempt}) }) // who asked for it is gone
		}
	case core.NotHere:
		w.answerMoves(a, offerKey{act.Data, act.Attempt}, errors.New(act.Err))
	case core.Withdraw:
		k := offerKey{act.Data, act.Attempt}
		delete(a.offers, k)
		w.answerMoves(a, k, errors.New("it was withdrawn"))
		a.after(w.between(0, time.Millisecond), func() {
			a.post(func() { a.step(core.Withdrawn(act)) })
		})
	default:
		return false
	}
	return true
}

type offerKey struct {
	data    comms.DatasetID
	attempt uint32
}

// move is one transfer under way.
type move struct {
	w     *world
	to    *agent
	life  uint64
	pull  core.Pull
	next  int    // of pull.From
	from  *agent // that is asked now
	flife uint64
	reads bool // its bytes are being read
	flow  *flow
	began time.Duration
	turn  int // counts sources and answers: what was planned before is void
	over  bool
}

func (m *move) key() offerKey { return offerKey{m.pull.Data, m.pull.Attempt} }

func (w *world) startMove(to *agent, p core.Pull) {
	m := &move{w: w, to: to, life: to.life, pull: p}
	w.moves = append(w.moves, m)
	w.tell(to.name, []comms.JobID{p.Data.Job}, "fetches %v attempt %d from %v", p.Data.DatasetRef, p.Attempt, p.From)
	m.ask()
}

// alive tells whether both ends of a transfer are the processes that they were,
// and can reach each other.
func (m *move) alive() bool {
	return m.to.running && m.to.life == m.life && m.from.running && m.from.life == m.flife && !m.w.apart[m.pair()] && !m.w.silent[m.pair()]
}

func (m *move) pair() [2]string { return pairOf(m.to.name, m.from.name) }

// heard goes on when what was said last has come to the other end: a one-way
// partition keeps it, or the word of it, until that is over or has ended the transfer.
func (m *move) heard(do func()) {
	if m.w.halfway[m.pair()] && m.alive() {
		m.in(5*time.Millisecond, func() { m.heard(do) })
		return
	}
	do()
}

// ask goes to the next source.
func (m *move) ask() {
	w := m.w
	if m.next == len(m.pull.From) {
		m.end("no source has it")
		return
	}
	name := m.pull.From[m.next]
	m.next++
	m.turn++
	m.reads = false
	k := slices.IndexFunc(w.agents, func(a *agent) bool { return a.name == name })
	if k < 0 || name == m.to.name {
		w.fail(m.pull.Data.Job, "%s fetches %v from %q", m.to.name, m.pull.Data, name)
		return
	}
	m.from = w.agents[k]
	m.flife = m.from.life
	m.in(w.between(10*time.Microsecond, w.fate.slowest), func() { m.heard(m.asked) })
}

func (m *move) asked() {
	switch {
	case !m.alive():
		m.fails()
	case m.from.offers[m.key()] != nil:
		m.read()
	default:
		from := m.from
		from.post(func() { from.step(core.Wanted{Data: m.pull.Data, Attempt: m.pull.Attempt}) })
		m.watch()
	}
}

// in plans something that is void once the transfer goes on otherwise.
func (m *move) in(d time.Duration, do func()) {
	turn := m.turn
	m.w.after(d, func() {
		if !m.over && m.turn == turn {
			do()
		}
	})
}

// watch sees the source or the link die while it is waited for.
func (m *move) watch() {
	m.in(50*time.Millisecond, func() {
		if !m.alive() {
			m.fails()
			return
		}
		m.watch()
	})
}

// fails goes on with the next source; it takes a while to see that one is gone.
func (m *move) fails() {
	m.release()
	m.turn++
	m.in(m.w.between(0, 50*time.Millisecond), m.ask)
}

// read copies the bytes, which takes its time.
func (m *move) read() {
	m.turn++
	m.reads, m.began = true, m.w.now
	w := m.w
	if w.wire == nil {
		m.in(w.between(10*time.Microsecond, max(w.fate.slowest, 10*time.Microsecond)), func() { m.heard(m.copy) })
		return
	}
	turn := m.turn
	m.flow = w.wire.carry(m.from.name, m.to.name, m.pull.Size, func() {
		if !m.over && m.turn == turn {
			m.heard(m.copy)
		}
	})
}

// copy has all bytes at the other end.
func (m *move) copy() {
	w := m.w
	if !m.alive() || m.from.frozen > w.now || w.chance(w.fate.moveFails) {
		m.fails()
		return
	}
	o := m.from.offers[m.key()]
	word := string(o.Body)
	if o.Body == nil {
		word = m.from.mem.at(o.Path, o.At)
	}
	want := w.oracle.word(m.from.name, m.pull.Data.Job, m.pull.Data.DatasetRef, m.pull.Attempt)
	if w.oracle.facts[m.pull.Data.Job] == nil {
		want = word // of a call: who gets what it returns knows what that must be
	}
	if word != want || o.Size != m.pull.Size {
		w.fail(m.pull.Data.Job, "%s offers %q of %d bytes for %q of %d", m.from.name, word, o.Size, want, m.pull.Size)
		return
	}
	m.to.mem.put(m.pull.Path, m.pull.At, m.pull.Size, word)
	m.done(core.Flowed{Flows: []comms.Flow{m.measured()}}, core.Pulled{Pull: m.pull.ID})
}

// measured is what is told of a transfer, as if it had been large: some of the ways
// between agents are a thousand times as fast as others.
func (m *move) measured() comms.Flow {
	return comms.Flow{From: m.from.name, Bytes: (m.pull.Size + 1) << 20, Pieces: 1, Nanos: uint64(m.w.now - m.began)}
}

func (m *move) end(why string) {
	if !m.over {
		m.done(core.PullFailed{Pull: m.pull.ID, Err: why})
	}
}

// done tells the agent how a transfer ended, by one event or more.
func (m *move) done(how ...core.Event) {
	m.over = true
	m.w.moves = slices.DeleteFunc(m.w.moves, func(o *move) bool { return o == m })
	m.release()
	if to := m.to; to.life == m.life {
		for _, ev := range how {
			m.w.tell(to.name, []comms.JobID{m.pull.Data.Job}, "%v: %T %+v", m.pull.Data.DatasetRef, ev, ev)
			to.post(func() { to.step(ev) })
		}
	}
}

// release tells a source when no transfer reads from it any more.
func (m *move) release() {
	from := m.from
	if from == nil {
		return
	}
	was := m.reads
	m.reads = false
	if m.w.wire != nil {
		m.w.wire.stop(m.flow)
	}
	// It knows of no transfer that has yet to ask.
	others := slices.ContainsFunc(m.w.moves, func(o *move) bool { return o != m && o.reads && o.from == from && o.key() == m.key() })
	if was && !others && from.offers[m.key()] != nil {
		data, attempt := m.pull.Data, m.pull.Attempt
		from.post(func() { from.step(core.Unwanted{Data: data, Attempt: attempt}) })
	}
}

// answerMoves lets transfers go on that wait for a source's answer, or read what
// is not to be read any more.
func (w *world) answerMoves(from *agent, k offerKey, err error) {
	for _, m := range slices.Clone(w.moves) {
		switch {
		case m.over || m.from != from || m.key() != k:
		case err == nil && !m.reads:
			m.read()
		case err != nil:
			m.fails()
		}
	}
}

// dropMoves ends the transfers to an agent that has died.
func (w *world) dropMoves(to *agent) {
	for _, m := range slices.Clone(w.moves) {
		if m.to == to {
			m.over = true
			w.moves = slices.DeleteFunc(w.moves, func(o *move) bool { return o == m })
			m.release()
		}
	}
}

func pairOf(a, b string) [2]string { return [2]string{min(a, b), max(a, b)} }

// put writes into a lease of the agent's own.
func (m *memory) put(path string, offset, size uint64, word string) {
	for seg, bytes := range m.segs {
		if m.a.path(seg) == path {
			if offset+size > uint64(bytes) {
				m.a.w.fail(comms.JobID{}, "%s writes what it fetched to segment %d at %d+%d, which has %d bytes", m.a.name, seg, offset, size, bytes)
			}
			m.words[place{seg, offset}] = word
			return
		}
	}
	m.a.w.fail(comms.JobID{}, "%s writes what it fetched to %s, which does not exist", m.a.name, path)
}
