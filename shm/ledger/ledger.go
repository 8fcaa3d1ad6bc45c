package ledger

import (
	"fmt"
	"slices"
)

// Config holds the sizes, all in bytes.
type Config struct {
	Capacity     int64 // what segments may hold together
	ArenaBytes   int64 // size of an arena; 0 means 64 MiB
	LargeBytes   int64 // leases of at least this get a file of their own; 0 means ArenaBytes/8
	PageBytes    int64 // unit of regions; 0 means 4096
	PoolBytes    int64 // bound on warm files kept for reuse; 0 means Capacity/2, negative none
	ReserveBytes int64 // kept free of Start and Prefetch requests while anything is held
	ReportFrees  bool  // emit FreedRange
}

// Ledger is the bookkeeping of one host's shared memory. It is not safe for concurrent use: the agent's
// core owns it. Methods change the state and collect effects; Take hands them over.
type Ledger struct {
	cfg   Config
	limit int64 // <= Capacity; lowered when the machine has less than promised, until Retry

	total    int64 // bytes of all segments
	held     int64 // bytes of regions that are leased or pinned
	evicting int64 // bytes of regions that are being spilled
	pooled   int64
	spilled  int64 // bytes on disk
	io       int   // answers of the driver that are due

	segs   map[SegmentID]*segment
	arenas []*segment // by number
	pool   []*segment // warm files, oldest first
	sets   map[Key]*dataset
	grants map[RequestID]*grant
	leases map[LeaseID]*lease
	owners map[Owner]*holder
	queues [classes][]*grant // by arrival
	lists  [lists]regionList // victims, least recently used first

	nextSegment SegmentID
	nextLease   LeaseID
	nextSeq     uint64

	spillErr, createErr error // why memory can not be emptied or extended at present
	trying              bool  // between the first allocation of a request and its admission
	undo                []func()
	out                 []Effect
}

type segment struct {
	id      SegmentID
	kind    Kind
	size    int64
	ready   bool
	lent    bool // a client may read it after its pins: see Lend
	exists  bool // the driver has made it before (a recycled file)
	free    freeList
	regions []*region // by offset
	listed  int       // regions that could be evicted
	reads   []*dataset
	waiters []*grant // one entry for each lease that waits for the segment
}

// region is a page-aligned range with one lease, or what a closed lease left behind.
type region struct {
	seg        *segment
	off, n     int64
	lease      *lease
	sets       []*dataset // by offset
	pins       int
	soft       int // prefetch pins
	busy       int // datasets being spilled or read
	elsewhere  int // datasets that have a copy on another host
	held       bool
	evicting   bool
	spare      bool // an input of the request that wants memory
	list       listID
	prev, next *region
}

type dataset struct {
	key       Key
	state     State
	kind      Kind
	reg       *region // nil when Spilled
	off, n    int64
	refs      int
	pins      int
	soft      []*grant
	waiters   []*grant
	backed    bool // a spill file exists
	elsewhere bool
	inFlight  bool // Spill or ReadBack was emitted and is not answered
}

type lease struct {
	id  LeaseID
	g   *grant
	reg *region
}

type phase uint8

const (
	waiting  phase = iota // in a queue, holds nothing
	admitted              // has its bytes, segments or read backs are due
	granted
	over
)

type grant struct {
	req     Request
	seq     uint64
	phase   phase
	told    bool
	own     *holder
	pins    []*dataset
	leases  []*lease
	pending int
}

// holder is an owner with its grants.
type holder struct {
	id     Owner
	grants []*grant
	holds  int // hard pins and open leases
	grow   int // Grow requests in the queue
}

// New returns an empty ledger.
func New(cfg Config) (*Ledger, error) {
	if cfg.PageBytes == 0 {
		cfg.PageBytes = 4096
	}
	if cfg.ArenaBytes == 0 {
		cfg.ArenaBytes = 64 << 20
	}
	if cfg.LargeBytes == 0 {
		cfg.LargeBytes = max(cfg.ArenaBytes/8, 1)
	}
	if cfg.PoolBytes == 0 {
		cfg.PoolBytes = cfg.Capacity / 2
	}
	switch {
	case cfg.PageBytes < 1 || cfg.PageBytes&(cfg.PageBytes-1) != 0:
		return nil, fmt.Errorf("ledger: page size %d is not a power of two", cfg.PageBytes)
	case cfg.Capacity < cfg.PageBytes:
		return nil, fmt.Errorf("ledger: capacity of %d bytes is less than a page", cfg.Capacity)
	case cfg.ArenaBytes < cfg.PageBytes || cfg.ArenaBytes%cfg.PageBytes != 0:
		return nil, fmt.Errorf("ledger: arena size %d is not a multiple of the page size %d", cfg.ArenaBytes, cfg.PageBytes)
	case cfg.LargeBytes < 1 || cfg.LargeBytes > cfg.ArenaBytes:
		return nil, fmt.Errorf("ledger: large size %d is not between 1 and the arena size %d", cfg.LargeBytes, cfg.ArenaBytes)
	case cfg.ReserveBytes < 0 || cfg.ReserveBytes > cfg.Capacity:
		return nil, fmt.Errorf("ledger: reserve of %d bytes is not between 0 and the capacity %d", cfg.ReserveBytes, cfg.Capacity)
	}
	return &Ledger{
		cfg: cfg, limit: cfg.Capacity,
		segs: map[SegmentID]*segment{}, sets: map[Key]*dataset{}, grants: map[RequestID]*grant{},
		leases: map[LeaseID]*lease{}, owners: map[Owner]*holder{},
		nextSegment: 1, nextLease: 1,
	}, nil
}

