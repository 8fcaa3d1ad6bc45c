package core

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// network joins worlds: links that order messages and break, and transfers that
// read where the source's bytes are and write where the receiver's go.
type network struct {
	t      fataler
	pick   func(n int, what string) int
	worlds []*world
	queues map[[2]int][]comms.Message // from, to
	up     map[[2]int]bool            // first < second
	met    map[[2]int]bool            // from, to: asked for by from
	moves  []*move
	offers map[offerAt]Offer
	fails  int // of 1000 transfers
	master *master
}

type offerAt struct {
	world int
	key   offerKey
}

// move is one transfer.
type move struct {
	to     *world
	pull   Pull
	from   int // index in pull.From
	asked  bool
	ready  bool
	failed string
	stop   bool
}

func newNetwork(t fataler, pick func(n int, what string) int, cfgs []Config) *network {
	n := &network{t: t, pick: pick, queues: map[[2]int][]comms.Message{}, up: map[[2]int]bool{}, met: map[[2]int]bool{}, offers: map[offerAt]Offer{}}
	for i, cfg := range cfgs {
		cfg.Agent = agentName(i)
		w := newWorld(t, cfg, pick)
		w.net, w.id = n, i
		n.worlds = append(n.worlds, w)
		if os.Getenv("TRACE") != "" {
			w.trace = func(ev Event, out []Action) {
				text := fmt.Sprintf("%s <- %s", cfg.Agent, brief(ev))
				for _, a := range out {
					text += "\n      -> " + brief(a)
				}
				t.Logf("%s", text)
			}
		}
		w.step(ControllerUp{})
	}
	return n
}

func agentName(i int) string { return string(rune('a' + i)) }

func agentAt(name string) int { return int(name[0] - 'a') }

func pairOf(a, b int) [2]int { return [2]int{min(a, b), max(a, b)} }

func (n *network) perform(w *world, a Action) {
	switch a := a.(type) {
	case MeetPeer:
		n.met[[2]int{w.id, agentAt(a.Agent)}] = true
		n.connect(w.id, agentAt(a.Agent))
	case LeavePeer:
		delete(n.met, [2]int{w.id, agentAt(a.Agent)})
	case ResetPeer:
		n.cut(w.id, agentAt(a.Agent), false)
	case ToPeer:
		to := agentAt(a.Agent)
		if !n.up[pairOf(w.id, to)] {
			n.t.Fatalf("%s tells %s something over a link that is down", agentName(w.id), a.Agent)
		}
		n.queues[[2]int{w.id, to}] = append(n.queues[[2]int{w.id, to}], again(n.t, a.Msg))
	case Pull:
		if len(a.From) == 0 {
			n.t.Fatalf("dataset %v is fetched from nobody", a.Data)
		}
		n.moves = append(n.moves, &move{to: w, pull: a})
	case StopPull:
		for _, m := range n.moves {
			if m.to == w && m.pull.ID == a.Pull {
				m.stop = true
			}
		}
	case Offer:
		n.offers[offerAt{w.id, offerKey{a.Data, a.Attempt}}] = a
		n.answer(w.id, offerKey{a.Data, a.Attempt}, "")
	case NotHere:
		n.answer(w.id, offerKey{a.Data, a.Attempt}, a.Err)
	case Withdraw:
		delete(n.offers, offerAt{w.id, offerKey{a.Data, a.Attempt}})
		for _, m := range n.moves {
			if m.ready && agentAt(m.pull.From[m.from]) == w.id && m.key() == (offerKey{a.Data, a.Attempt}) {
				m.ready, m.failed = false, "withdrawn"
			}
		}
		w.post(Withdrawn(a))
	}
}

// again sends a message through the codec, as a link does.
func again(t fataler, m comms.Message) comms.Message {
	out, err := comms.Decode(comms.Encode(m))
	if err != nil {
		t.Fatalf("%v", err)
	}
	return out
}

func (m *move) key() offerKey { return offerKey{m.pull.Data, m.pull.Attempt} }

func (n *network) answer(at int, k offerKey, err string) {
	for _, m := range n.moves {
		if m.asked && !m.ready && m.failed == "" && agentAt(m.pull.From[m.from]) == at && m.key() == k {
			m.ready, m.failed = err == "", err
		}
	}
}

