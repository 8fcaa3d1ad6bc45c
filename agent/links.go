//go:build linux

package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/cascade-run/cascade/agent/core"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/pki"
	"github.com/cascade-run/cascade/internal/backoff"
)

func wantRole(role string) func(comms.Identity, int) error {
	return func(peer comms.Identity, _ int) error {
		if peer.Role != role {
			return fmt.Errorf("this socket is for the role %s, %s has the role %s", role, peer.Name, peer.Role)
		}
		return nil
	}
}

// decode reads a message. It returns nil for one that may be ignored, and
// ends the link when a message makes no sense.
func decode(l *comms.Link, head []byte) comms.Message {
	m, err := comms.Decode(head)
	if err == nil {
		return m
	}
	misread(l, err)
	return nil
}

// misread ends a link of which a message cannot be read, unless it may be ignored.
func misread(l *comms.Link, err error) {
	var unknown *comms.UnknownTypeError
	if !errors.As(err, &unknown) || !unknown.MayIgnore() {
		l.Abort(fmt.Errorf("message from %s %s: %w", l.Peer().Role, l.Peer().Name, err))
	}
}

// tokens match an executor's Hello to the process that was started.
type tokens struct {
	mu     sync.Mutex
	byText map[string]*worker
}

// add gives a worker its token.
func (t *tokens) add(w *worker) {
	w.token = rand.Text()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byText == nil {
		t.byText = map[string]*worker{}
	}
	t.byText[w.token] = w
}

// take returns the worker of a token, once.
func (t *tokens) take(token string) *worker {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.byText[token]
	delete(t.byText, token)
	return w
}

// executorDoor handles the links of executors.
type executorDoor struct {
	agent   *Agent
	workers sync.Map // *comms.Link -> *worker, from Hello to the link's end
	hellos  sync.Map // *comms.Link -> *time.Timer, until Hello
}

// helloTime is how long an executor may take from the link's handshake to its Hello.
const helloTime = 10 * time.Second

// Up is called by a link. Nothing counts before Hello, and who does not say it is
// not kept: anybody may connect to a socket, only we know the tokens.
func (d *executorDoor) Up(l *comms.Link, peer comms.Identity, _ bool) {
	late := time.AfterFunc(helloTime, func() {
		if _, ok := d.workers.Load(l); !ok {
			l.Abort(fmt.Errorf("executor %s has not said Hello in %v", peer.Name, helloTime))
		}
	})
	d.hellos.Store(l, late)
}

// Message is called by a link.
func (d *executorDoor) Message(l *comms.Link, head, _ []byte) {
	m := decode(l, head)
	if m == nil {
		return
	}
	known, ok := d.workers.Load(l)
	hello, first := m.(*comms.Hello)
	switch {
	case first && !ok:
		d.hello(l, hello)
	case first || !ok:
		l.Abort(fmt.Errorf("unexpected %T: an executor says Hello once, and first", m))
	default:
		switch m := m.(type) {
		case *comms.BlobReq:
			d.agent.relay.take(l, m)
			return
		case *comms.Reach:
			loop, w := d.agent.loop, known.(*worker)
			d.agent.in.Offer(item{note: func() { loop.lead(w.id, m) }})
			return
		case *comms.Log:
			d.agent.logs.await()
			known.(*worker).spoken.note(m)
		}
		if w := known.(*worker); w.program != nil {
			loop := d.agent.loop
			d.agent.in.Offer(item{note: func() { loop.fromProgram(w, m) }})
			return
		}
		it := item{ev: core.FromExecutor{Executor: known.(*worker).id, Msg: m}}
		if _, ok := m.(*comms.CallWait); ok {
			it.note = func() { known.(*worker).waits.Store(true) } // in order with what it is sent
		}
		d.agent.in.Offer(it)
	}
}

// punctual stops the timer of a link that said Hello, or has ended.
func (d *executorDoor) punctual(l *comms.Link) {
	if late, ok := d.hellos.LoadAndDelete(l); ok {
		late.(*time.Timer).Stop()
	}
}