// Take returns the effects since the last call, in the order in which they must be performed.
func (l *Ledger) Take() []Effect {
	out := l.out
	l.out = nil
	return out
}

func (l *Ledger) emit(e Effect) { l.out = append(l.out, e) }

// pages rounds up to whole pages; even nothing takes one, so that it has a place.
func (l *Ledger) pages(n int64) int64 {
	return max(1, (n+l.cfg.PageBytes-1)/l.cfg.PageBytes) * l.cfg.PageBytes
}

// Request asks for pins and leases. The answer (Granted, Waiting and later Granted, or Failed) is among
// the effects. The error is about the request itself: a number in use, a negative size, a mixed prefetch.
func (l *Ledger) Request(r Request) error {
	if l.grants[r.ID] != nil {
		return fmt.Errorf("request %d: %w", r.ID, ErrExists)
	}
	if r.Class >= classes {
		return fmt.Errorf("request %d: class %d: %w", r.ID, r.Class, ErrUnknown)
	}
	if r.Class == Prefetch && len(r.Pins) > 0 && len(r.Leases) > 0 {
		return fmt.Errorf("request %d: a prefetch has pins or leases, not both: %w", r.ID, ErrState)
	}
	r.Pins, r.Leases = slices.Clone(r.Pins), slices.Clone(r.Leases)
	var total int64
	for i, s := range r.Leases {
		if s.Bytes < 0 || s.Kind > Output {
			return fmt.Errorf("request %d: lease %d of %d bytes, %v: %w", r.ID, i, s.Bytes, s.Kind, ErrState)
		}
		if s.Kind == Arena && s.Bytes >= l.cfg.LargeBytes {
			r.Leases[i].Kind = File
		}
		if s.Bytes <= l.cfg.Capacity { // keeps the sum from overflowing
			s.Bytes = l.pages(s.Bytes)
		}
		if total = min(total, l.cfg.Capacity) + s.Bytes; total > l.cfg.Capacity {
			l.emit(Failed{r.ID, l.tooLarge(r)})
			return nil
		}
	}
	seen := map[Key]bool{}
	for _, k := range r.Pins {
		d := l.sets[k]
		if d == nil || d.refs == 0 {
			l.emit(Failed{r.ID, fmt.Errorf("pin %v: %w dataset", k, ErrUnknown)})
			return nil
		}
		if !seen[k] {
			total += l.pages(d.n)
		}
		seen[k] = true
	}
	if total > l.cfg.Capacity {
		l.emit(Failed{r.ID, l.tooLarge(r)})
		return nil
	}
	own := l.owners[r.Owner]
	if own == nil {
		own = &holder{id: r.Owner}
		l.owners[r.Owner] = own
	}
	g := &grant{req: r, own: own, seq: l.nextSeq}
	l.nextSeq++
	l.grants[r.ID] = g
	own.grants = append(own.grants, g)
	l.enqueue(g)
	if r.Class == Grow && l.inMemory(r) {
		l.try(g) // it takes nothing, and waits for no holder
	}
	l.pump()
	if g.phase == waiting && !g.told {
		g.told = true
		l.emit(Waiting{r.ID, total})
	}
	return nil
}

// inMemory tells whether all that a request asks for is in memory.
func (l *Ledger) inMemory(r Request) bool {
	return len(r.Leases) == 0 && !slices.ContainsFunc(r.Pins, func(k Key) bool { return l.sets[k].reg == nil })
}

func (l *Ledger) tooLarge(r Request) error {
	var in, out float64 // only for the message; sums of absurd sizes must not wrap
	for _, k := range r.Pins {
		if d := l.sets[k]; d != nil {
			in += float64(d.n)
		}
	}
	for _, s := range r.Leases {
		out += float64(s.Bytes)
	}
	return fmt.Errorf("inputs of %.0f and outputs of %.0f bytes together, capacity %d: %w", in, out, l.cfg.Capacity, ErrTooLarge)
}

