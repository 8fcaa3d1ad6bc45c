package executor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/seqmap"
)

// A process of actors knows calls by line and number, whatever link they come by.
//
//	number < next: a repeat ──▶ its answer, when it is kept      == next: queued      > next: a broken caller

// actorLine is the line of calls of one handle. The mutex of its actor guards it.
type actorLine struct {
	handle uint64
	actor  *hostedActor
	link   *callerLink                 // the newest by which calls of it have come; nil: it is broken
	next   uint64                      // number of the call that follows
	gaps   bool                        // of a restart: calls were cancelled that do not come again
	got    uint64                      // the caller has all answers up to this one
	kept   seqmap.Map[*comms.ActorEnd] // answers that it may not have
}

// lineGrace is how long a line lives whose link is broken: its caller links again at once, when it lives. One on another
// host may be cut off, and has farLineGrace: longer than it takes to find a way.
const (
	lineGrace    = 5 * time.Second
	farLineGrace = farGrace + 10*time.Second
)

var _ comms.Handler = (*actorHost)(nil)

// Up implements comms.Handler.
func (h *actorHost) Up(link *comms.Link, peer comms.Identity, _ bool) {
	if l := h.caller(link); slices.Contains(peer.Features, featureFar) {
		l.grace = farLineGrace
	}
}

// caller returns what is known of a link.
func (h *actorHost) caller(link *comms.Link) *callerLink {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.links[link]
	if l == nil {
		h.newest++
		l = &callerLink{host: h, link: link, order: h.newest, room: make(chan struct{}, 1), grace: lineGrace}
		l.timer = time.AfterFunc(time.Hour, l.late)
		l.timer.Stop()
		h.links[link] = l
	}
	return l
}

// Message implements comms.Handler.
func (h *actorHost) Message(link *comms.Link, head, _ []byte) {
	l := h.caller(link)
	m, err := comms.Decode(head)
	if err != nil {
		link.Abort(err)
		return
	}
	switch m := m.(type) {
	case *comms.ActorCalls:
		for _, g := range m.Got {
			if line := h.line(g.Handle); line != nil {
				line.forget(g.Through)
			}
		}
		for i := range m.Items {
			if err := h.take(l, &m.Items[i]); err != nil {
				link.Abort(err)
				return
			}
		}
	case *comms.ActorDrop:
		h.drop(m)
	default:
		link.Abort(fmt.Errorf("%w: a caller of actors sent %T", ErrProtocol, m))
	}
}

// drop ends what a caller needs no more.
func (h *actorHost) drop(m *comms.ActorDrop) {
	for _, n := range m.Calls {
		if line := h.line(n.Handle); line != nil {
			line.actor.cancel(n, m.Why)
		}
	}
	for _, id := range m.Kill {
		if a := h.told(id); a != nil {
			a.kill(m.Why)
		}
	}
	for _, id := range m.Shared {
		h.mu.Lock()
		a := h.actors[id]
		h.mu.Unlock()
		if a != nil {
			a.share()
		}
	}
	for _, handle := range m.Handles {
		h.endLine(h.line(handle))
	}
}

func (h *actorHost) line(handle uint64) *actorLine {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lines[handle]
}

// endLine ends a line, in which no call follows.
func (h *actorHost) endLine(line *actorLine) {
	if line == nil {
		return
	}
	h.mu.Lock()
	known := h.lines[line.handle] == line
	delete(h.lines, line.handle)
	h.mu.Unlock()
	if known {
		line.actor.leave(line)
	}
}

// take takes a call.
func (h *actorHost) take(l *callerLink, it *comms.ActorCall) error {
	line, err := h.lineOf(l, it)
	if err != nil || line == nil {
		return err
	}
	a, out := line.actor, answers{now: true}
	a.mu.Lock()
	if line.link == nil || line.link.order < l.order {
		line.link = l
	}
	switch n := it.Name.Number; {
	case n > line.next && !line.gaps:
		err = fmt.Errorf("%w: call %d of handle %x came, and the next is %d", ErrProtocol, n, it.Name.Handle, line.next)
	case n < line.next:
		if e := line.kept.Get(n); e != nil {
			out.tell(line, *e)
		}
	default:
		line.next = n + 1
		if dead := a.push(hostedCall{line, *it}); dead != nil {
			out.add(line, &comms.ActorEnd{Name: it.Name, Error: dead})
		}
	}
	a.mu.Unlock()
	out.flush()
	return err
}

