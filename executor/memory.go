package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
	"unsafe"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/shm"
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

// granted takes the answer to a LeaseReq.
func (m *memory) granted(l *comms.Lease) {
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

// others tells whether somebody besides the run at hand refers to a hold.
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

// Per run.

// holdings is what a run has of shared memory.
type holdings struct {
	mu    sync.Mutex
	views []view
	holds []*hold
	rooms []room
	gone  [][]byte // addresses of published arrays, unmapped by now; never touched
}

// view is where an input's bytes lie in this process.
type view struct {
	input string
	span  shm.Span
	bytes []byte
}

func within(b []byte, addr uintptr) bool {
	from := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return addr >= from && addr-from < uintptr(len(b))
}

func addrOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// inputAt names the input that an address lies in.
func (r *run) inputAt(addr uintptr) (string, bool) {
	for _, v := range r.mem.views {
		if within(v.bytes, addr) {
			return v.input, true
		}
	}
	for i, in := range r.Inputs {
		for k := range in.Data {
			d := &in.Data[k]
			if d.Place.Kind != comms.PlaceLive {
				continue
			}
			if v := r.liveInput(d); v != nil && v.hold != nil {
				if f, err := v.codec.Encode(v.value); err == nil && within(f.Bytes, addr) {
					return r.kind.Inputs[i].Name, true
				}
			}
		}
	}
	return "", false
}

// publishedAt tells whether an address lies in an output that was published.
func (r *run) publishedAt(addr uintptr) bool {
	for _, b := range r.mem.gone {
		if within(b, addr) {
			return true
		}
	}
	w, ok := r.exec.mem.mapper.Owner(addr)
	return ok && w.Lease
}

// bytes returns a dataset's bytes, read-only when they lie in shared memory.
func (r *run) bytes(input string, d *comms.Desc) ([]byte, error) {
	m := &r.exec.mem
	switch d.Place.Kind {
	case comms.PlaceInline:
		if uint64(len(d.Place.Bytes)) != d.Size {
			return nil, fmt.Errorf("the message holds %d bytes of %d", len(d.Place.Bytes), d.Size)
		}
		return d.Place.Bytes, nil
	case comms.PlaceSegment:
		m.mu.Lock()
		name, ok := m.segs[d.Place.Segment]
		m.mu.Unlock()
		if !ok {
			return nil, fmt.Errorf("it lies in segment %d, which was not announced", d.Place.Segment)
		}
		if d.Place.Offset > 1<<62 || d.Size > 1<<62 {
			return nil, fmt.Errorf("it lies at %d+%d, beyond any segment", d.Place.Offset, d.Size)
		}
		span, err := m.mapper.View(name, int64(d.Place.Offset), int64(d.Size))
		if err != nil {
			return nil, err
		}
		r.mem.views = append(r.mem.views, view{input, span, span.Bytes})
		return span.Bytes, nil
	case comms.PlaceDisk:
		b, err := os.ReadFile(d.Place.Where)
		if err != nil {
			return nil, fmt.Errorf("read spilled dataset: %w", err)
		}
		if uint64(len(b)) != d.Size {
			return nil, fmt.Errorf("the spilled dataset %s has %d bytes of %d", d.Place.Where, len(b), d.Size)
		}
		r.usage.Copied += d.Size
		return b, nil
	}
	return nil, fmt.Errorf("it is at a place of kind %d, which an executor cannot read", d.Place.Kind)
}

// alloc returns room for an output of n bytes, for Alloc. It may be called from
// any goroutine of the function.
func (r *run) alloc(n int) ([]byte, error) {
	m := &r.exec.mem
	if uint64(n) <= r.exec.welcome.InlineMax {
		return nil, nil
	}
	h, b, off, err := r.take(n, r.wantsFile())
	if err != nil {
		return nil, fmt.Errorf("allocate %d bytes: %w", n, err)
	}
	r.mem.mu.Lock()
	defer r.mem.mu.Unlock()
	r.keep(m, h)
	r.mem.rooms = append(r.mem.rooms, room{hold: h, bytes: b, off: off})
	return b, nil
}

func (r *run) take(n int, file bool) (*hold, []byte, int64, error) {
	if file || n > standingMax {
		return r.exec.mem.own(r.ctx, n, file, r.ID)
	}
	return r.exec.mem.shared(r.ctx, n, r.ID)
}

// wantsFile tells whether a command will read an output of this run.
func (r *run) wantsFile() bool {
	for i := range r.kind.Outputs {
		if r.kind.Outputs[i].File {
			return true
		}
	}
	return false
}

// keep takes over a reference to h; a run holds one at most. r.mem.mu is held.
func (r *run) keep(m *memory, h *hold) {
	for _, have := range r.mem.holds {
		if have == h {
			m.drop(h)
			return
		}
	}
	r.mem.holds = append(r.mem.holds, h)
}

// roomOf finds the allocation that b is a part of.
func (r *run) roomOf(b []byte) *room {
	if len(b) == 0 {
		return nil
	}
	for i := range r.mem.rooms {
		if rm := &r.mem.rooms[i]; within(rm.bytes, addrOf(b)) {
			return rm
		}
	}
	return nil
}

// store keeps an output's bytes: in the message, where they lie already, or by a copy.
func (r *run) store(output uint32, b []byte) (comms.Place, error) {
	if uint64(len(b)) <= r.exec.welcome.InlineMax {
		return comms.Place{Kind: comms.PlaceInline, Bytes: append([]byte(nil), b...)}, nil
	}
	file := r.kind.Outputs[output].File
	r.mem.mu.Lock()
	if rm := r.roomOf(b); rm != nil && !rm.claimed {
		skip := int64(addrOf(b) - addrOf(rm.bytes))
		// A lease of its own may be a file, whose dataset begins at its start.
		anywhere := len(rm.bytes) <= standingMax && !file
		if skip+int64(len(b)) <= int64(len(rm.bytes)) && (skip == 0 || anywhere) {
			rm.claimed = true
			place := comms.Place{Kind: comms.PlaceSegment, Segment: rm.hold.at.Segment, Offset: uint64(rm.off + skip)}
			h := rm.hold
			r.mem.mu.Unlock()
			return place, r.cut(h, file, len(b))
		}
	}
	r.mem.mu.Unlock()
	h, dst, off, err := r.take(len(b), file)
	if err != nil {
		return comms.Place{}, err
	}
	copy(dst, b)
	r.usage.Copied += uint64(len(b))
	r.mem.mu.Lock()
	r.keep(&r.exec.mem, h)
	r.mem.mu.Unlock()
	return comms.Place{Kind: comms.PlaceSegment, Segment: h.at.Segment, Offset: uint64(off)}, r.cut(h, file, len(b))
}

// cut gives a file that a command will open the length of its dataset. The agent
// does so too when it seals the file, but perhaps after the command has started.
func (r *run) cut(h *hold, file bool, n int) error {
	if !file {
		return nil
	}
	if err := os.Truncate(filepath.Join(r.exec.welcome.ShmDir, h.lease.Name()), int64(n)); err != nil {
		return &kindError{comms.ErrorStore, fmt.Errorf("cut the output's file to its length: %w", err)}
	}
	return nil
}

// lend takes a reference for a live value whose bytes lie in memory of this run.
// The value stays readable; what is published cannot be changed any more.
func (r *run) lend(b []byte) *hold {
	r.mem.mu.Lock()
	defer r.mem.mu.Unlock()
	rm := r.roomOf(b)
	if rm == nil {
		return nil
	}
	rm.claimed = true
	m := &r.exec.mem
	m.mu.Lock()
	rm.hold.refs++
	m.mu.Unlock()
	return rm.hold
}

// aliasesInput tells whether bytes lie in an input, which ends with the run.
func (r *run) aliasesInput(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	_, ok := r.inputAt(addrOf(b))
	return ok
}

// settle lets go of regions whose arrays are all published; at the end of a run
// of all regions. What stays mapped for others is made read-only.
func (r *run) settle(end bool) {
	m := &r.exec.mem
	r.mem.mu.Lock()
	defer r.mem.mu.Unlock()
	open := map[*hold]bool{}
	var rooms []room
	for _, rm := range r.mem.rooms {
		if !rm.claimed && !end {
			open[rm.hold] = true
		}
	}
	for _, rm := range r.mem.rooms {
		switch {
		case open[rm.hold]:
			rooms = append(rooms, rm)
		case !end && len(r.mem.gone) < maxGone:
			r.mem.gone = append(r.mem.gone, rm.bytes)
		}
	}
	sealed := map[*hold]bool{}
	for _, rm := range r.mem.rooms {
		if !open[rm.hold] && !sealed[rm.hold] && m.others(rm.hold) {
			sealed[rm.hold] = true
			if err := rm.hold.lease.Seal(true); err != nil {
				m.exec.cfg.Log.Error().Err(err).Msg("protect published arrays")
			}
		}
	}
	r.mem.rooms = rooms
	var holds []*hold
	for _, h := range r.mem.holds {
		if open[h] {
			holds = append(holds, h)
			continue
		}
		m.drop(h)
	}
	r.mem.holds = holds
	if !end {
		return
	}
	for i := range r.mem.views {
		r.mem.views[i].span.Release()
	}
	r.mem.views = nil
}
