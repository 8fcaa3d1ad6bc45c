package transfer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/cascade-run/cascade/agent/transfer/core"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/pki"
)

// Copy names the copy of a dataset that one attempt made.
type Copy = core.Copy

// Source is an agent that has a dataset, and the address where it serves.
type Source = core.Source

// Tuning says how datasets are moved; zero fields take defaults.
type Tuning = core.Config

// Errors with which a Pull ends, wrapped with what was tried.
var (
	ErrNoSource  = core.ErrNoSource
	ErrCancelled = core.ErrCancelled
	// ErrBusy says that this copy is offered or pulled already.
	ErrBusy = errors.New("the copy is here or on its way already")
	// ErrClosed says that the Exchange is closed.
	ErrClosed = errors.New("transfers are closed")
)

// Config says how an agent moves datasets.
type Config struct {
	Self   comms.Identity // Role must be "agent"; Name is how others know us
	Listen string         // address for other agents, as comms.ParseAddress reads it: "tcp://10.0.0.1:0"
	// Advertise is the address that others are told; default: Listen, with the port filled in.
	Advertise string

	Security            *comms.Security // needed for TCP; whom it expects is set to agents
	InsecureTestNetwork bool            // permits plain TCP, for tests and benchmarks
	Inproc              *comms.Inproc   // names that can be reached inside this process

	Silence time.Duration // after which a link counts as broken; default comms.DefaultSilence

	Tuning Tuning // its Self, First and Ask are filled in
	// Wanted is called when an agent asks for a copy that is not here: Offer or
	// NotHere answers. Unwanted is called when an offered copy has no receivers any more.
	// Both are called from goroutines of the Exchange and must not block. Without
	// Wanted, requests for copies that are not here are refused.
	Wanted, Unwanted func(Copy)
	// NoSums leaves out the checksums of plain links. TLS has its own.
	NoSums bool
	Log    zerolog.Logger
}

// Ended says how a Pull ended.
type Ended struct {
	Copy  Copy
	Bytes uint64        // that came over the network
	Took  time.Duration // since Pull
	Err   error         // nil when every byte is there and its checksum is right
	Flows []comms.Flow  // what came from agents and was not told before, of this copy or others
}

// Stats counts what an Exchange did since its start.
type Stats struct {
	core.Stats
	BytesOut uint64 // of pieces that the kernel has taken
}

// Exchange moves datasets between this agent and others. Its methods may be
// called from any goroutine and never wait for a peer, Close excepted.
type Exchange struct {
	cfg      Config
	began    time.Time
	listener *comms.Listener
	stop     context.Context
	cancel   context.CancelFunc
	work     sync.WaitGroup // dials, their links, the ticker, callbacks
	guests   sync.Map       // *comms.Link -> *conn, of those who dialed us
	out      atomic.Uint64  // bytes

	mu     sync.Mutex
	core   *core.Core
	copies map[Copy]*memory
	// leaving is the memory of copies that were withdrawn and that are still in use.
	leaving map[Copy][]*memory
	conns   map[core.LinkID]*conn
	last    core.LinkID
	closed  bool
}

// memory is the bytes of a copy. refs counts their readers and writers; it
// and ended belong to Exchange.mu.
type memory struct {
	copy  Copy
	bytes []byte
	sums  []atomic.Uint64 // of pieces by place; 0: not known
	began time.Time
	done  func(Ended) // of a Pull, until it has ended
	refs  int
	ended []func() // called when the bytes are not in use any more; by then no use can begin
}

// New starts to listen.
func New(cfg Config) (*Exchange, error) {
	if cfg.Self.Role != "agent" || cfg.Self.Name == "" {
		return nil, fmt.Errorf("move datasets as %s %q: want the role agent and a name", cfg.Self.Role, cfg.Self.Name)
	}
	if cfg.Security != nil {
		s := *cfg.Security
		s.Expect = []pki.Role{pki.RoleAgent}
		cfg.Security = &s
	}
	x := &Exchange{cfg: cfg, began: time.Now(), copies: map[Copy]*memory{}, leaving: map[Copy][]*memory{}, conns: map[core.LinkID]*conn{}}
	x.stop, x.cancel = context.WithCancel(context.Background())
	x.mu.Lock() // a guest may come before the core is there
	defer x.mu.Unlock()
	lc := x.links(x.cfg.Self)
	lc.Handler, lc.Sent = door{x}, x.sent
	lc.MaxBody = 1 // who dials us sends none
	lc.CheckPeer = func(peer comms.Identity, _ int) error {
		if peer.Role != "agent" {
			return fmt.Errorf("datasets move between agents, %s is a %s", peer.Name, peer.Role)
		}
		return nil
	}
	var err error
	if x.listener, err = comms.Listen(cfg.Listen, lc); err != nil {
		x.cancel()
		return nil, fmt.Errorf("move datasets: %w", err)
	}
	if x.cfg.Advertise == "" {
		x.cfg.Advertise = x.listener.Addr()
	}
	tuning := cfg.Tuning
	tuning.Self = Source{Agent: cfg.Self.Name, At: x.cfg.Advertise}
	tuning.First, tuning.Ask = rand.Uint64()>>1, cfg.Wanted != nil
	x.core = core.New(tuning)
	x.work.Go(x.tick)
	return x, nil
}