func (d *executorDoor) hello(l *comms.Link, m *comms.Hello) {
	if !m.Session.IsZero() {
		d.program(l, m)
		return
	}
	w := d.agent.tokens.take(m.Token)
	if w == nil {
		l.Abort(fmt.Errorf("process %d says Hello with an unknown token", m.PID))
		return
	}
	// The process may be faster than those who started it: the core hears of it first.
	select {
	case <-w.spawned:
	case <-d.agent.stop.Done():
		return
	}
	id := w.id
	d.workers.Store(l, w)
	d.punctual(l)
	loop := d.agent.loop
	d.agent.in.Offer(item{note: func() { loop.bind(id, l) }, ev: core.FromExecutor{Executor: id, Msg: m}})
}

// Pause is called by a link.
func (d *executorDoor) Pause(*comms.Link) { d.agent.help() }

// Credit is called by a link.
func (d *executorDoor) Credit(l *comms.Link) {
	if w, ok := d.workers.Load(l); ok {
		loop := d.agent.loop
		d.agent.in.Push(item{note: func() { loop.executorCredit(w.(*worker)) }})
	}
}

// Down is called by a link.
func (d *executorDoor) Down(l *comms.Link, err error) {
	d.punctual(l)
	d.agent.relay.forget(l)
	d.agent.in.Rouse() // for what came last, if the link broke within a message
	if w, ok := d.workers.LoadAndDelete(l); ok {
		if w := w.(*worker); w.program != nil {
			loop := d.agent.loop
			d.agent.in.Push(item{note: func() { loop.left(w, err) }})
			return
		}
		d.agent.work.Go(func() { d.agent.broken(w.(*worker), err) })
	}
}

// dyingTime is how long a process may take to end after its link did, on a host that has much else to do.
const dyingTime = 3 * time.Second

// broken tells the core of a link that ended while its process lives. Most links
// end because the process does: then its death tells why, and this nothing.
func (a *Agent) broken(w *worker, err error) {
	patience := time.NewTimer(dyingTime)
	defer patience.Stop()
	select {
	case <-w.dead:
	case <-a.stop.Done():
	case <-patience.C:
		a.in.Push(item{ev: core.ExecutorBroken{Executor: w.id, Why: err.Error()}})
	}
}

// controllerDoor handles the link to the controller.
type controllerDoor struct {
	agent  *Agent
	graphs graphs
	large  bool // the inbox has a job of more than largeJob tasks from here
}

// largeJob is the most tasks of a job that the goroutine of the link takes in itself.
const largeJob = 1000

// Up is called by the link.
func (d *controllerDoor) Up(l *comms.Link, peer comms.Identity, resumed bool) {
	d.agent.log.Info().Str("controller", peer.Name).Bool("resumed", resumed).Msg("controller is there")
	loop, epoch := d.agent.loop, l.Epoch()
	d.agent.in.Offer(item{note: func() {
		if !resumed {
			loop.controller.waiting = nil // it was for the one before, and must not come ahead of Register
		}
		loop.controller.link, loop.controller.epoch = l, epoch
	}, ev: core.ControllerUp{Resumed: resumed, Submits: slices.Contains(peer.Features, comms.FeatureSubmits)}})
	if !resumed {
		d.agent.in.Offer(item{note: d.agent.packages.again})
		d.agent.in.Offer(item{note: d.agent.relay.again})
	}
}

// Message is called by the link.
func (d *controllerDoor) Message(l *comms.Link, head, body []byte) {
	if err := comms.DecodeEach(head, func(m comms.Message) { d.message(l, m, body) }); err != nil {
		misread(l, err)
	}
}

