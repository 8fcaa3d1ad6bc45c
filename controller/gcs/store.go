package gcs

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	badger "github.com/dgraph-io/badger/v4"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/internal/diskspace"
	"github.com/cascade-run/cascade/internal/safedir"
)

// Errors of the store.
var (
	ErrClosed   = errors.New("the store is closed")
	ErrNotFound = errors.New("not in the store")
)

// SchemaVersion is the version of the records that this build writes. It rises with what a
// build before must not go on with, also where that would only skip what it does not know.
//
//	2  graphs are stored once, by their hash
//	3  a job may be cancelled because it fails (records.Job.Fails); graphs say what becomes of
//	   a job when a recomputed dataset differs
const SchemaVersion = 3

// Options of a store. The zero value of each field but Dir means its default.
type Options struct {
	Dir     string
	Shards  int    // of a new store, default 2; an existing one keeps its own
	Sync    bool   // survive power loss: every group is synced. Else: the crash of any process.
	Memory  int64  // bytes of all memtables and caches together, default 64 MiB
	MinFree uint64 // free bytes of the disk below which commits pause, default 256 MiB, more with much memory
	Reserve uint64 // bytes of the reserve file, default 32 MiB
	Brief   bool   // opened to be read, with few and small writes: MinFree is 8 MiB a shard, for which the reserve is deleted
	// OnPause is told when commits pause for want of space and when they go on.
	// It is called from a shard's goroutine.
	OnPause func(paused bool, free uint64)
	// OnGroup is called when all writes of a group have been told that they are
	// durable, or were refused: what follows from them may be done at once.
	OnGroup func()

	memTable   int64 // of tests
	freeBytes  func(string) (uint64, error)
	poll       time.Duration
	migrations map[uint32]func(*badger.DB) error
}

// LeastMemory is the least Options.Memory with which so many shards work.
func LeastMemory(shards int) int64 { return int64(shards) * 32 << 20 }

// memory divides a shard's part of the memory: three memtables, of which one is
// written to and two wait for the disk, and two caches. A transaction takes 15 %
// of a memtable, and must take a chunk.
func (o *Options) memory(shards int) (memTable, cache int64) {
	if o.memTable > 0 {
		return o.memTable, 1 << 20
	}
	part := max(o.Memory, LeastMemory(shards)) / int64(shards)
	return part / 4, part / 8
}

func (o *Options) defaults() {
	if o.Shards <= 0 {
		o.Shards = 2
	}
	if o.Memory <= 0 {
		o.Memory = 64 << 20
	}
	if o.MinFree == 0 && o.Brief {
		memTable, _ := o.memory(o.Shards) // what a run that was killed has not written as a table yet
		o.MinFree = uint64(o.Shards) * uint64(memTable)
	}
	if o.MinFree == 0 {
		// Of its own accord Badger may still write each memtable as a table, and as much again in a compaction.
		memTable, _ := o.memory(o.Shards)
		o.MinFree = max(diskspace.DefaultCommit, uint64(o.Shards)*2*(numMemtables+1)*uint64(memTable))
	}
	if o.Reserve == 0 {
		o.Reserve = 32 << 20
	}
	if o.OnPause == nil {
		o.OnPause = func(bool, uint64) {}
	}
	if o.freeBytes == nil {
		o.freeBytes = (&gauge{ask: diskspace.Free, now: time.Now, plenty: o.MinFree + gaugeAbove}).freeBytes
	}
	if o.poll == 0 {
		o.poll = 500 * time.Millisecond
	}
	if o.migrations == nil {
		o.migrations = migrations()
	}
}

// Store is the control store of one controller. Its methods may be called from
// any goroutine; reads see a snapshot, and never wait for writes.
type Store struct {
	dir     string
	lock    *os.File
	shards  []*shard
	shardOf ShardMap
	space   space
	watches watches
	spans   spans
}

// Open opens or makes the store in o.Dir. Errors: *LockedError when another
// process has it, *SchemaError when a newer build wrote it.
func Open(o Options) (*Store, error) {
	o.defaults()
	if err := safedir.Own(o.Dir); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	lock, err := lockDir(o.Dir)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: o.Dir, lock: lock, space: space{dir: o.Dir, min: o.MinFree, reserve: o.Reserve,
		free: o.freeBytes, poll: o.poll, onPause: o.OnPause}}
	if err := s.open(&o); err != nil {
		return nil, errors.Join(err, s.abandon())
	}
	for _, sh := range s.shards {
		sh.space, sh.watch = &s.space, &s.watches
		go sh.run()
	}
	return s, nil
}

func (s *Store) open(o *Options) error {
	if err := s.space.hold(); err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	free, err := s.space.free(o.Dir)
	if err == nil && o.Brief && free < o.MinFree {
		if err = s.space.relieve(free); err == nil {
			free, err = s.space.free(o.Dir)
		}
	}
	if err != nil {
		return err
	}
	if free < o.MinFree {
		return fmt.Errorf("open store: %w: %d MiB free in %s, %d MiB are needed: make room on that disk (cascade rm jobs JOB frees what is kept of a job), or say a folder on another by --state", ErrNoSpace, free>>20, o.Dir, o.MinFree>>20)
	}
	known, err := filepath.Glob(filepath.Join(o.Dir, "shard-*"))
	if err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	shards := cmp.Or(len(known), o.Shards) // of an existing store they may be others than the options'
	if err := s.openShard(0, o, shards); err != nil {
		return err
	}
	if err := s.loadShardMap(o); err != nil {
		return err
	}
	for i := 1; i < int(s.shardOf.Shards); i++ {
		if err := s.openShard(i, o, shards); err != nil {
			return err
		}
	}
	for _, sh := range s.shards {
		if err := sh.findGraphs(); err != nil {
			return err
		}
	}
	return nil
}