// links returns what all our links have in common.
func (x *Exchange) links(self comms.Identity) comms.Config {
	return comms.Config{
		Self: self, Inproc: x.cfg.Inproc, Security: x.cfg.Security, InsecureTestNetwork: x.cfg.InsecureTestNetwork, Log: x.cfg.Log,
		MaxMessage: 1 << 20, HeartbeatTimeout: x.cfg.Silence,
		QueueBytes: 4 << 30, // bodies are queued by reference; how many, the asker's windows say
	}
}

// Addr returns the address that others shall be told.
func (x *Exchange) Addr() string { return x.cfg.Advertise }

// Offer serves a copy that is here. The bytes must stay as they are until
// Withdraw reports that they have no readers any more.
func (x *Exchange) Offer(c Copy, bytes []byte) error {
	return x.add(c, bytes, nil, core.Offer{Copy: c, Size: uint64(len(bytes))})
}

// NotHere refuses a copy to those for whom Wanted was called.
func (x *Exchange) NotHere(c Copy, why string) {
	x.mu.Lock()
	x.stepAndUnlock(core.NotHere{Copy: c, Why: why})
}

// Pull fetches a copy into memory of exactly its size. Sources have all of it and
// come in order of preference. done is called once, from a goroutine of its own,
// when every byte is there and verified or when no source is left; then the exchange
// does not write there any more. Pieces that have come are served to others from the
// first one on; after a good end the copy is offered, as by Offer. After another end
// the memory is neither read nor written any more.
func (x *Exchange) Pull(c Copy, into []byte, from []Source, done func(Ended)) error {
	return x.add(c, into, done, core.Pull{Copy: c, Size: uint64(len(into)), From: from})
}

func (x *Exchange) add(c Copy, bytes []byte, done func(Ended), ev core.Event) error {
	x.mu.Lock()
	if x.closed {
		x.mu.Unlock()
		return ErrClosed
	}
	if x.copies[c] != nil {
		x.mu.Unlock()
		return fmt.Errorf("dataset %s: %w", c, ErrBusy)
	}
	chunk := x.core.Chunk()
	x.copies[c] = &memory{copy: c, bytes: bytes, done: done, began: time.Now(), sums: make([]atomic.Uint64, (uint64(len(bytes))+chunk-1)/chunk)}
	x.stepAndUnlock(ev)
	return nil
}

// More names further sources of a copy that is being pulled; for others it does nothing.
func (x *Exchange) More(c Copy, from []Source) {
	x.mu.Lock()
	x.stepAndUnlock(core.More{Copy: c, From: from})
}

// Withdraw ends an Offer, also the one that a Pull became when it ended well; a
// Pull that has not ended is cancelled: its done is called with ErrCancelled.
// Receivers that it served go elsewhere. released, which may be nil, is called from a
// goroutine of its own once the bytes are not in use any more, also when there is no such copy.
func (x *Exchange) Withdraw(c Copy, released func()) {
	if released == nil {
		released = func() {}
	}
	x.mu.Lock()
	m := x.copies[c]
	if all := x.leaving[c]; m == nil && len(all) > 0 { // it was withdrawn before
		last := all[len(all)-1]
		last.ended = append(last.ended, released)
		x.mu.Unlock()
		return
	}
	if m == nil {
		x.mu.Unlock()
		x.work.Go(released)
		return
	}
	if m.done == nil { // else Done sees to it
		x.leaves(m)
	}
	m.ended = append(m.ended, released)
	m.refs++ // until the step is over
	x.stepAndUnlock(core.Withdraw{Copy: c})
	x.release(m)
}

// Recheck ends the links of agents whose certificates are revoked by now, and
// those whose certificates have expired.
func (x *Exchange) Recheck(now time.Time) {
	x.listener.Recheck(now)
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range x.conns { // those that we dialed, too
		c.link.Recheck(now)
	}
}