func (d *controllerDoor) message(l *comms.Link, m comms.Message, body []byte) {
	switch m := m.(type) {
	case *comms.Blob:
		d.agent.relay.answer(m, body)
		if d.agent.packages.piece(m, body) {
			return
		}
		if err := d.graphs.add(m, body); err != nil {
			l.Abort(err)
		}
	case *comms.Assign:
		ev := core.FromController{Msg: m}
		graph, err := d.graphs.of(m)
		if err != nil {
			ev.Err = err.Error()
		}
		ev.Graph, m.Graph = graph, nil
		m.Dir = d.agent.jobFolder(m.Dir)
		d.large = d.large || graph != nil && graph.NumTasks() > largeJob
		d.agent.in.Offer(item{ev: ev})
	case *comms.Steer:
		d.agent.in.Offer(item{ev: core.FromController{Msg: m}})
		if m.Action == comms.SteerForget {
			// The core may not know the job: an earlier incarnation wrote its logs.
			d.agent.forgetLogs(m.Job)
		}
	case *comms.Revoked:
		d.agent.takeRevoked(m)
	case *comms.Renewed:
		d.agent.takeRenewed(m)
	case *comms.Reply:
		if m.Req&core.SubmitRequest == 0 {
			d.agent.takeRenewed(m)
			return
		}
		d.agent.in.Offer(item{ev: core.FromController{Msg: m}})
	case *comms.Accepted, *comms.Progress:
		d.agent.in.Offer(item{ev: core.FromController{Msg: m}})
	case *comms.Retain, *comms.Committed, *comms.DrainAgent, *comms.LoadSubscribe, *comms.StealRequest, *comms.There, *comms.Meet, *comms.GangCommand:
		d.agent.in.Offer(item{ev: core.FromController{Msg: m}})
	default:
		l.Abort(fmt.Errorf("unexpected %T from a controller", m))
	}
}

// Pause is called by the link. A large job is taken in by Run's goroutine, so
// that the controller is heard meanwhile.
func (d *controllerDoor) Pause(*comms.Link) {
	if d.large {
		d.large = false
		d.agent.in.Rouse()
		return
	}
	d.agent.loop.help()
}

// Credit is called by the link.
func (d *controllerDoor) Credit(*comms.Link) {
	loop := d.agent.loop
	d.agent.in.Push(item{note: loop.controllerCredit})
}

// Down is called by the link.
func (d *controllerDoor) Down(l *comms.Link, err error) {
	d.agent.log.Info().Err(err).Msg("controller is away")
	loop := d.agent.loop
	over := errors.Is(err, comms.ErrClosed)
	d.agent.in.Push(item{note: func() {
		if over && loop.controller.link == l {
			loop.controller = outbound{}
		}
	}, ev: core.ControllerDown{}})
}

// links returns what all links of the agent that are not its executors' have in
// common. Roles are those of whom it dials.
func (a *Agent) links(h comms.Handler, roles ...pki.Role) comms.Config {
	return comms.Config{
		Self: a.self, Handler: h, Log: a.log, Replay: true, HeartbeatTimeout: a.cfg.Silence,
		Inproc: a.cfg.Inproc, Security: a.security(roles...), InsecureTestNetwork: a.cfg.InsecureTestNetwork,
	}
}

// keepController keeps a link to the controller until ctx ends. It returns early
// when the controller will not have us.
func (a *Agent) keepController(ctx context.Context) error {
	door := &controllerDoor{agent: a, graphs: graphs{shared: a.cfg.Graphs}}
	pause := pauses()
	tells := zerolog.InfoLevel // of the first try that fails: the others say the same
	for {
		link, err := comms.Dial(ctx, a.cfg.Controller, a.links(door, pki.RoleController))
		switch {
		case ctx.Err() != nil:
			if link != nil {
				link.Abort(ctx.Err())
			}
			return nil
		case errors.Is(err, comms.ErrRefused):
			return fmt.Errorf("controller %s: %w", a.cfg.Controller, err)
		case err != nil:
			a.log.WithLevel(tells).Err(err).Str("address", a.cfg.Controller).Msg("controller does not answer; it is tried until it does")
			tells = zerolog.DebugLevel
		default:
			pause.Reset()
			tells = zerolog.InfoLevel
			if a.member != nil {
				a.work.Go(func() { a.keepCertificate(ctx, link) })
			}
			select {
			case <-link.Done():
			case <-ctx.Done():
				if err := link.Close(); err != nil {
					a.log.Warn().Err(err).Msg("last messages to the controller")
				}
				return nil
			}
		}
		pause.Wait(ctx.Done())
	}
}

// pauses is how long who does not answer is left alone. Agents whose controller is
// restarted come back to it one after the other.
func pauses() backoff.Backoff {
	return backoff.Backoff{First: 10 * time.Millisecond, Longest: 2 * time.Second}
}
