package gcs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// ErrNoSpace says that a write was refused because the disk is nearly full.
var ErrNoSpace = errors.New("the disk of the store is nearly full")

// space watches the free bytes of the store's disk. Badger writes to mappings of
// sparse files: on a full disk that is a SIGBUS in one of its goroutines, which
// nothing can catch. So nothing is committed below the limit. When others take
// what is left below it, the reserve file is deleted, which leaves Badger room
// to end what it is doing: flushes of memtables and compactions that had begun.
// (Deleted earlier, the others would take that, too.)
type space struct {
	dir     string
	min     uint64 // free bytes below which nothing is committed
	reserve uint64 // bytes of the reserve file
	free    func(dir string) (uint64, error)
	poll    time.Duration
	onPause func(paused bool, free uint64)

	mu      sync.Mutex
	paused  int // shards that wait
	held    bool
	told    bool // what onPause was told last
	telling bool // a shard calls onPause
}

// gauge asks for the free bytes of a disk, seldom while there are plenty of them:
// the question costs more than a small commit.
type gauge struct {
	ask    func(dir string) (uint64, error)
	now    func() time.Time
	plenty uint64 // bytes from which an answer holds for a while

	mu   sync.Mutex
	free uint64
	at   time.Time // of the answer
}

// How long an answer holds, and how much above the limit is plenty: no process writes
// so much in that time.
const (
	gaugeAge   = 10 * time.Millisecond
	gaugeAbove = 1 << 30
)

func (g *gauge) freeBytes(dir string) (uint64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	if g.free >= g.plenty && now.Sub(g.at) < gaugeAge {
		return g.free, nil
	}
	free, err := g.ask(dir)
	g.free, g.at = free, now
	return free, err
}

func (s *space) file() string { return filepath.Join(s.dir, "reserve") }

// hold makes the reserve file when there is room for it. The caller holds mu or is alone.
func (s *space) hold() error {
	if s.held || s.reserve == 0 {
		return nil
	}
	if st, err := os.Stat(s.file()); err == nil && uint64(st.Size()) == s.reserve {
		s.held = true
		return nil
	}
	free, err := s.free(s.dir)
	if err != nil || free < s.min+2*s.reserve {
		return err
	}
	f, err := os.Create(s.file())
	if err != nil {
		return fmt.Errorf("make reserve file: %w", err)
	}
	// Zeros are written, not only reserved: it works on every file system.
	buf := make([]byte, 1<<20)
	for n := uint64(0); n < s.reserve && err == nil; n += uint64(len(buf)) {
		_, err = f.Write(buf[:min(uint64(len(buf)), s.reserve-n)])
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("make reserve file: %w", err), os.Remove(s.file()))
	}
	s.held = true
	return nil
}

// await returns when there is room for a group. Without room it returns
// ErrNoSpace at once if refuse is set, else it waits until there is, or ErrClosed.
func (s *space) await(refuse bool, stop <-chan struct{}) error {
	if refuse {
		return s.refusal()
	}
	free, err := s.free(s.dir)
	if err != nil || free >= s.min {
		return err
	}
	if err := s.relieve(free); err != nil {
		return err
	}
	s.enter(free)
	defer s.leave()
	tick := time.NewTicker(s.poll)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return ErrClosed
		case <-tick.C:
		}
		if free, err = s.free(s.dir); err != nil || free >= s.min {
			return err
		}
		if err := s.relieve(free); err != nil {
			return err
		}
	}
}

// refusal returns ErrNoSpace when there is no room.
func (s *space) refusal() error { return s.room(0) }

// room returns ErrNoSpace when there is no room for so many bytes more.
func (s *space) room(bytes uint64) error {
	free, err := s.free(s.dir)
	if err == nil && (free < s.min || free-s.min < bytes) {
		err = fmt.Errorf("%w: %d MiB free in %s, %d MiB are needed", ErrNoSpace, free>>20, s.dir, (s.min+bytes)>>20)
	}
	return err
}

// low tells whether there is too little room for work that can wait.
func (s *space) low() (bool, error) {
	free, err := s.free(s.dir)
	return free < s.min, err
}

// relieve deletes the reserve when less than its size is free.
func (s *space) relieve(free uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.held || free >= s.reserve {
		return nil
	}
	if err := os.Remove(s.file()); err != nil {
		return fmt.Errorf("release the reserve of the store: %w", err)
	}
	s.held = false
	return nil
}

func (s *space) enter(free uint64) {
	s.mu.Lock()
	s.paused++
	s.mu.Unlock()
	s.tell(free)
}

func (s *space) leave() {
	s.mu.Lock()
	if s.paused--; s.paused == 0 {
		// Without a reserve the store still works, only the next pause has less room:
		// hold is tried again then.
		_ = s.hold()
	}
	s.mu.Unlock()
	free, _ := s.free(s.dir)
	s.tell(free)
}

// tell calls onPause, without the lock, until it has been told how things are. The
// calls come one after another, each the contrary of the one before.
func (s *space) tell(free uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.telling {
		return
	}
	s.telling = true
	for now := s.paused > 0; now != s.told; now = s.paused > 0 {
		s.told = now
		s.mu.Unlock()
		s.onPause(now, free)
		s.mu.Lock()
	}
	s.telling = false
}