// Stats returns what was done since New.
func (x *Exchange) Stats() Stats {
	x.mu.Lock()
	defer x.mu.Unlock()
	return Stats{Stats: x.core.Stats(), BytesOut: x.out.Load()}
}

// Close ends every link and every Pull. When it returns the memory of
// offers and pulls is not in use any more, and every callback has returned. Do not call it from one.
func (x *Exchange) Close() error {
	x.mu.Lock()
	if x.closed {
		x.mu.Unlock()
		return nil
	}
	x.closed = true
	var conns []*conn
	for _, c := range x.conns {
		conns = append(conns, c)
	}
	x.mu.Unlock()
	x.cancel()
	for _, c := range conns {
		c.link.Abort(ErrClosed)
	}
	err := x.listener.Close()
	for _, c := range conns {
		<-c.link.Done()
	}
	x.mu.Lock()
	var left []Copy
	for c := range x.copies {
		left = append(left, c)
	}
	x.mu.Unlock()
	for _, c := range left {
		x.Withdraw(c, nil)
	}
	x.work.Wait()
	return err
}

// tick gives the core its clock.
func (x *Exchange) tick() {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			x.mu.Lock()
			x.stepAndUnlock(core.Tick{})
		case <-x.stop.Done():
			return
		}
	}
}

// stepAndUnlock steps the core, with mu held, and performs its actions. Actions that
// may take time or call back are performed after mu is released.
func (x *Exchange) stepAndUnlock(ev core.Event) {
	var later []func()
	for _, a := range x.core.Step(time.Since(x.began), ev) {
		if f := x.perform(a); f != nil {
			later = append(later, f)
		}
	}
	x.mu.Unlock()
	for _, f := range later {
		f()
	}
}

// perform does one action, with mu held, and returns what is left to do without it.
func (x *Exchange) perform(a core.Action) func() {
	switch a := a.(type) {
	case core.Dial:
		x.work.Go(func() { x.dial(a) })
	case core.Send:
		c := x.conns[a.Link]
		if c == nil {
			return nil
		}
		// Under mu: messages of a link leave in the order of the core's actions.
		if err := c.link.Send(comms.Encode(a.Msg), nil); err != nil && !errors.Is(err, comms.ErrClosed) {
			return func() { c.link.Abort(fmt.Errorf("send %T: %w", a.Msg, err)) }
		}
	case core.SendPiece:
		c, m := x.conns[a.Link], x.copies[a.Copy]
		if c == nil || m == nil {
			return nil
		}
		m.refs++
		return func() { x.sendPiece(c, m, a) }
	case core.Hangup:
		if c := x.conns[a.Link]; c != nil {
			return func() { c.link.Abort(errors.New(a.Why)) }
		}
	case core.Done:
		x.done(a)
	case core.Wanted:
		return func() { x.cfg.Wanted(a.Copy) }
	case core.Unwanted:
		return func() { x.cfg.Unwanted(a.Copy) }
	}
	return nil
}

// done reports the end of a Pull. After a good one the memory is not written any more,
// but others may be reading; after another one the report waits for them.
func (x *Exchange) done(a core.Done) {
	m := x.copies[a.Copy]
	report := m.done
	m.done = nil
	end := Ended{Copy: a.Copy, Bytes: a.Came, Took: time.Since(m.began), Err: a.Err, Flows: a.Flows}
	if a.Err == nil {
		x.work.Go(func() { report(end) })
		return
	}
	if x.closed {
		end.Err = fmt.Errorf("%w: %w", ErrClosed, a.Err)
	}
	x.leaves(m)
	m.ended = append([]func(){func() { report(end) }}, m.ended...)
	m.refs++
	x.work.Go(func() { x.release(m) })
}

// leaves takes a copy out of those that can be used, with mu held. The caller has a use of its memory.
func (x *Exchange) leaves(m *memory) {
	delete(x.copies, m.copy)
	x.leaving[m.copy] = append(x.leaving[m.copy], m)
}

// release ends one use of a copy's memory.
func (x *Exchange) release(m *memory) {
	x.mu.Lock()
	m.refs--
	var ended []func()
	if m.refs == 0 {
		ended, m.ended = m.ended, nil
		if all := slices.DeleteFunc(x.leaving[m.copy], func(o *memory) bool { return o == m }); len(all) > 0 {
			x.leaving[m.copy] = all
		} else {
			delete(x.leaving, m.copy)
		}
	}
	x.mu.Unlock()
	if len(ended) > 0 {
		x.work.Go(func() {
			for _, f := range ended {
				f()
			}
		})
	}
}
