package gcs

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	badger "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/failpoint"
)

// entry is one key to set, or to delete when value is nil.
type entry struct {
	key   []byte
	value []byte
}

func (e *entry) size() int64 { return int64(len(e.key) + len(e.value) + 32) } // 32: Badger's own per entry

// write is one atomic change: its entries go into one transaction of Badger.
type write struct {
	job     comms.JobID
	entries []entry
	refuse  bool // on a full disk fail with ErrNoSpace instead of waiting
	graph   graphOp
	name    comms.Hash // of the graph
	chunk   uint32     // with graphChunk: its number; with graphUse: how many there are
	only    bool       // with graphUse: the last entry is the graph's only chunk
	added   uint64     // bytes that stay
	done    func(error)
	err     error // set by the shard: the write alone was refused
}

func (w *write) bytes() (n uint64) {
	for i := range w.entries {
		n += uint64(len(w.entries[i].key) + len(w.entries[i].value))
	}
	return n
}

// shard is one Badger instance and the one goroutine that writes to it. Writes
// are queued without limit here: what bounds them is that agents stop at so
// many events that are not durable.
type shard struct {
	number   int
	db       *badger.DB
	space    *space
	sync     bool
	watch    *watches
	graphs   map[comms.Hash]*storedGraph // of the goroutine
	unsynced *unsynced
	onGroup  func()
	reads    sync.WaitGroup // that the goroutine has begun: the database stays open until they end
	rewrite  rewriting

	mu     sync.Mutex
	queue  []write
	spare  []write // memory for the next queue
	closed bool
	failed error

	wake chan struct{} // capacity 1: there is something in queue, or closed was set
	stop chan struct{} // closed by close: ends a wait for space
	end  chan struct{} // closed when the goroutine has ended
}

// valueThreshold is from how many bytes on a value goes to the value log. Batches of
// events are written once and deleted once. In memtables they would fill one every
// few seconds, and of each Badger makes a table with a builder of several times
// its size, of which it keeps up to eight: 200 MiB for a store of 64.
const valueThreshold = 1 << 10

// numMemtables is how many memtables of a shard may be full and not yet tables.
const numMemtables = 2

func openShard(number int, dir string, o *Options, shards int) (*shard, error) {
	unsynced := &unsynced{}
	memTable, cache := o.memory(shards)
	bo := badger.DefaultOptions(dir).
		WithLogger(unsynced).
		WithSyncWrites(o.Sync).
		WithDetectConflicts(false). // one goroutine writes
		WithMemTableSize(memTable).
		WithNumMemtables(numMemtables).
		WithBlockCacheSize(cache).
		WithIndexCacheSize(cache).
		WithNumCompactors(2).
		WithBaseTableSize(memTable / 8).
		WithNumLevelZeroTables(2). // early compactions tell early what of the value log is garbage
		WithValueLogFileSize(4 * memTable).
		WithValueThreshold(valueThreshold).
		WithCompression(options.None). // large batches are outside the tables, and small records take more cpu to pack than they save
		WithMetricsEnabled(false)
	err := cmp.Or(removeEmpty(dir), checkTables(dir), settle(bo))
	var db *badger.DB
	if err == nil {
		db, err = badger.Open(bo)
	}
	if err != nil {
		return nil, fmt.Errorf("open shard %d in %s: %w: if its files are damaged, restore a backup (cascade cluster restore), or move the state folder away to begin with an empty one", number, dir, err)
	}
	onGroup := o.OnGroup
	if onGroup == nil {
		onGroup = func() {}
	}
	return &shard{number: number, db: db, sync: o.Sync, unsynced: unsynced, onGroup: onGroup,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), end: make(chan struct{})}, nil
}