// connect brings a link up when either side wants it.
func (n *network) connect(a, b int) {
	p := pairOf(a, b)
	if n.up[p] || n.worlds[a].gone || n.worlds[b].gone {
		return
	}
	n.up[p] = true
	delete(n.queues, [2]int{a, b})
	delete(n.queues, [2]int{b, a})
	n.worlds[a].post(PeerUp{Agent: agentName(b), Incarnation: 1})
	n.worlds[b].post(PeerUp{Agent: agentName(a), Incarnation: 1})
}

// cut ends a link and makes it anew. resumed: nothing was lost.
func (n *network) cut(a, b int, resumed bool) {
	p := pairOf(a, b)
	if !n.up[p] {
		return
	}
	for _, w := range []int{a, b} {
		other := a + b - w
		resumed = !n.worlds[w].dropPeerUps(agentName(other)) && resumed
		n.worlds[w].step(PeerDown{Agent: agentName(other), Over: !resumed})
	}
	n.up[p] = false
	if resumed {
		qa, qb := n.queues[[2]int{a, b}], n.queues[[2]int{b, a}]
		n.up[p] = true
		n.worlds[a].post(PeerUp{Agent: agentName(b), Incarnation: 1, Resumed: true})
		n.worlds[b].post(PeerUp{Agent: agentName(a), Incarnation: 1, Resumed: true})
		n.queues[[2]int{a, b}], n.queues[[2]int{b, a}] = qa, qb
		return
	}
	n.connect(a, b)
}

// dropPeerUps forgets news of a link that is gone already; it says whether one
// was not resumed, which then must be said again.
func (w *world) dropPeerUps(agent string) (fresh bool) {
	w.inbox = slices.DeleteFunc(w.inbox, func(ev Event) bool {
		up, ok := ev.(PeerUp)
		fresh = fresh || ok && up.Agent == agent && !up.Resumed
		return ok && up.Agent == agent
	})
	return fresh
}

// turn does one thing anywhere; false when there is nothing to do.
func (n *network) turn() bool {
	n.t.Helper()
	var acts []func()
	for _, w := range n.worlds {
		can := w.able()
		k := len(can)
		if len(w.inbox) > 0 {
			k++
		}
		if k > 0 {
			acts = append(acts, func() { w.one(can, k) })
		}
	}
	for a := range n.worlds {
		for b := range n.worlds {
			q := [2]int{a, b}
			if len(n.queues[q]) > 0 && n.up[pairOf(a, b)] && !slices.ContainsFunc(n.worlds[b].inbox, func(ev Event) bool { up, ok := ev.(PeerUp); return ok && up.Agent == agentName(a) }) {
				acts = append(acts, func() {
					m := n.queues[q][0]
					n.queues[q] = n.queues[q][1:]
					n.worlds[b].step(FromPeer{agentName(a), m})
				})
			}
		}
	}
	for _, m := range n.moves {
		if !m.asked || m.ready || m.failed != "" || m.stop {
			acts = append(acts, func() { n.move(m) })
		}
	}
	if n.master != nil && len(n.master.lost) > 0 && !n.master.moving {
		acts = append(acts, n.master.act)
	}
	if len(acts) > 0 {
		acts[n.pick(len(acts), "where")]()
		return true
	}
	for _, w := range n.worlds {
		w.step(Idle{})
	}
	for _, w := range n.worlds {
		if len(w.inbox) > 0 || len(w.able()) > 0 {
			return true
		}
	}
	for _, q := range n.queues {
		if len(q) > 0 {
			return true
		}
	}
	if n.master != nil && len(n.master.lost) > 0 && !n.master.moving {
		return true
	}
	if len(n.moves) > 0 && slices.ContainsFunc(n.moves, func(m *move) bool { return !m.asked || m.ready || m.failed != "" }) {
		return true
	}
	var next *world
	for _, w := range n.worlds {
		if !w.timer.IsZero() && (next == nil || w.timer.Before(next.timer)) {
			next = w
		}
	}
	if next == nil {
		return false
	}
	at := next.timer
	for _, w := range n.worlds {
		w.now = maxTime(w.now, at)
	}
	next.timer = time.Time{}
	next.step(Tick{})
	return true
}