// Release ends a request: its pins and open leases if it was granted, its place in the queue if it waits.
// The caller states with it that the holder does not touch the bytes any more.
func (l *Ledger) Release(id RequestID) error {
	g := l.grants[id]
	if g == nil {
		return fmt.Errorf("release request %d: %w", id, ErrUnknown)
	}
	l.end(g)
	l.pump()
	return nil
}

// OwnerDead ends all that an owner holds or waits for. Call it only when the process is known dead: one
// that merely went silent may still write.
func (l *Ledger) OwnerDead(o Owner) {
	own := l.owners[o]
	if own == nil {
		return
	}
	for _, g := range slices.Clone(own.grants) {
		l.end(g)
	}
	l.pump()
}

// Unpin ends one pin of a granted request before the rest of it.
func (l *Ledger) Unpin(id RequestID, k Key) error {
	g := l.grants[id]
	if g == nil || g.phase != granted {
		return fmt.Errorf("unpin %v of request %d: %w", k, id, ErrUnknown)
	}
	i := slices.IndexFunc(g.pins, func(d *dataset) bool { return d.key == k })
	if i < 0 {
		return fmt.Errorf("unpin %v of request %d: no such pin: %w", k, id, ErrUnknown)
	}
	d := g.pins[i]
	g.pins = slices.Delete(g.pins, i, i+1)
	l.unpin(d, g)
	l.pump()
	return nil
}

// Seal makes bytes of a lease visible as a dataset with refs >= 1 references. off counts from the start
// of the segment. A file or output lease takes one dataset, at offset 0, and is closed by it; an output
// may turn out larger than asked for, and is then counted as it is.
func (l *Ledger) Seal(id LeaseID, k Key, off, n int64, refs int) error {
	le := l.leases[id]
	if le == nil {
		return fmt.Errorf("seal %v: lease %d: %w", k, id, ErrUnknown)
	}
	r := le.reg
	d := &dataset{key: k, kind: r.seg.kind, reg: r, off: off, n: n, refs: refs}
	i := position(r, off)
	switch {
	case le.g.phase != granted:
		return fmt.Errorf("seal %v: lease %d is not granted: %w", k, id, ErrState)
	case l.sets[k] != nil:
		return fmt.Errorf("seal %v: %w", k, ErrExists)
	case refs < 1:
		return fmt.Errorf("seal %v with %d references: %w", k, refs, ErrState)
	case off < r.off || n < 0 || off > r.off+r.n || (r.seg.kind != Output && n > r.off+r.n-off):
		return fmt.Errorf("seal %v: bytes %d+%d are outside of the lease %d+%d: %w", k, off, n, r.off, r.n, ErrState)
	case r.seg.kind != Arena && off != 0:
		return fmt.Errorf("seal %v: a file dataset begins at 0, not %d: %w", k, off, ErrState)
	case i > 0 && r.sets[i-1].off+r.sets[i-1].n > off, i < len(r.sets) && off+n > r.sets[i].off:
		return fmt.Errorf("seal %v: bytes %d+%d overlap another dataset: %w", k, off, n, ErrState)
	}
	r.sets = slices.Insert(r.sets, i, d)
	l.sets[k] = d
	d.move(evSeal)
	l.emit(Enter{k, d.place()})
	if r.seg.kind != Arena {
		l.emit(SealSegment{r.seg.id, r.seg.kind, n})
		l.resize(r, l.pages(n))
		l.closeLease(le, n)
		l.pump()
	}
	return nil
}

// CloseLease ends one lease; pages behind the first used bytes and behind the last sealed dataset are free.
func (l *Ledger) CloseLease(id LeaseID, used int64) error {
	le := l.leases[id]
	if le == nil {
		return fmt.Errorf("close lease %d: %w", id, ErrUnknown)
	}
	if le.g.phase != granted {
		return fmt.Errorf("close lease %d: not granted yet, release the request: %w", id, ErrState)
	}
	l.closeLease(le, used)
	l.pump()
	return nil
}

// Lend notes that a client may continue to read the file of a dataset whatever happens to pins and dataset: the
// file is never recycled. For a dataset in an arena it has no effect.
func (l *Ledger) Lend(k Key) error {
	d := l.sets[k]
	if d == nil || d.reg == nil {
		return fmt.Errorf("lend %v: %w", k, ErrUnknown)
	}
	d.reg.seg.lent = true
	return nil
}

