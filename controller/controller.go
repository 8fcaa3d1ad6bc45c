package controller

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/docker/go-units"
	"github.com/rs/zerolog"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/controller/gcs"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/inbox"
	"github.com/cascade-run/cascade/internal/statedir"
	"github.com/cascade-run/cascade/profiles"
)

// Controller is a running controller: New, then Run, then Close.
type Controller struct {
	cfg         Config
	log         zerolog.Logger
	store       *gcs.Store
	blobs       *blobs
	graphs      graphs
	texts       texts
	links       *comms.Listener
	cluster     *cluster // nil: no certificates
	audit       audit
	counts      counts
	core        *core.Core
	incarnation uint64
	inbox       *inbox.Inbox[core.Event]
	fatal       chan error    // capacity 1
	quit        chan struct{} // closed by Close: slow work that has not begun never will
	work        sync.WaitGroup
	slots       chan struct{} // bounds slow work
	pause       pause         // of the store
	planning    chan struct{} // bounds searches for better plans
	searches    chan struct{} // bounds those that wait for their turn
	hooks       queue[core.Warn]
	closed      sync.Once
	closer      error

	// turns is held by who steps the core, before and after Run for good. It guards
	// the core and what follows.
	turns sync.Mutex
	taken []core.Event // what is being handled
	spare []core.Event // for what comes meanwhile
	timer *time.Timer
	peers map[core.LinkID]*peer
	local []core.Event      // events that performing actions caused
	sizes map[uint64]uint64 // bytes of writes that are under way

	mu     sync.Mutex // guards what follows
	book   *profiles.Book
	ids    map[*comms.Link]core.LinkID
	broken map[*comms.Link]time.Time               // since when links are broken that may come back
	losses map[string]map[comms.JobID]records.Loss // of agents that are not back; under turns
	doors  map[*comms.Link]*doorway                // where agents listen
	next   core.LinkID
	dirty  int // runs recorded since the profiles were stored
	flows  int // flows recorded since the links were stored
	// The measured costs of tasks of running jobs, by graph, until they are recorded.
	samples map[*dag.Graph]*costs
	ends    []comms.End // scratch
	// The graph of which tasks were recorded last, and the versions of their code.
	versioned *dag.Graph
	versions  []uint64
}

// slowWork is how many decodes, plans and queries run at a time.
const slowWork = 4

// New opens the store, reads what it knows, and listens. Nothing is answered before Run.
func New(cfg Config) (*Controller, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("controller: %w", err)
	}
	incarnation, err := nextIncarnation(cfg.State, time.Now())
	if err != nil {
		return nil, fmt.Errorf("controller: %w", err)
	}
	c := &Controller{cfg: cfg, log: cfg.Log, core: core.New(cfg.core(incarnation)), incarnation: incarnation, inbox: inbox.New[core.Event](inboxLimit),
		fatal: make(chan error, 1), quit: make(chan struct{}), slots: make(chan struct{}, slowWork), planning: make(chan struct{}, 1), searches: make(chan struct{}, maxSearches),
		peers: map[core.LinkID]*peer{}, sizes: map[uint64]uint64{}, book: profiles.NewBook(), samples: map[*dag.Graph]*costs{}, ids: map[*comms.Link]core.LinkID{}, broken: map[*comms.Link]time.Time{}, losses: map[string]map[comms.JobID]records.Loss{}, doors: map[*comms.Link]*doorway{}}
	c.turns.Lock()
	stored := cfg.store(c.paused)
	stored.OnGroup = c.help
	if c.store, err = gcs.Open(stored); err != nil {
		return nil, fmt.Errorf("controller: %w", err)
	}
	if err := c.start(); err != nil {
		close(c.quit)
		if c.cluster != nil {
			c.cluster.members.Close()
		}
		c.inbox.Close()
		if c.links != nil {
			err = errors.Join(err, c.links.Close())
		}
		c.work.Wait() // jobs that the store had are being prepared
		return nil, errors.Join(fmt.Errorf("controller: %w", err), c.store.Close(), c.audit.close())
	}
	return c, nil
}

func (c *Controller) start() (err error) {
	if c.blobs, err = openBlobs(filepath.Join(c.cfg.State, "packages"), c.store.Room); err != nil {
		return err
	}
	if err := keepIncarnation(c.cfg.State, c.incarnation); err != nil {
		return err
	}
	if err := c.store.Profiles(c.book.Load); err != nil {
		return fmt.Errorf("load profiles: %w", err)
	}
	if err := c.store.Links(c.book.LoadLink); err != nil {
		return fmt.Errorf("load links: %w", err)
	}
	if err := c.openCluster(); err != nil {
		return err
	}
	c.timer = time.NewTimer(time.Hour)
	c.timer.Stop()
	if err := c.load(); err != nil {
		return err
	}
	if c.audit, err = openAudit(c.cfg.Audit); err != nil {
		return err
	}
	if c.links, err = comms.Listen(c.cfg.Address, c.cfg.links(c, c.incarnation, c.security())); err != nil {
		return err
	}
	return statedir.Put(c.cfg.State, statedir.Sockets(c.links.Addr()), "")
}

// MinFree returns the free bytes of the state folder's disk below which nothing is stored.
func (c *Controller) MinFree() uint64 { return c.store.MinFree() }

// Addr returns the address under which the controller can be reached.
func (c *Controller) Addr() string { return c.links.Addr() }

