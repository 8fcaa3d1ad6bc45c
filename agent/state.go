//go:build linux

package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/flock"
	"github.com/cascade-run/cascade/internal/outfile"
	"github.com/cascade-run/cascade/internal/safedir"
	"github.com/cascade-run/cascade/internal/statedir"
)

// state is the folder of what outlives the agent. One agent at a time holds it.
type state struct {
	dir  string
	lock *os.File

	mu      sync.Mutex
	numbers numbers
	last    *os.File         // says which number was used last; see lastUsed
	used    comms.ExecutorID // highest number that this incarnation used
}

// numbers are what must never be used twice.
type numbers struct {
	Incarnation uint64           `json:"incarnation"`
	Executor    comms.ExecutorID `json:"executor"` // none above this was used
}

const lockName = "agent.lock" // in the state folder; held by its agent

// executorBlock is how many executor numbers are reserved at a time: reserving is
// synced, so that it survives a power loss. Which of them were used is in another
// file, which is not synced and counts until the host starts anew.
const executorBlock = 256

// lockPatience is for how long an agent that starts waits for the lock of its folder: the child that a killed agent was
// just starting has it until it is a program of its own.
const lockPatience = 2 * time.Second

// openState takes the folder and starts a new incarnation in it. Numbers of
// incarnations are wall-clock nanoseconds, so that they grow also when the
// folder was lost, and at least one more than the last. Event numbers start
// there too: no agent counts a thousand million events a second.
func openState(dir string) (*state, numbers, error) {
	lock, err := lockState(dir)
	for until := time.Now().Add(lockPatience); errors.Is(err, flock.ErrHeld) && time.Now().Before(until); lock, err = lockState(dir) {
		time.Sleep(lockPatience / 50)
	}
	if err != nil {
		return nil, numbers{}, err
	}
	s := &state{dir: dir, lock: lock}
	started, err := s.begin()
	if err != nil {
		if s.last != nil {
			s.last.Close()
		}
		lock.Close()
		return nil, numbers{}, err
	}
	return s, started, nil
}

// lockState takes the state folder, which it makes where there is none.
func lockState(dir string) (*os.File, error) {
	if err := safedir.Own(dir); err != nil {
		return nil, fmt.Errorf("make state folder: %w", err)
	}
	lock, err := statedir.Lock(filepath.Join(dir, lockName))
	if errors.Is(err, flock.ErrHeld) {
		return nil, fmt.Errorf("state folder %s: another agent uses it (each needs one of its own: --state): %w", dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("lock the state folder: %w", err)
	}
	return lock, nil
}

// Reserve keeps other agents from a state folder until it is closed: for what a
// program changes in it before New, which takes it again. It is an error when an agent
// has it.
func Reserve(state string) (io.Closer, error) { return lockState(state) }

func (s *state) begin() (numbers, error) {
	for _, name := range []string{"logs", "spill", "scratch"} {
		if err := os.MkdirAll(filepath.Join(s.dir, name), 0o700); err != nil {
			return numbers{}, fmt.Errorf("make state folder: %w", err)
		}
	}
	text, err := os.ReadFile(s.file())
	if err == nil {
		err = json.Unmarshal(text, &s.numbers)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return numbers{}, fmt.Errorf("read the agent's numbers from %s: %w", s.file(), err)
	}
	s.numbers.Incarnation = max(uint64(time.Now().UnixNano()), s.numbers.Incarnation+1)
	started := s.numbers
	boot := readText("/proc/sys/kernel/random/boot_id")
	if s.last, err = os.OpenFile(filepath.Join(s.dir, "executor.last"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return numbers{}, fmt.Errorf("open the last executor's number: %w", err)
	}
	if id, ok := lastUsed(s.last, boot); ok && id < started.Executor {
		started.Executor = id
	}
	if err := s.use(boot, started.Executor); err != nil {
		return numbers{}, err
	}
	if s.numbers.Executor < started.Executor+executorBlock/2 {
		s.numbers.Executor = started.Executor + executorBlock
	}
	if err := safedir.Remove(filepath.Join(s.dir, "scratch")); err != nil {
		return numbers{}, fmt.Errorf("clear scratch folder: %w", err)
	}
	return started, s.write()
}

// reserve ensures that no later incarnation uses the number of this executor.
func (s *state) reserve(id comms.ExecutorID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id > s.used {
		if err := s.use("", id); err != nil {
			return err
		}
	}
	if id <= s.numbers.Executor {
		return nil
	}
	s.numbers.Executor = id + executorBlock
	return s.write()
}

// The file of the last number is a boot's name and the number, as wide as it can
// get, so that one write replaces it and a kill leaves the old or the new one.
const bootWidth = 36

// lastUsed reads the number that was used last since the host started.
func lastUsed(f *os.File, boot string) (comms.ExecutorID, bool) {
	text := make([]byte, bootWidth+20)
	n, err := f.ReadAt(text, 0)
	var in string
	var id comms.ExecutorID
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, false
	}
	if _, err := fmt.Sscan(string(text[:n]), &in, &id); err != nil {
		return 0, false
	}
	return id, in == boot
}

// use writes down which number was used last; boot is "" when the file has it.
func (s *state) use(boot string, id comms.ExecutorID) error {
	s.used = id
	text, at := fmt.Sprintf(" %10d\n", id), int64(bootWidth)
	if boot != "" {
		text, at = fmt.Sprintf("%-*.*s%s", bootWidth, bootWidth, boot, text), 0
	}
	if _, err := s.last.WriteAt([]byte(text), at); err != nil {
		return fmt.Errorf("write the last executor's number: %w", err)
	}
	return nil
}

func (s *state) file() string { return filepath.Join(s.dir, "agent.json") }

// write replaces the file as a whole, so that a crash leaves the old or the new one.
func (s *state) write() error {
	text, err := json.Marshal(s.numbers)
	if err == nil {
		err = outfile.Replace(s.file(), append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the agent's numbers: %w", err)
	}
	return nil
}

// close gives the folder up, and the numbers that were reserved and not used.
func (s *state) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.numbers.Executor = s.used
	return errors.Join(s.write(), s.last.Close(), s.lock.Close())
}