// Ref adds n >= 1 references, also to a dataset that only its pins keep.
func (l *Ledger) Ref(k Key, n int) error {
	d := l.sets[k]
	if d == nil || n < 1 {
		return fmt.Errorf("reference %v: %w dataset", k, ErrUnknown)
	}
	d.refs += n
	return nil
}

// Unref takes n >= 1 references away; without any the dataset is freed when its last pin ends.
func (l *Ledger) Unref(k Key, n int) error {
	d := l.sets[k]
	if d == nil || d.refs == 0 {
		return fmt.Errorf("drop references of %v: %w dataset", k, ErrUnknown)
	}
	if n < 1 || n > d.refs {
		return fmt.Errorf("drop %d of %d references of %v: %w", n, d.refs, k, ErrState)
	}
	d.refs -= n
	if l.freeIfDone(d) {
		l.pump()
	}
	return nil
}

// Forget drops all references of a dataset.
func (l *Ledger) Forget(k Key) error {
	d := l.sets[k]
	if d == nil || d.refs == 0 {
		return fmt.Errorf("forget %v: %w dataset", k, ErrUnknown)
	}
	return l.Unref(k, d.refs)
}

// SetElsewhere notes whether another host has a copy: such datasets are dropped first, without a spill.
func (l *Ledger) SetElsewhere(k Key, there bool) error {
	d := l.sets[k]
	if d == nil {
		return fmt.Errorf("note a copy of %v: %w dataset", k, ErrUnknown)
	}
	if d.elsewhere == there {
		return nil
	}
	d.elsewhere = there
	if d.reg != nil {
		if there {
			d.reg.elsewhere++
		} else {
			d.reg.elsewhere--
		}
		l.relist(d.reg)
	}
	l.pump()
	return nil
}

// MarkCold makes a dataset the next victim among equals: for outputs whose consumers are far behind. Using it
// ends that.
func (l *Ledger) MarkCold(k Key) error {
	d := l.sets[k]
	if d == nil {
		return fmt.Errorf("mark %v: %w dataset", k, ErrUnknown)
	}
	if d.reg != nil && d.reg.list != unlisted {
		l.lists[d.reg.list].toFront(d.reg)
	}
	return nil
}

// Prepare creates arenas ahead of need until segments have about this many bytes. An idle agent calls it: fresh
// memory is several times slower than memory that exists.
func (l *Ledger) Prepare(bytes int64) {
	for l.total+l.cfg.ArenaBytes <= min(bytes, l.limit) {
		l.addSegment(Arena, l.cfg.ArenaBytes)
	}
}

// SetReserve changes Config.ReserveBytes, for example to what the largest admitted task may still ask for.
func (l *Ledger) SetReserve(bytes int64) {
	l.cfg.ReserveBytes = min(max(bytes, 0), l.cfg.Capacity)
	l.pump()
}

// Retry lets the ledger try disk and memory again after SpillFailed or SegmentFailed. Call it now and
// then, or when space is known to be back.
func (l *Ledger) Retry() {
	l.spillErr, l.createErr, l.limit = nil, nil, l.cfg.Capacity
	l.pump()
}

// Info describes a dataset.
type Info struct {
	Key       Key
	State     State
	Kind      Kind
	Place     Place // zero when Spilled, besides Bytes
	Refs      int
	Pins      int
	OnDisk    bool
	Elsewhere bool
}

// Dataset looks a dataset up.
func (l *Ledger) Dataset(k Key) (Info, bool) {
	d := l.sets[k]
	if d == nil {
		return Info{}, false
	}
	return Info{k, d.state, d.kind, d.place(), d.refs, d.pins, d.backed, d.elsewhere}, true
}

// Stats counts bytes.
type Stats struct {
	Capacity, Limit, Segments, Held, Pooled, Spilled int64
	Datasets, Leases, Waiting                        int
	// SpillErr and CreateErr tell why disk or memory is not used at present; Retry clears them.
	SpillErr, CreateErr error
}

// Stats returns the present sums.
func (l *Ledger) Stats() Stats {
	s := Stats{Capacity: l.cfg.Capacity, Limit: l.limit, Segments: l.total, Held: l.held, Pooled: l.pooled,
		Spilled: l.spilled, Datasets: len(l.sets), Leases: len(l.leases), SpillErr: l.spillErr, CreateErr: l.createErr}
	for _, q := range l.queues {
		s.Waiting += len(q)
	}
	return s
}

func (d *dataset) place() Place {
	if d.reg == nil {
		return Place{Bytes: d.n}
	}
	return Place{d.reg.seg.id, d.off, d.n}
}

func (d *dataset) move(ev event) {
	to, ok := next(d.state, ev)
	if !ok {
		panic(fmt.Sprintf("ledger: dataset %v can not %v while %v", d.key, ev, d.state))
	}
	d.state = to
}
