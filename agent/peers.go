//go:build linux

package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cascade-run/cascade/agent/core"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/pki"
)

// peer is another agent with which jobs are shared. One link leads to it: of two
// agents the one whose name sorts first dials.
type peer struct {
	name   string
	out    outbound
	at     string             // where it serves datasets
	hangUp context.CancelFunc // of the goroutine that dials; nil: it dials us, or is not needed
}

func (l *loop) peer(name string) *peer {
	p := l.peers[name]
	if p == nil {
		p = &peer{name: name}
		l.peers[name] = p
	}
	return p
}

// meetPeer sees to it that there is a link to an agent.
func (l *loop) meetPeer(act core.MeetPeer) {
	a := l.agent
	l.exchange() // it is told where we serve
	if act.Agent < a.cfg.Name {
		return
	}
	p := l.peer(act.Agent)
	if p.hangUp != nil {
		p.hangUp() // it was started again elsewhere
	}
	var dialing context.Context
	dialing, p.hangUp = context.WithCancel(a.stop)
	addresses := reachable(act.Addresses, strings.Split(a.clients.Addr(), ","))
	a.work.Go(func() { a.keepPeer(dialing, act.Agent, strings.Join(addresses, ",")) })
}

// reachable chooses from the addresses of another agent: those over the network,
// if it has any. A socket's path means something on its own host only, where this
// agent may have the same.
func reachable(all, own []string) []string {
	overNet := func(s string) bool { return strings.HasPrefix(s, "tcp://") }
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool {
		return slices.Contains(own, s) || slices.ContainsFunc(all, overNet) && !overNet(s)
	})
}

// leavePeer lets the link to an agent go that nothing is shared with any more.
func (l *loop) leavePeer(name string) {
	if p := l.peers[name]; p != nil && p.hangUp != nil {
		p.hangUp()
		p.hangUp = nil
	}
}

// resetPeer ends a link for good: the next one starts from scratch.
func (l *loop) resetPeer(name string) {
	if p := l.peers[name]; p != nil && p.out.link != nil {
		p.out.link.Abort(errors.New("notices that came ahead of their assignment were dropped"))
	}
}

// hangUpPeers ends all links to other agents. The next agent of this name sends them
// the messages that they did not get, or they need them no more.
func (a *Agent) hangUpPeers() {
	a.peerLinks.Range(func(l, _ any) bool {
		l.(*comms.Link).Abort(comms.ErrClosed)
		return true
	})
}

func (l *loop) toPeer(act core.ToPeer) {
	p := l.peers[act.Agent]
	if p == nil || p.out.link == nil {
		return // its Down is on the way to the core: all is told again
	}
	if l.send(&p.out, act.Msg) {
		l.step(core.PeerFull{Agent: act.Agent, Full: true})
	}
}

// keepPeer keeps a link to an agent until ctx ends.
func (a *Agent) keepPeer(ctx context.Context, name, addresses string) {
	pause, door := pauses(), &peerDoor{agent: a}
	cfg := a.links(door, pki.RoleAgent)
	cfg.CheckPeer = func(other comms.Identity, _ int) error {
		if other.Role != "agent" || other.Name != name {
			return fmt.Errorf("agent %s was expected, and %s %s answers", name, other.Role, other.Name)
		}
		return nil
	}
	for ctx.Err() == nil {
		link, err := comms.Dial(ctx, addresses, cfg)
		if err == nil {
			pause.Reset()
			select {
			case <-link.Done():
			case <-ctx.Done():
				if err := link.Close(); err != nil {
					a.log.Debug().Err(err).Str("peer", name).Msg("last messages to an agent")
				}
				door.Down(link, comms.ErrClosed) // a link says nothing to who has closed it
				return
			}
		} else {
			a.log.Debug().Err(err).Str("peer", name).Msg("agent does not answer")
		}
		pause.Wait(ctx.Done())
	}
}

// peerDoor handles the links of other agents, those that we dial and those that dial us.
type peerDoor struct{ agent *Agent }

