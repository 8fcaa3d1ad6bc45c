package executor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"unsafe"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/shm"
)

// holdings is what a run has of shared memory.
type holdings struct {
	mu    sync.Mutex
	views []view
	// copies are the inputs that came in a message and that the function got as they are.
	copies []private
	holds  []*hold
	rooms  []room
	gone   [][]byte // addresses of published arrays, unmapped by now; never touched
	ended  bool     // nothing may be allocated any more
}

// private is an input that this run alone has. Writing to it would harm no other
// run, and is an error all the same, as it is for larger inputs.
type private struct {
	input string
	bytes []byte
	sum   uint64
}

// view is where an input's bytes lie in this process.
type view struct {
	input string
	span  shm.Span
	bytes []byte
}

// idle tells whether nothing was ever held.
func (h *holdings) idle() bool {
	return h.views == nil && h.copies == nil && h.holds == nil && h.rooms == nil && h.gone == nil
}

func within(b []byte, addr uintptr) bool {
	from := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return addr >= from && addr-from < uintptr(len(b))
}

func addrOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// inputAt names the input that an address lies in.
func (r *run) inputAt(addr uintptr) (string, bool) {
	if input, ok := r.mem.viewAt(addr); ok {
		return input, true
	}
	if r.reads > 0 && r.input.within(addr) {
		return r.kind.Inputs[0].Name, true
	}
	for i, in := range r.Inputs {
		for k := range in.Data {
			if d := &in.Data[k]; d.Place.Kind == comms.PlaceLive && r.liveInput(d).within(addr) {
				return r.kind.Inputs[i].Name, true
			}
		}
	}
	return "", false
}

func (h *holdings) viewAt(addr uintptr) (input string, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.views, func(v view) bool { return within(v.bytes, addr) })
	if i < 0 {
		return "", false
	}
	return h.views[i].input, true
}

// release ends the view of some bytes.
func (h *holdings) release(b []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.IndexFunc(h.views, func(v view) bool { return len(b) > 0 && addrOf(v.bytes) == addrOf(b) }); i >= 0 {
		h.views[i].span.Release()
		h.views = slices.Delete(h.views, i, i+1)
	}
}

// within tells whether an address lies in a value whose bytes are in the store.
func (v *liveValue) within(addr uintptr) bool {
	if v == nil || v.hold == nil {
		return false
	}
	f, err := v.codec.Encode(v.value)
	return err == nil && within(f.Bytes, addr)
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
		r.mem.mu.Lock()
		defer r.mem.mu.Unlock()
		if r.mem.ended { // a goroutine that outlives its function reads what a call returned
			span.Release()
			return nil, errReturned
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
	over := func() error { // a goroutine that outlives its function asked
		if !r.mem.ended {
			return nil
		}
		return fmt.Errorf("allocate %d bytes: the task has ended", n)
	}
	r.mem.mu.Lock()
	err := over()
	r.mem.mu.Unlock()
	if err != nil {
		return nil, err
	}
	h, b, off, err := r.take(n, r.wantsFile())
	if err != nil {
		return nil, fmt.Errorf("allocate %d bytes: %w", n, err)
	}
	r.mem.mu.Lock()
	defer r.mem.mu.Unlock()
	if err := over(); err != nil {
		m.drop(h)
		return nil, err
	}
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
	return r.place(b, r.kind.Outputs[output].File)
}

// place is store for bytes of which file says whether a command will open them.
func (r *run) place(b []byte, file bool) (comms.Place, error) {
	if uint64(len(b)) <= r.exec.welcome.InlineMax {
		return comms.Place{Kind: comms.PlaceInline, Bytes: append([]byte(nil), b...)}, nil
	}
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
	r.mem.mu.Lock()
	r.usage.Copied += uint64(len(b)) // calls of other goroutines copy too
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
// of all regions. Regions that stay mapped for others become read-only.
func (r *run) settle(end bool) {
	m := &r.exec.mem
	r.mem.mu.Lock()
	defer r.mem.mu.Unlock()
	if end && len(r.mem.rooms)+len(r.mem.holds)+len(r.mem.views) == 0 {
		r.mem.ended = true
		return
	}
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
	r.mem.ended = true
	for i := range r.mem.views {
		r.mem.views[i].span.Release()
	}
	r.mem.views = nil
}
