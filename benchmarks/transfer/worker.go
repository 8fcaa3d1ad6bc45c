//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/zeebo/xxh3"
	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade/agent/transfer"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/pki"
	"github.com/cascade-run/cascade/shm"
	"github.com/cascade-run/cascade/shm/ledger"
)

// command is what a worker is asked to do, and answer what it says.
type command struct {
	Do     string // start, offer, pull, drop, sum, peak, rest, beat, beats
	Via    int    // offer, pull, drop: which Exchange, in the order of their starts
	Name   string // start: of the agent
	Host   string // start: its address
	Member string // start: folder of its certificate; "": plain
	NoSums bool
	Tuning transfer.Tuning
	Key    int               // of the dataset
	Bytes  int64             // offer, pull
	From   []transfer.Source // pull
	To     string            // beat: address of another's control link
}

type answer struct {
	Err     string
	At      string // start: where datasets are served
	Control string // start: where the control link is
	Seconds float64
	Sum     uint64
	Peak    int64           // bytes of private memory
	CPU     float64         // seconds since the start
	Beats   []time.Duration // round trips
}

// worker is one host's agent, as far as it moves datasets. It has several
// Exchanges, one for each variant that is measured, over the same memory.
type worker struct {
	via      []*transfer.Exchange
	store    *shm.Store
	mapper   *shm.Mapper
	segment  ledger.SegmentID
	memory   []byte
	filled   int64 // bytes of memory that are not all zero
	controls []*comms.Listener
	beats    *beats
	peak     atomic.Int64
}

// serve runs a worker until its input ends.
func serve() error {
	w := &worker{}
	go w.watch()
	in := bufio.NewScanner(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for in.Scan() {
		var c command
		if err := json.Unmarshal(in.Bytes(), &c); err != nil {
			return fmt.Errorf("read command: %w", err)
		}
		var a answer
		if err := w.do(&c, &a); err != nil {
			a.Err = err.Error()
		}
		a.CPU = cpuTime()
		if err := out.Encode(&a); err != nil {
			return fmt.Errorf("write answer: %w", err)
		}
	}
	return errors.Join(in.Err(), w.close())
}

func cpuTime() float64 {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()).Seconds()
}

// watch keeps the highest RssAnon.
func (w *worker) watch() {
	for ; ; time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile("/proc/self/status")
		_, rest, found := bytes.Cut(text, []byte("RssAnon:"))
		fields := bytes.Fields(rest)
		if err != nil || !found || len(fields) == 0 {
			continue
		}
		kb, err := strconv.ParseInt(string(fields[0]), 10, 64)
		if err == nil && kb<<10 > w.peak.Load() {
			w.peak.Store(kb << 10)
		}
	}
}

func (w *worker) do(c *command, a *answer) error {
	name := transfer.Copy{Data: comms.DatasetID{DatasetRef: comms.DatasetRef{Element: uint64(c.Key)}}, Attempt: 1}
	switch c.Do {
	case "start":
		return w.start(c, a)
	case "offer":
		if err := w.reserve(c.Bytes); err != nil {
			return err
		}
		if w.filled < c.Bytes {
			fill(w.memory[:c.Bytes])
			w.filled = c.Bytes
		}
		return w.via[c.Via].Offer(name, w.memory[:c.Bytes])
	case "pull":
		if err := w.reserve(c.Bytes); err != nil {
			return err
		}
		ended := make(chan transfer.Ended, 1)
		began := time.Now()
		if err := w.via[c.Via].Pull(name, w.memory[:c.Bytes], c.From, func(e transfer.Ended) { ended <- e }); err != nil {
			return err
		}
		e := <-ended
		a.Seconds = time.Since(began).Seconds()
		return e.Err
	case "drop":
		done := make(chan struct{})
		w.via[c.Via].Withdraw(name, func() { close(done) })
		<-done
	case "sum":
		a.Sum = xxh3.Hash(w.memory[:c.Bytes])
	case "peak":
		a.Peak = w.peak.Swap(0)
	case "rest": // only the cpu time is asked for
	case "beat":
		return w.beat(c.To)
	case "beats":
		a.Beats = w.beats.stop()
	default:
		return fmt.Errorf("unknown command %q", c.Do)
	}
	return nil
}

