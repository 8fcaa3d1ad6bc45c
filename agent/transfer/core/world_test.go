package core

import (
	"maps"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// world is a set of agents and the network between them, in memory. pick decides
// what happens next: which message arrives, which link breaks, who dies.
type world struct {
	t     fataler
	now   time.Duration
	pick  func(n int) int // 0 <= result < n
	cfg   Config
	nodes map[string]*node
	wires map[LinkID]*wire
	dials []dial
	last  LinkID
	log   func(format string, args ...any)

	oneOrigin               bool // of each copy: then nobody may wait in a circle, even for a moment
	breaks, deaths, corrupt int  // how many are still to come
	broken                  int  // what broke until now, dead agents and corrupt pieces included
}

type fataler interface {
	Fatalf(format string, args ...any)
	Helper()
}

type node struct {
	name  string
	core  *Core
	has   map[Copy]map[uint64]bool // offsets of pieces that are here
	sizes map[Copy]uint64
	done  map[Copy][]error
	sent  map[Copy]uint64 // bytes
	flows []comms.Flow
}

// wire is a link: messages on their way to its two ends, and the news of its end.
type wire struct {
	id    LinkID
	ends  [2]string // who dialed, who was dialed
	to    [2][]any  // comms.Message, SendPiece
	reads [2]bool   // the first piece is half read
	down  bool
	knows [2]bool // of the end
}

type dial struct {
	from string
	to   Source
	due  time.Duration
}

func newWorld(t fataler, pick func(int) int, cfg Config, names ...string) *world {
	w := &world{t: t, pick: pick, cfg: cfg, nodes: map[string]*node{}, wires: map[LinkID]*wire{}, log: func(string, ...any) {}}
	for _, name := range names {
		w.start(name)
	}
	return w
}

func (w *world) start(name string) {
	cfg := w.cfg
	cfg.Self = Source{Agent: name, At: "at " + name}
	cfg.First = uint64(w.last) << 20
	w.nodes[name] = &node{name: name, core: New(cfg), has: map[Copy]map[uint64]bool{}, sizes: map[Copy]uint64{},
		done: map[Copy][]error{}, sent: map[Copy]uint64{}}
}

func (w *world) step(n *node, ev Event) {
	w.t.Helper()
	w.log("%v %s %T %+v", w.now, n.name, ev, ev)
	for _, a := range n.core.Step(w.now, ev) {
		w.perform(n, a)
	}
	n.core.check(w.t)
	if w.oneOrigin {
		w.noCircle()
	}
}

// noCircle fails when receivers wait for each other: it follows from whom each
// takes its copies, as the receivers know it.
func (w *world) noCircle() {
	w.t.Helper()
	for name := range w.nodes {
		for c := range w.nodes[name].has {
			at, path := name, name
			for range len(w.nodes) + 1 {
				if at = w.waitsFor(at, c); at == "" {
					break
				}
				path += " waits for " + at
			}
			if at != "" {
				w.t.Fatalf("%s", path)
			}
		}
	}
}

// waitsFor returns the agent that has not all of a copy itself and from whom name takes it.
func (w *world) waitsFor(name string, c Copy) string {
	n := w.nodes[name]
	if n == nil || n.core.copies[c] == nil || n.core.copies[c].pull == nil {
		return ""
	}
	for _, s := range n.core.copies[c].pull.sources {
		if s.state == serving || s.state == wanted || s.state == connecting {
			if o := w.nodes[s.Agent]; o != nil && o.core.copies[c] != nil && o.core.copies[c].pull != nil {
				return s.Agent
			}
		}
	}
	return ""
}

func (w *world) offer(name string, c Copy, size uint64) {
	n := w.nodes[name]
	n.sizes[c] = size
	n.has[c] = map[uint64]bool{}
	for at := uint64(0); at < size; at += n.core.Chunk() {
		n.has[c][at] = true
	}
	w.step(n, Offer{Copy: c, Size: size})
}

func (w *world) pull(name string, c Copy, size uint64, from ...string) {
	n := w.nodes[name]
	n.sizes[c], n.has[c] = size, map[uint64]bool{}
	ev := Pull{Copy: c, Size: size}
	for _, f := range from {
		ev.From = append(ev.From, Source{Agent: f, At: "at " + f})
	}
	w.step(n, ev)
}

func (w *world) perform(n *node, a Action) {
	w.t.Helper()
	w.log("    %T %+v", a, a)
	switch a := a.(type) {
	case Dial:
		w.dials = append(w.dials, dial{n.name, a.Source, w.now + a.After})
	case Send:
		switch m := a.Msg.(type) {
		case *comms.Pull:
			w.notHere(n, m.Transfer, m.Offset)
		case *comms.Want:
			if m.Bytes > 0 {
				w.notHere(n, m.Transfer, m.First)
			}
		}
		w.post(n, a.Link, a.Msg)
	case SendPiece:
		for at := a.Offset; at < a.Offset+a.Bytes; at += n.core.Chunk() {
			if !n.has[a.Copy][at] {
				w.t.Fatalf("%s sends the piece at %d, which it does not have", n.name, at)
			}
		}
		if w.post(n, a.Link, a) {
			n.sent[a.Copy] += a.Bytes
		}
	case Hangup:
		w.snap(w.wires[a.Link])
	case Done:
		n.done[a.Copy] = append(n.done[a.Copy], a.Err)
		n.flows = append(n.flows, a.Flows...)
		if a.Err != nil {
			delete(n.has, a.Copy)
		}
	}
}

// notHere fails when a piece is asked for that has arrived already.
func (w *world) notHere(n *node, transfer, offset uint64) {
	w.t.Helper()
	for _, p := range n.core.pulls {
		for _, s := range p.sources {
			if s.id == transfer && n.has[p.held.copy][offset] {
				w.t.Fatalf("%s asks for the piece at %d again", n.name, offset)
			}
		}
	}
}

func (w *world) post(n *node, id LinkID, what any) bool {
	l := w.wires[id]
	if l == nil || l.down {
		return false
	}
	end := 1
	if l.ends[1] == n.name {
		end = 0
	}
	l.to[end] = append(l.to[end], what)
	return true
}

// snap breaks a link: what is on its way is lost.
func (w *world) snap(l *wire) {
	if l == nil || l.down {
		return
	}
	l.down, l.to = true, [2][]any{}
}

// kill ends an agent.
func (w *world) kill(name string) {
	w.log("%s dies", name)
	delete(w.nodes, name)
	for _, id := range slices.Sorted(maps.Keys(w.wires)) {
		if l := w.wires[id]; l.ends[0] == name || l.ends[1] == name {
			w.snap(l)
		}
	}
	w.dials = slices.DeleteFunc(w.dials, func(d dial) bool { return d.from == name })
}

// next lets one thing happen, and says whether there was one.
func (w *world) next() bool {
	var can []func()
	for _, id := range slices.Sorted(maps.Keys(w.wires)) {
		l := w.wires[id]
		for end := range 2 {
			if len(l.to[end]) > 0 {
				can = append(can, func() { w.deliver(l, end) })
			}
			if l.down && !l.knows[end] {
				can = append(can, func() {
					l.knows[end] = true
					if n := w.nodes[l.ends[end]]; n != nil {
						w.step(n, Down{Link: l.id, Why: "broken"})
					}
				})
			}
		}
		if l.knows[0] && l.knows[1] {
			delete(w.wires, id)
		}
	}
	for i, d := range w.dials {
		if d.due <= w.now {
			can = append(can, func() { w.connect(i) })
		}
	}
	if len(can) == 0 {
		return false
	}
	can[w.pick(len(can))]()
	w.fate()
	return true
}

// fate breaks things now and then.
func (w *world) fate() {
	if w.breaks > 0 && len(w.wires) > 0 && w.pick(20) == 0 {
		ids := slices.Sorted(maps.Keys(w.wires))
		if l := w.wires[ids[w.pick(len(ids))]]; !l.down {
			w.log("link %d between %s and %s breaks", l.id, l.ends[0], l.ends[1])
			w.breaks--
			w.broken++
			w.snap(l)
		}
	}
	if w.deaths > 0 && w.pick(60) == 0 {
		names := slices.DeleteFunc(slices.Sorted(maps.Keys(w.nodes)), func(n string) bool { return n == "origin" })
		if len(names) > 0 {
			w.deaths--
			w.broken++
			w.kill(names[w.pick(len(names))])
		}
	}
}

func (w *world) connect(i int) {
	d := w.dials[i]
	w.dials = slices.Delete(w.dials, i, i+1)
	from, to := w.nodes[d.from], w.nodes[d.to.Agent]
	if to == nil {
		w.step(from, DialFailed{Agent: d.to.Agent, Why: "nobody answers"})
		return
	}
	if d.to.At != "at "+d.to.Agent {
		w.t.Fatalf("%s dials %v", d.from, d.to)
	}
	w.last++
	w.wires[w.last] = &wire{id: w.last, ends: [2]string{d.from, d.to.Agent}}
	id := w.last
	w.step(to, Up{Link: id, Agent: d.from})
	w.step(from, Up{Link: id, Agent: d.to.Agent, Dialed: true})
}

func (w *world) deliver(l *wire, end int) {
	what := l.to[end][0]
	n := w.nodes[l.ends[end]]
	piece, ok := what.(SendPiece)
	if ok && !l.reads[end] && w.pick(2) == 0 {
		if _, wanted, _ := n.core.Expects(l.id, piece.Transfer, piece.Offset, piece.Bytes); wanted {
			n.core.Reads(l.id, piece.Transfer, piece.Offset)
			l.reads[end] = true
			return // the rest of it comes later
		}
	}
	l.to[end] = l.to[end][1:]
	reads := l.reads[end]
	l.reads[end] = false
	if !ok {
		b := comms.Encode(what.(comms.Message))
		m, err := comms.Decode(b)
		if err != nil {
			w.t.Fatalf("%T: %v", what, err)
		}
		w.step(n, Message{Link: l.id, Msg: m})
		return
	}
	c, wanted, err := n.core.Expects(l.id, piece.Transfer, piece.Offset, piece.Bytes)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	if !wanted {
		if h := n.core.copies[piece.Copy]; reads && h != nil && h.pull != nil {
			w.t.Fatalf("%s was reading the piece at %d from %s, and has given it to another", n.name, piece.Offset, l.ends[1-end])
		}
		return
	}
	good := true
	if w.corrupt > 0 && w.pick(10) == 0 {
		good = false
		w.corrupt--
		w.broken++
	}
	if good {
		if n.has[c][piece.Offset] {
			w.t.Fatalf("%s gets the piece at %d twice", n.name, piece.Offset)
		}
		n.has[c][piece.Offset] = true
	}
	w.step(n, Arrived{Link: l.id, Transfer: piece.Transfer, Offset: piece.Offset, Good: good})
}

// run lets happen what happens until nothing is left to do.
func (w *world) run() {
	w.t.Helper()
	for steps := 0; ; steps++ {
		if steps > 200_000 {
			w.t.Fatalf("no end in sight")
		}
		if w.next() {
			continue
		}
		if len(w.dials) > 0 {
			w.now = slices.MinFunc(w.dials, func(a, b dial) int { return int(a.due - b.due) }).due
			continue
		}
		return
	}
}

// tick lets time go by for everybody.
func (w *world) tick(d time.Duration) {
	w.now += d
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		w.step(w.nodes[name], Tick{})
	}
}