// move does the next thing of a transfer: ask, copy, fail.
func (n *network) move(m *move) {
	end := func(ev Event) {
		n.moves = slices.DeleteFunc(n.moves, func(o *move) bool { return o == m })
		m.to.post(ev)
		if m.asked && m.from < len(m.pull.From) {
			from := agentAt(m.pull.From[m.from])
			if !slices.ContainsFunc(n.moves, func(o *move) bool { return o.ready && o.key() == m.key() && agentAt(o.pull.From[o.from]) == from }) {
				n.worlds[from].post(Unwanted{m.pull.Data, m.pull.Attempt})
			}
		}
	}
	if m.stop {
		end(PullFailed{m.pull.ID, "given up"})
		return
	}
	if m.failed == "" && n.pick(1000, "move") < n.fails {
		m.failed = "connection reset"
	}
	if m.failed != "" {
		if m.from+1 < len(m.pull.From) {
			m.from, m.asked, m.ready, m.failed = m.from+1, false, false, ""
			return
		}
		end(PullFailed{m.pull.ID, m.failed})
		return
	}
	from := agentAt(m.pull.From[m.from])
	if n.worlds[from].gone {
		m.failed = "connection refused"
		return
	}
	o, ok := n.offers[offerAt{from, m.key()}]
	if !ok {
		if !m.asked {
			m.asked = true
			n.worlds[from].post(Wanted{m.pull.Data, m.pull.Attempt})
		}
		return
	}
	m.asked, m.ready = true, true
	src := n.worlds[from]
	name := string(o.Body)
	if o.Body == nil {
		var seg uint64
		if _, err := fmt.Sscanf(o.Path, "/shm/%d", &seg); err != nil {
			if _, err := fmt.Sscanf(o.Path, "/o%d", &seg); err != nil {
				n.t.Fatalf("%s offers %v in %q", agentName(from), o.Data, o.Path)
			}
		}
		name = src.bytes[spot{seg, o.At}]
	}
	if want := fmt.Sprintf("%v %v", m.pull.Data.Job, m.pull.Data.DatasetRef); name != want || o.Size != m.pull.Size {
		n.t.Fatalf("%s offers %q of %d bytes as %q of %d", agentName(from), name, o.Size, want, m.pull.Size)
	}
	var seg uint64
	if _, err := fmt.Sscanf(m.pull.Path, "/shm/%d", &seg); err != nil || m.to.segs[seg] < int64(m.pull.At+m.pull.Size) {
		n.t.Fatalf("%s writes %v into %q at %d", agentName(m.to.id), m.pull.Data, m.pull.Path, m.pull.At)
	}
	m.to.bytes[spot{seg, m.pull.At}] = name
	end(Pulled{Pull: m.pull.ID})
}

func (n *network) run() {
	n.t.Helper()
	for range 2_000_000 {
		if !n.turn() {
			return
		}
	}
	n.t.Fatalf("it never ends")
}

// brief is an event or action in a line.
func brief(v any) string {
	var text string
	switch v := v.(type) {
	case FromController:
		text = fmt.Sprintf("%+v", v.Msg)
	case FromExecutor:
		text = fmt.Sprintf("%+v", v.Msg)
	case FromPeer:
		text = fmt.Sprintf("%s %+v", v.Agent, v.Msg)
	case ToController:
		text = fmt.Sprintf("%+v", v.Msg)
	case ToPeer:
		text = fmt.Sprintf("%s %+v", v.Agent, v.Msg)
	case ToExecutor:
		text = fmt.Sprintf("%+v", v.Msg)
	default:
		text = fmt.Sprintf("%+v", v)
	}
	return fmt.Sprintf("%T %s", v, text[:min(len(text), 300)])
}

// chainJob is a task and its reader.
const chainJob = `
job: chain
tasks:
  t: {run: F, out: [o]}
  c: {run: F, in: {x: t.o}, out: [o]}
outputs: [c.o]
`