// lineOf returns the line of a call; that of a first one is made, and with Class its actor. Nil: the call was answered.
func (h *actorHost) lineOf(l *callerLink, it *comms.ActorCall) (*actorLine, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if line := h.lines[it.Name.Handle]; line != nil || h.actors == nil {
		return line, nil // the run is to end: nothing is taken
	}
	a := h.actors[it.Actor]
	switch {
	case it.Name.Handle == 0:
		return nil, fmt.Errorf("%w: a call without a handle", ErrProtocol)
	case it.Class != "" && a != nil && a.class != nil:
		return nil, fmt.Errorf("%w: actor %d is made a second time", ErrProtocol, it.Actor)
	case it.Class != "":
		a = h.newActor(it, a)
	case a == nil && it.Actor > h.made:
		a = h.awaited(it.Actor)
	}
	if a == nil || it.Name.Number != 1 && it.Class == "" {
		l.add(comms.ActorEnd{Name: it.Name, Error: &comms.TaskError{Kind: comms.ErrorTask, Codes: []string{comms.CodeActorDead}, Agent: h.exec.welcome.Agent, Task: ActorsFunction,
			Message: fmt.Sprintf("the actor has ended, or has lost its caller for more than %v", l.grace)}})
		l.arm()
		return nil, nil
	}
	line := &actorLine{handle: it.Name.Handle, actor: a, next: it.Name.Number, got: it.Name.Number - 1, gaps: it.Life != nil}
	h.lines[line.handle] = line
	a.mu.Lock()
	if a.lines[line] = struct{}{}; it.Class != "" {
		a.maker = line
	}
	a.mu.Unlock()
	return line, nil
}

// newActor makes an actor: its constructor is the first of its calls, also when others were awaiting it. h.mu is held.
func (h *actorHost) newActor(it *comms.ActorCall, awaiting *hostedActor) *hostedActor {
	a := awaiting
	if a == nil {
		a = h.nameless(it.Actor)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	h.made = max(h.made, it.Actor)
	a.class, a.name = h.exec.reg.class(it.Class), fmt.Sprintf("%s#%d", it.Class, it.Actor)
	if a.class == nil {
		a.dead = &comms.TaskError{Kind: comms.ErrorSetup, Agent: h.exec.welcome.Agent, Task: a.name,
			Message: fmt.Sprintf("actor %q is not registered in the program that was to run it: is it another version?", it.Class)}
	}
	if it.Life != nil {
		a.life = *it.Life
	}
	return a
}

// told returns the actor of which something is told, perhaps before its maker has told of it; nil: it has ended.
func (h *actorHost) told(id uint64) *hostedActor {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.actors[id]
	if a == nil && h.actors != nil && id > h.made {
		a = h.awaited(id)
	}
	return a
}

// nameless is an actor before it is known what it is. h.mu is held.
func (h *actorHost) nameless(id uint64) *hostedActor {
	a := &hostedActor{host: h, id: id, name: fmt.Sprintf("actor %d", id), lines: map[*actorLine]struct{}{}}
	a.ctx, a.stop = context.WithCancelCause(h.ctx)
	h.actors[id] = a
	return a
}

// awaited is an actor that another task calls before its maker's link is up, which comes at once when the maker lives. h.mu is held.
func (h *actorHost) awaited(id uint64) *hostedActor {
	a := h.nameless(id)
	context.AfterFunc(h.graced(lineGrace), func() {
		a.mu.Lock()
		never := a.maker == nil
		a.mu.Unlock()
		if never {
			a.kill("the task that was to make it has ended")
		}
	})
	return a
}

// forget drops answers that the caller has.
func (line *actorLine) forget(through uint64) {
	line.actor.mu.Lock()
	defer line.actor.mu.Unlock()
	for ; line.got < min(through, line.next-1); line.got++ {
		line.kept.Delete(line.got + 1)
	}
}

// Credit implements comms.Handler.
func (h *actorHost) Credit(link *comms.Link) {
	select {
	case h.caller(link).room <- struct{}{}:
	default:
	}
}

// Down implements comms.Handler. Lines go on for a while without a link; then their caller is gone.
func (h *actorHost) Down(link *comms.Link, _ error) {
	h.mu.Lock()
	l := h.links[link]
	delete(h.links, link)
	all := make([]*actorLine, 0, len(h.lines))
	for _, line := range h.lines {
		all = append(all, line)
	}
	over := h.actors == nil
	h.mu.Unlock()
	if l == nil {
		return
	}
	l.timer.Stop()
	var broken []*actorLine
	for _, line := range all {
		line.actor.mu.Lock()
		if line.link == l {
			line.link = nil
			broken = append(broken, line)
		}
		line.actor.mu.Unlock()
	}
	if len(broken) > 0 && !over {
		context.AfterFunc(h.graced(l.grace), func() {
			for _, line := range broken {
				line.actor.mu.Lock()
				gone := line.link == nil
				line.actor.mu.Unlock()
				if gone {
					h.endLine(line)
				}
			}
		})
	}
}

// graced returns a context that ends when lines have waited long enough for their caller, or with the run.
func (h *actorHost) graced(grace time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(h.ctx, grace)
	context.AfterFunc(ctx, cancel)
	return ctx
}
