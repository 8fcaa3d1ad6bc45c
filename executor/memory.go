package executor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/shm"
	"github.com/cascade-run/cascade/shm/ledger"
)

const (
	standingBytes = 4 << 20   // the lease that small and middling outputs share
	standingMax   = 512 << 10 // larger outputs get a lease of their own
	alignment     = 64        // of every dataset: a cache line, and enough for every number
	idleLease     = time.Second
	maxGone       = 64 // published arrays of a generator that are remembered for error messages
)

// memory is the executor's side of the shared-memory store.
type memory struct {
	exec    *Executor
	mapper  *shm.Mapper
	control *shm.Control

	mu       sync.Mutex
	segs     map[uint32]string // names of announced segments
	standing *hold
	token    uint64
	waits    map[uint64]chan *comms.Lease // closed requests have a nil channel
}

// hold is a leased region while something here may touch it: the run that
// fills it, live values in it, and the executor itself when it is the standing lease.
type hold struct {
	lease *shm.Lease
	at    comms.Lease
	refs  int // guarded by memory.mu
}

// room is a part of a hold that Alloc gave to a function.
type room struct {
	hold    *hold
	bytes   []byte
	off     int64
	claimed bool // it became an output
}

func (m *memory) open(w *comms.Welcome) error {
	m.segs, m.waits = map[uint32]string{}, map[uint64]chan *comms.Lease{}
	m.mapper = shm.NewMapper(w.ShmDir, 0)
	if w.ControlPage == "" {
		return nil
	}
	c, err := shm.OpenControl(w.ControlPage)
	if err != nil {
		return err
	}
	m.control = c
	m.mapper.Record(c)
	return nil
}

// begin notes the run that starts now, so that its death is blamed on it alone.
func (m *memory) begin(r *run) {
	if m.control != nil {
		m.control.Begin(shm.Step{Run: uint64(r.ID), Attempt: r.Attempt})
	}
}

// segment takes the announcement of a segment, or its end.
func (m *memory) segment(s *comms.Segment) {
	m.mu.Lock()
	name := m.segs[s.ID]
	if !s.Close {
		m.segs[s.ID] = filepath.Base(s.Path)
		m.mu.Unlock()
		return
	}
	delete(m.segs, s.ID)
	m.mu.Unlock()
	if name != "" {
		m.mapper.Forget(name)
	}
}

// granted takes the answer to a LeaseReq, or the wish for the standing lease.
func (m *memory) granted(l *comms.Lease) {
	if l.Token == 0 {
		m.idle()
		m.exec.out.hurry()
		return
	}
	m.mu.Lock()
	wait, ok := m.waits[l.Token]
	delete(m.waits, l.Token)
	m.mu.Unlock()
	switch {
	case wait != nil:
		wait <- l
	case ok && l.Error == "": // whoever asked has gone
		m.giveBack(*l, 0)
	}
}

// request asks the agent for room and waits for the answer.
func (m *memory) request(ctx context.Context, size uint64, file bool, run comms.RunID) (*comms.Lease, error) {
	wait := make(chan *comms.Lease, 1)
	m.mu.Lock()
	m.token++
	token := m.token
	m.waits[token] = wait
	m.mu.Unlock()
	m.exec.out.send(&comms.LeaseReq{Token: token, Size: size, File: file, Run: run})
	select {
	case l := <-wait:
		if l.Error != "" {
			return nil, &kindError{comms.ErrorStore, fmt.Errorf("%d bytes of shared memory: %s", size, l.Error)}
		}
		return l, nil
	case <-ctx.Done():
		m.mu.Lock()
		if _, waiting := m.waits[token]; waiting {
			m.waits[token] = nil
			m.mu.Unlock()
		} else {
			m.mu.Unlock()
			if l := <-wait; l.Error == "" {
				m.giveBack(*l, 0)
			}
		}
		return nil, context.Cause(ctx)
	}
}

// lease maps a fresh region; the caller owns one reference.
func (m *memory) lease(ctx context.Context, size int, file bool, run comms.RunID) (*hold, error) {
	l, err := m.request(ctx, uint64(size), file, run)
	if err != nil {
		return nil, err
	}
	mapped, err := m.mapper.Lease(filepath.Base(l.Path), int64(l.Offset), int64(l.Size))
	if err != nil {
		m.giveBack(*l, 0)
		return nil, &kindError{comms.ErrorStore, err}
	}
	return &hold{lease: mapped, at: *l, refs: 1}, nil
}

// giveBack returns what of a lease is not used.
func (m *memory) giveBack(l comms.Lease, used uint64) {
	l.Offset, l.Size = l.Offset+used, l.Size-used
	now := time.Now()
	m.exec.out.add(comms.ReportItem{Kind: comms.ReportLeaseReturn, At: now.UnixNano(), Lease: &l}, now)
}

// drop ends one reference to a hold. With the last one the region is unmapped
// and its rest returned; reports of datasets in it have been queued before.
func (m *memory) drop(h *hold) {
	m.mu.Lock()
	h.refs--
	last := h.refs == 0
	m.mu.Unlock()
	if !last {
		return
	}
	used := h.lease.Used()
	if err := h.lease.Close(); err != nil {
		m.exec.cfg.Log.Error().Err(err).Msg("unmap lease") // the region stays ours until this process ends
		return
	}
	m.giveBack(h.at, uint64(used))
}

// shared returns n bytes of the standing lease, or of a new one, with a reference for the caller.
func (m *memory) shared(ctx context.Context, n int, run comms.RunID) (*hold, []byte, int64, error) {
	for range 2 {
		m.mu.Lock()
		h := m.standing
		if h != nil {
			h.refs++
		}
		m.mu.Unlock()
		if h != nil {
			b, off, err := h.lease.Alloc(int64(n), alignment)
			if err == nil {
				return h, b, off, nil
			}
			m.drop(h)
			if !errors.Is(err, shm.ErrLeaseFull) {
				return nil, nil, 0, err
			}
		}
		fresh, err := m.lease(ctx, standingBytes, false, 0)
		if err != nil {
			break // memory is short: ask for no more than is needed
		}
		if strings.HasPrefix(fresh.lease.Name(), ledger.File.String()[:1]) { // it takes one dataset: the store is tiny
			m.drop(fresh)
			break
		}
		m.mu.Lock()
		old := m.standing
		m.standing = fresh
		m.mu.Unlock()
		if old != nil {
			m.drop(old)
		}
	}
	return m.own(ctx, n, false, run)
}

// own returns a lease for n bytes alone.
func (m *memory) own(ctx context.Context, n int, file bool, run comms.RunID) (*hold, []byte, int64, error) {
	h, err := m.lease(ctx, n, file, run)
	if err != nil {
		return nil, nil, 0, err
	}
	b, off, err := h.lease.Alloc(int64(n), alignment)
	if err != nil {
		m.drop(h)
		return nil, nil, 0, fmt.Errorf("lease of %d bytes: %w", n, err)
	}
	return h, b, off, nil
}

// others tells whether something besides the run at hand refers to a hold.
func (m *memory) others(h *hold) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return h.refs > 1
}

// idle gives the standing lease back: it may be what others wait for.
func (m *memory) idle() {
	m.mu.Lock()
	h := m.standing
	m.standing = nil
	m.mu.Unlock()
	if h != nil {
		m.drop(h)
	}
}

func (m *memory) hasStanding() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.standing != nil
}