// submit queues a write. Its done is called once, from the shard's goroutine,
// in the order of submission; when the shard is closed or failed, from here.
func (s *shard) submit(w write) {
	s.mu.Lock()
	err := s.failed
	if err == nil && s.closed {
		err = ErrClosed
	}
	if err == nil {
		s.queue = append(s.queue, w)
	}
	s.mu.Unlock()
	if err != nil {
		w.done(err)
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *shard) take() (ws []write, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ws, s.queue, s.spare = s.queue, s.spare, nil
	return ws, s.closed
}

// reuse keeps the memory of writes that are done for later ones, unless it is much.
func (s *shard) reuse(ws []write) {
	if cap(ws) > maxSpare {
		return
	}
	clear(ws)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spare = ws[:0]
}

// maxSpare is the most writes of which a shard keeps the memory.
const maxSpare = 4096

// run commits what is queued, group after group, until close.
func (s *shard) run() {
	defer close(s.end)
	for range s.wake {
		for {
			ws, closed := s.take()
			if len(ws) == 0 {
				if closed {
					return
				}
				break
			}
			for left := ws; len(left) > 0; {
				n, err := s.group(left)
				for i := range left[:n] {
					left[i].done(cmp.Or(err, left[i].err))
				}
				left = left[n:]
				s.onGroup()
			}
			s.reuse(ws)
		}
	}
}

// group commits the first writes of ws as one transaction and returns how many.
func (s *shard) group(ws []write) (int, error) {
	s.mu.Lock()
	failed := s.failed
	s.mu.Unlock()
	if failed != nil {
		return len(ws), failed
	}
	if len(ws[0].entries) == 0 { // a barrier: everything before it is durable
		return 1, nil
	}
	switch err := s.space.await(ws[0].refuse, s.stop); {
	case errors.Is(err, ErrNoSpace) || errors.Is(err, ErrClosed):
		return 1, err
	case err != nil:
		return 1, s.fail(err)
	}
	n, bytes, count := 0, int64(0), int64(0)
	txn := s.db.NewTransaction(true)
	defer txn.Discard()
	for ; n < len(ws); n++ { // where there is room for one there is for all
		var size int64
		for i := range ws[n].entries {
			size += ws[n].entries[i].size()
		}
		bytes, count = bytes+size, count+int64(len(ws[n].entries))
		if n > 0 && (bytes >= s.db.MaxBatchSize() || count >= s.db.MaxBatchCount()) {
			break
		}
		entries := ws[n].entries
		if ws[n].graph != graphNone {
			var err error
			if entries, err = s.applyGraph(txn, &ws[n]); errors.Is(err, ErrNoSpace) {
				ws[n].err = err
				continue
			} else if err != nil {
				return 1, s.fail(fmt.Errorf("write to shard %d: %w", s.number, err))
			}
		}
		for i := range entries {
			if err := apply(txn, &entries[i]); err != nil {
				return 1, s.fail(fmt.Errorf("write %d entries of %d bytes to shard %d: %w", count, bytes, s.number, err))
			}
		}
	}
	s.rewrite.Lock()
	err := cmp.Or(txn.Commit(), s.unsynced.heard())
	s.rewrite.Unlock()
	if err != nil {
		return n, s.fail(fmt.Errorf("commit to shard %d: %w", s.number, err))
	}
	failpoint.Hit("gcs.group")
	s.watch.notify(s.number, ws[:n])
	return n, nil
}

func apply(txn *badger.Txn, e *entry) error {
	if e.value == nil {
		return txn.Delete(e.key)
	}
	return txn.Set(e.key, e.value)
}

// fail makes the shard refuse all that follows: a later write must not become
// durable when one before it did not.
func (s *shard) fail(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = err
	}
	return s.failed
}

func (s *shard) close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	if !first {
		return nil
	}
	close(s.stop)
	select {
	case s.wake <- struct{}{}:
	default:
	}
	<-s.end
	s.reads.Wait()
	s.mu.Lock()
	failed := s.failed
	s.mu.Unlock()
	if failed == nil {
		if err := s.db.Close(); err != nil {
			return fmt.Errorf("close shard %d: %w", s.number, err)
		}
		return nil
	}
	// On a disk that fails Badger tries for ever to write its memtable out. Acknowledged
	// writes are in its log: the next Open reads them.
	closed := make(chan error, 1)
	go func() { closed <- s.db.Close() }()
	patience := time.NewTimer(closePatience)
	defer patience.Stop()
	select {
	case err := <-closed:
		if err != nil {
			return fmt.Errorf("close shard %d after it failed: %w", s.number, err)
		}
		return nil
	case <-patience.C:
		return fmt.Errorf("close shard %d after it failed: no end within %v", s.number, closePatience)
	}
}

// closePatience is how long the end of a shard that failed may take.
const closePatience = 3 * time.Second

// compact rewrites value logs that are half garbage, until none is left.
func (s *shard) compact(deadline time.Time) error {
	for time.Now().Before(deadline) {
		if low, err := s.space.low(); err != nil || low {
			return err // a rewrite needs room before it gives some back
		}
		s.rewrite.Lock()
		err := s.db.RunValueLogGC(0.5)
		s.rewrite.Unlock()
		if errors.Is(err, badger.ErrNoRewrite) || errors.Is(err, badger.ErrRejected) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("compact shard %d: %w", s.number, err)
		}
	}
	return nil
}