// Up is called by a link.
func (d *peerDoor) Up(l *comms.Link, other comms.Identity, resumed bool) {
	select { // an agent may come back before New has made the loop
	case <-d.agent.looping:
	case <-d.agent.stop.Done():
		l.Abort(comms.ErrClosed)
		return
	}
	d.agent.peerLinks.Store(l, struct{}{})
	if d.agent.stop.Err() != nil { // hangUpPeers may not have seen it
		l.Abort(comms.ErrClosed)
		return
	}
	loop, epoch := d.agent.loop, l.Epoch()
	d.agent.log.Info().Str("peer", other.Name).Bool("resumed", resumed).Msg("agent is there")
	d.agent.in.Offer(item{note: func() {
		p := loop.peer(other.Name)
		if resumed = resumed && p.out.link == l; !resumed {
			p.out = outbound{link: l, epoch: epoch} // what waited was for the one before
		}
		loop.send(&p.out, &comms.Serving{At: loop.serving()})
		loop.step(core.PeerUp{Agent: other.Name, Incarnation: other.Incarnation, Resumed: resumed})
	}})
}

// Message is called by a link.
func (d *peerDoor) Message(l *comms.Link, head, _ []byte) {
	name := l.Peer().Name
	switch m := decode(l, head).(type) {
	case nil:
	case *comms.Serving:
		loop := d.agent.loop
		d.agent.in.Offer(item{note: func() { loop.peer(name).at = m.At }})
	case *comms.Grant:
		m.Dir = d.agent.jobFolder(m.Dir)
		d.agent.in.Offer(item{ev: core.FromPeer{Agent: name, Msg: m}})
	case *comms.Notice, *comms.Released, *comms.GrantReport, *comms.GrantEnd, *comms.GrantRecall:
		d.agent.in.Offer(item{ev: core.FromPeer{Agent: name, Msg: m}})
	default:
		l.Abort(fmt.Errorf("unexpected %T from an agent", m))
	}
}

// Pause is called by a link.
func (d *peerDoor) Pause(*comms.Link) { d.agent.help() }

// Credit is called by a link.
func (d *peerDoor) Credit(l *comms.Link) {
	loop, name := d.agent.loop, l.Peer().Name
	d.agent.in.Push(item{note: func() {
		if p := loop.peers[name]; p != nil && p.out.link == l && len(p.out.waiting) > 0 && loop.resume(&p.out) {
			loop.step(core.PeerFull{Agent: name})
		}
	}})
}

// Down is called by a link.
func (d *peerDoor) Down(l *comms.Link, err error) {
	loop, name := d.agent.loop, l.Peer().Name
	over := errors.Is(err, comms.ErrClosed)
	if over {
		d.agent.peerLinks.Delete(l)
	}
	d.agent.log.Info().Err(err).Str("peer", name).Msg("agent is away")
	d.agent.in.Push(item{note: func() {
		p := loop.peers[name]
		if p == nil || p.out.link != l {
			return // it has another by now
		}
		if over {
			p.out = outbound{}
		}
		loop.step(core.PeerDown{Agent: name, Over: over})
	}})
}

// door takes links at the agent's socket: of clients and of other agents.
type door struct {
	clients clientDoor
	peers   peerDoor
}

func (d *door) of(l *comms.Link) comms.Handler {
	if l.Peer().Role == "agent" {
		return &d.peers
	}
	return &d.clients
}

// Up is called by a link.
func (d *door) Up(l *comms.Link, peer comms.Identity, resumed bool) { d.of(l).Up(l, peer, resumed) }

// Message is called by a link.
func (d *door) Message(l *comms.Link, head, body []byte) { d.of(l).Message(l, head, body) }

// Credit is called by a link.
func (d *door) Credit(l *comms.Link) { d.of(l).Credit(l) }

// Down is called by a link.
func (d *door) Down(l *comms.Link, err error) { d.of(l).Down(l, err) }

// Pause is called by a link.
func (d *door) Pause(*comms.Link) { d.clients.agent.help() }

// wantClientOrAgent refuses others at the agent's socket.
func (a *Agent) wantClientOrAgent(peer comms.Identity, _ int) error {
	switch {
	case peer.Role == "client":
		return nil
	case peer.Role != "agent":
		return fmt.Errorf("this socket is for the roles client and agent, %s has the role %s", peer.Name, peer.Role)
	case peer.Name == a.cfg.Name:
		return fmt.Errorf("agent %s has the name of this one", peer.Name)
	}
	return nil
}