// check proves what must hold after each step.
func (c *Core) check(t fataler) {
	t.Helper()
	owed, owing := map[*peer]int{}, 0
	for _, l := range c.links {
		if l.peer != nil {
			owed[l.peer] += len(l.asked)
		}
	}
	for _, p := range c.peers {
		if p.flow.open > 0 {
			owing++
		}
		if p.flow.open != owed[p] {
			t.Fatalf("%s owes %d pieces, and the meter counts %d", p.Agent, owed[p], p.flow.open)
		}
	}
	if owing != c.meter.owing {
		t.Fatalf("%d agents owe pieces, and the meter counts %d", owing, c.meter.owing)
	}
	for _, p := range c.pulls {
		if c.copies[p.held.copy] != p.held || p.held.pull != p {
			t.Fatalf("pull %v is not known as that of its copy", p.held.copy)
		}
		n := map[pieceState]int{}
		for i, s := range p.pieces.state {
			n[s]++
			if s == missing && i < p.pieces.low {
				t.Fatalf("piece %d of pull %v is passed over", i, p.held.copy)
			}
		}
		open := 0
		for _, l := range c.links {
			for _, a := range l.asked {
				if a.pull == p {
					open++
					if p.pieces.state[a.piece] != asked {
						t.Fatalf("piece %d of pull %v is asked for and has the state %d", a.piece, p.held.copy, p.pieces.state[a.piece])
					}
					if s := p.source(l.peer.Agent); !a.reading && s.state != serving && s.state != wanted {
						t.Fatalf("piece %d of pull %v is asked of %s in the state %d", a.piece, p.held.copy, s.Agent, s.state)
					}
				}
			}
		}
		if open != n[asked] || p.pieces.left != n[missing]+n[asked] || p.pieces.left == 0 {
			t.Fatalf("pull %v: %d pieces asked for, %v, %d left", p.held.copy, open, n, p.pieces.left)
		}
		active := 0
		for _, s := range p.sources {
			switch s.state {
			case connecting:
				if len(s.peer.links) > 0 || s.peer.dialing == 0 {
					t.Fatalf("pull %v waits for a link to %s and nobody dials", p.held.copy, s.Agent)
				}
				active++
			case wanted, serving:
				if c.peers[s.Agent] != s.peer || len(s.peer.links) == 0 {
					t.Fatalf("pull %v is served by %s without a link", p.held.copy, s.Agent)
				}
				active++
			}
			if s.state == serving && n[missing] > 0 {
				for _, l := range s.peer.links {
					if k := len(slices.DeleteFunc(slices.Clone(l.asked), func(a ask) bool { return a.pull != p })); k < c.cfg.Window {
						t.Fatalf("pull %v: link %d to %s has room for %d pieces and %d are missing", p.held.copy, l.id, s.Agent, c.cfg.Window-k, n[missing])
					}
				}
			}
		}
		if active == 0 {
			t.Fatalf("pull %v waits for nobody", p.held.copy)
		}
	}
	for name, h := range c.copies {
		if h.copy != name {
			t.Fatalf("%v is known as %v", h.copy, name)
		}
		for agent, r := range h.receivers {
			if r.parent != "" && h.below(r.parent, agent) {
				t.Fatalf("%s waits for itself, by way of %s", agent, r.parent)
			}
		}
		for _, s := range h.services {
			if c.guests[s.guest.agent] != s.guest || s.guest.served[s.transfer] != s {
				t.Fatalf("transfer %d to %s is lost", s.transfer, s.guest.agent)
			}
			for _, d := range s.waiting {
				if h.has(d) {
					t.Fatalf("%s waits for bytes at %d that are here", s.guest.agent, d.offset)
				}
				if c.links[d.link.id] != d.link {
					t.Fatalf("a Pull waits on a link that is down")
				}
			}
		}
	}
}