// start opens one Exchange more, and a control link beside it.
func (w *worker) start(c *command, a *answer) (err error) {
	if w.store == nil {
		if w.store, err = shm.OpenStore(shm.Options{Name: c.Name}); err != nil {
			return err
		}
		w.mapper = shm.NewMapper(w.store.Dir(), 0)
	}
	cfg := transfer.Config{
		Self:   comms.Identity{Role: "agent", Name: c.Name, Incarnation: 1, PID: os.Getpid(), Build: "benchmark"},
		Listen: "tcp://" + c.Host + ":0", InsecureTestNetwork: c.Member == "", NoSums: c.NoSums, Tuning: c.Tuning,
	}
	if c.Member != "" {
		m, err := pki.LoadMember(c.Member, time.Now)
		if err != nil {
			return err
		}
		cfg.Security = &comms.Security{Member: m, Expect: []pki.Role{pki.RoleAgent}}
	}
	x, err := transfer.New(cfg)
	if err != nil {
		return err
	}
	w.via = append(w.via, x)
	lc := comms.Config{Self: cfg.Self, Handler: echo{}, Replay: true, Security: cfg.Security, InsecureTestNetwork: cfg.InsecureTestNetwork}
	control, err := comms.Listen(cfg.Listen, lc)
	if err != nil {
		return err
	}
	w.controls = append(w.controls, control)
	w.beats = &beats{cfg: lc}
	a.At, a.Control = x.Addr(), control.Addr()
	return nil
}

// reserve provides at least n bytes of shared memory, mapped and with all pages there, as an agent's pool does.
func (w *worker) reserve(n int64) error {
	if n <= int64(len(w.memory)) {
		return nil
	}
	page := int64(os.Getpagesize())
	n = (n + page - 1) / page * page
	w.segment++
	w.filled = 0
	if err := w.store.Create(w.segment, ledger.File, n); err != nil {
		return err
	}
	l, err := w.mapper.Lease(shm.SegmentName(ledger.File, w.segment), 0, n)
	if err != nil {
		return err
	}
	w.memory, _, err = l.Alloc(n, page)
	return err
}

// fill writes bytes that do not repeat (xorshift64, Marsaglia 2003).
func fill(b []byte) {
	x := uint64(88172645463325252)
	words := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/8)
	for i := range words {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		words[i] = x
	}
}

func (w *worker) close() error {
	if w.beats == nil {
		return nil
	}
	var errs []error
	w.beats.stop()
	if l := w.beats.link; l != nil { // or the other end would not know that its last answer came
		errs = append(errs, l.Close())
	}
	for _, l := range w.controls {
		errs = append(errs, l.Close())
	}
	for _, x := range w.via {
		errs = append(errs, x.Close())
	}
	return errors.Join(append(errs, w.store.Close())...)
}

// echo answers each message with itself.
type echo struct{}

func (echo) Up(*comms.Link, comms.Identity, bool) {}
func (echo) Credit(*comms.Link)                   {}
func (echo) Down(*comms.Link, error)              {}
func (echo) Message(l *comms.Link, head, _ []byte) {
	_ = l.Send(head, nil) // a link that has ended needs no answer
}

// beats measures round trips on a control link, one after another.
type beats struct {
	cfg   comms.Config
	link  *comms.Link
	back  chan struct{}
	quit  chan struct{}
	ended chan struct{}
	took  []time.Duration
}

func (b *beats) Up(*comms.Link, comms.Identity, bool) {}
func (b *beats) Credit(*comms.Link)                   {}
func (b *beats) Down(*comms.Link, error)              {}
func (b *beats) Message(_ *comms.Link, _, _ []byte)   { b.back <- struct{}{} }
func (w *worker) beat(to string) error                { return w.beats.start(to) }

const beatEvery = 5 * time.Millisecond

func (b *beats) start(to string) (err error) {
	b.cfg.Handler = b
	if b.link == nil {
		b.back = make(chan struct{}, 1)
		if b.link, err = comms.Dial(context.Background(), to, b.cfg); err != nil {
			return err
		}
	}
	b.took, b.quit, b.ended = nil, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(b.ended)
		next := time.NewTicker(beatEvery)
		defer next.Stop()
		for {
			began := time.Now()
			if b.link.Send([]byte("beat"), nil) != nil {
				return
			}
			<-b.back
			b.took = append(b.took, time.Since(began))
			select {
			case <-next.C:
			case <-b.quit:
				return
			}
		}
	}()
	return nil
}

func (b *beats) stop() []time.Duration {
	if b.quit == nil {
		return nil
	}
	close(b.quit)
	<-b.ended
	b.quit = nil
	slices.Sort(b.took)
	return b.took
}