func shardName(i int) string { return fmt.Sprintf("shard-%03d", i) }

func (s *Store) openShard(i int, o *Options, shards int) error {
	sh, err := openShard(i, filepath.Join(s.dir, shardName(i)), o, shards)
	if err != nil {
		return err
	}
	s.shards = append(s.shards, sh)
	return checkSchema(sh.db, i, o.migrations)
}

func (s *Store) loadShardMap(o *Options) error {
	db := s.shards[0].db
	key := nameKey(tableMeta, "shards")
	b, err := get(db, key)
	if errors.Is(err, ErrNotFound) {
		s.shardOf = newShardMap(o.Shards)
		if b, err = encodeRecord(&s.shardOf); err != nil {
			return err
		}
		return db.Update(func(t *badger.Txn) error { return t.Set(key, b) })
	}
	if err != nil {
		return fmt.Errorf("read shard map: %w", err)
	}
	if s.shardOf, err = decodeRecord[ShardMap](b); err != nil {
		return fmt.Errorf("read shard map: %w", err)
	}
	return s.shardOf.validate()
}

// abandon closes what Open had opened before it failed: no goroutine runs yet.
func (s *Store) abandon() error {
	var errs []error
	for _, sh := range s.shards {
		errs = append(errs, sh.db.Close())
	}
	return errors.Join(append(errs, s.lock.Close())...)
}

// Close commits what is queued and closes the store.
func (s *Store) Close() error {
	var errs []error
	for _, sh := range s.shards {
		errs = append(errs, sh.close())
	}
	s.watches.close()
	return errors.Join(append(errs, s.lock.Close())...)
}

// MinFree returns the free bytes of the disk below which commits wait.
func (s *Store) MinFree() uint64 { return s.space.min }

// Map returns the shard map in use.
func (s *Store) Map() ShardMap { return s.shardOf }

func (s *Store) of(job comms.JobID) *shard { return s.shards[s.shardOf.shard(job)] }

// Compact returns disk space of deleted records, for at most the given time.
// It may run beside reads and writes; the driver calls it now and then.
func (s *Store) Compact(budget time.Duration) error {
	deadline := time.Now().Add(budget)
	var errs []error
	for _, sh := range s.shards {
		errs = append(errs, sh.compact(deadline))
	}
	return errors.Join(errs...)
}

// SchemaError says that a newer build wrote the store.
type SchemaError struct {
	Shard       int
	Found, Know uint32
}

func (e *SchemaError) Error() string {
	return fmt.Sprintf("store: shard %d has records of schema version %d; this build reads up to %d: use the newer build, or another state folder",
		e.Shard, e.Found, e.Know)
}

// migrations turn a shard of version n into one of version n+1. They must be
// repeatable: a crash between a migration and its version record repeats it.
func migrations() map[uint32]func(*badger.DB) error {
	return map[uint32]func(*badger.DB) error{
		1: graphsByName,
		2: func(*badger.DB) error { return nil }, // it has all that there was
	}
}

func checkSchema(db *badger.DB, number int, migrate map[uint32]func(*badger.DB) error) error {
	key := nameKey(tableMeta, "schema")
	version := uint32(SchemaVersion)
	b, err := get(db, key)
	switch {
	case errors.Is(err, ErrNotFound):
		return writeSchema(db, key, version)
	case err != nil:
		return fmt.Errorf("read schema version: %w", err)
	case len(b) != 4:
		return fmt.Errorf("schema version of shard %d: %w", number, ErrCorrupt)
	}
	version = binary.BigEndian.Uint32(b)
	if version > SchemaVersion {
		return &SchemaError{Shard: number, Found: version, Know: SchemaVersion}
	}
	for ; version < SchemaVersion; version++ {
		f := migrate[version]
		if f == nil {
			return fmt.Errorf("store: shard %d has schema version %d, and no migration to %d is known", number, version, version+1)
		}
		if err := f(db); err != nil {
			return fmt.Errorf("migrate shard %d from schema version %d: %w", number, version, err)
		}
		if err := writeSchema(db, key, version+1); err != nil {
			return err
		}
	}
	return nil
}

func writeSchema(db *badger.DB, key []byte, version uint32) error {
	err := db.Update(func(t *badger.Txn) error { return t.Set(key, binary.BigEndian.AppendUint32(nil, version)) })
	if err != nil {
		return fmt.Errorf("write schema version: %w", err)
	}
	return nil
}

// JobData is what Load reads of one job.
type JobData struct {
	Row     records.Job
	Request *comms.Submit // without its graph
	Graph   []byte
	Seen    map[string]records.Seen // by agent: what of its events is durable in the job's shard
}