// Run works until the context ends, which is no error, or the store fails. It
// may be called once.
func (c *Controller) Run(ctx context.Context) error {
	upkeep := time.NewTicker(upkeepEvery)
	defer upkeep.Stop()
	defer c.timer.Stop()
	for {
		c.turn()
		c.turns.Unlock()
		if c.inbox.Waiting() { // who brought it may have seen us at work
			c.inbox.Rouse()
		}
		select {
		case <-c.inbox.Woken():
			c.turns.Lock()
		case <-c.timer.C:
			c.turns.Lock()
			c.step(core.Tick{})
		case <-upkeep.C:
			c.turns.Lock()
			c.upkeep()
		case err := <-c.fatal:
			c.turns.Lock()
			return fmt.Errorf("controller: %w", err)
		case <-ctx.Done():
			c.turns.Lock()
			return nil
		}
	}
}

const (
	inboxLimit = 1024 // events that wait before those who read links must pause
	maxLooks   = 16   // times that one turn looks into the inbox: timers and links want their turn too
)

// turn handles what waits in the inbox. c.turns is held.
func (c *Controller) turn() {
	for range maxLooks {
		c.taken, c.spare = c.inbox.Take(c.spare), c.taken
		if len(c.taken) == 0 {
			break
		}
		for _, ev := range c.taken {
			c.step(ev)
		}
		clear(c.taken) // do not keep the messages alive
	}
	c.flush() // once: what came meanwhile is answered together
	if c.inbox.Waiting() {
		c.inbox.Rouse()
	}
}

// help handles what waits in the inbox unless another goroutine does already. One that
// has read a link, or ended slow work, calls it instead of waking Run's goroutine.
func (c *Controller) help() {
	for c.inbox.Waiting() && c.turns.TryLock() {
		c.turn()
		c.turns.Unlock()
	}
}

func (c *Controller) step(ev core.Event) {
	c.one(ev)
	for len(c.local) > 0 {
		ev := c.local[0]
		c.local = c.local[1:]
		c.one(ev)
	}
}

func (c *Controller) one(ev core.Event) {
	switch ev := ev.(type) {
	case linkOpened:
		c.opened(ev)
		return
	case linkRoom:
		c.room(ev.id)
		return
	case linkSay:
		c.send(core.Send{Link: ev.id, Msg: ev.msg, Body: ev.body})
		return
	case tellRevoked:
		c.tellRevoked()
		return
	case agentLost:
		c.lost(ev)
		return
	case agentBack:
		c.back(ev)
		return
	}
	now := time.Now()
	switch e := ev.(type) {
	case core.Received:
		c.asks(e)
	case core.LinkDown:
		delete(c.peers, e.Link)
	case core.Stored:
		e.Bytes = c.sizes[e.Token]
		delete(c.sizes, e.Token)
		ev = e
	}
	for _, a := range c.core.Step(now, ev) {
		c.perform(a)
	}
}

// done tells the core of work that has ended. It never waits.
func (c *Controller) done(ev core.Event) {
	c.inbox.Put(ev)
	c.help()
}

// fail makes Run end.
func (c *Controller) fail(err error) {
	select {
	case c.fatal <- err:
	default: // the first cause is kept
	}
}

// pause is that of the store on a nearly full disk. Its zero value is that there is none.
type pause struct {
	mu sync.Mutex
	on bool
	at chan struct{} // closed when the next one begins, or has begun
}

// begun is closed while the store pauses, and when it does next.
func (p *pause) begun() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at == nil {
		p.at = make(chan struct{})
	}
	return p.at
}

func (p *pause) set(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if on == p.on {
		return
	}
	if p.on = on; !on {
		p.at = nil
		return
	}
	if p.at == nil {
		p.at = make(chan struct{})
	}
	close(p.at)
}

// is tells whether the store pauses.
func (p *pause) is() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.on
}

// paused is told by the store when the disk is nearly full.
func (c *Controller) paused(paused bool, free uint64) {
	ev := core.Paused{}
	c.pause.set(paused)
	if paused {
		c.log.Error().Uint64("free_bytes", free).Msg("the disk is nearly full: submits are refused, and events of agents wait")
		ev.Why = fmt.Sprintf("the disk of %s is nearly full (%s free): nothing can be stored; it goes on when there is room",
			c.cfg.State, units.BytesSize(float64(free)))
	} else {
		c.log.Info().Uint64("free_bytes", free).Msg("the disk has room again: the store goes on")
	}
	c.done(ev)
}

// upkeep compacts the store and stores profiles, beside the loop.
func (c *Controller) upkeep() {
	c.work.Go(func() {
		if err := c.store.Compact(5 * time.Second); err != nil {
			c.fail(err)
			return
		}
		c.saveAll()
		if err := c.upkeepMembers(); err != nil {
			c.log.Warn().Err(err).Msg("certificates")
		}
		if err := c.blobs.expire(time.Now().Add(-c.cfg.Unclaimed), c.needed); err != nil {
			c.log.Warn().Err(err).Msg("old packages stay")
		}
	})
}

// upkeepEvery is how often the store returns the disk space of deleted records.
const upkeepEvery = 10 * time.Second

// needed tells whether a job that is stored needs a package.
func (c *Controller) needed(h comms.Hash) (bool, error) {
	n, err := c.store.Needs(h, 1)
	return n > 0, err
}

// Close ends what Run left: links in good order, slow work, the store. It may
// be called after Run has returned, or when it never ran.
func (c *Controller) Close() error {
	c.closed.Do(func() {
		close(c.quit)
		if c.cluster != nil {
			c.cluster.members.Close()
		}
		c.inbox.Close()
		err := c.links.Close()
		c.work.Wait()
		c.saveAll()
		c.closer = errors.Join(err, statedir.Remove(c.cfg.State), c.store.Close(), c.audit.close())
	})
	return c.closer
}
