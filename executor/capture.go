package executor

import (
	"errors"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// capture makes what functions print (fmt.Println, log.Printf, panics aside) the
// log of the run that is at work. It replaces os.Stdout and os.Stderr and not
// the descriptors behind them: the Go runtime's last words go to descriptor 2,
// which the agent reads. The order of the two streams among each other is not kept.
//
// Printed text waits in pipes that the agent holds too: it reads the rest when this process dies.
type capture struct {
	exec    *Executor
	streams [2]*captured
	call    time.Duration // a system call takes longer than this
}

// joinDelay is how long text waits in its pipe for more.
const joinDelay = 5 * time.Millisecond

// captured is one stream: a pipe that is read when something arrives, and at the
// end of each run, so that each line goes to the run that wrote it.
type captured struct {
	stream uint8
	old    *os.File
	pipe   *os.File
	fd     int

	mu  sync.Mutex // held from reading until the text is passed on
	buf [16 << 10]byte
}

// start begins to capture. It is never undone: the process is an executor.
func (c *capture) start(e *Executor) error {
	c.exec = e
	for i, std := range []**os.File{&os.Stdout, &os.Stderr} {
		r, w, err := pipe(e.cfg.Words, i)
		if err != nil {
			return fmt.Errorf("capture output: %w", err)
		}
		s := &captured{stream: uint8(i + 1), old: *std, pipe: r}
		raw, err := r.SyscallConn()
		if err != nil {
			return fmt.Errorf("capture output: %w", err)
		}
		if err := raw.Control(func(fd uintptr) { s.fd = int(fd) }); err != nil {
			return fmt.Errorf("capture output: %w", err)
		}
		c.streams[i] = s
		*std = w
		// The callback finds data or not; either way it waits for more.
		go func() {
			_ = raw.Read(func(uintptr) bool {
				if s.pending() {
					time.Sleep(joinDelay) // in the pipe more joins it, and a death does not lose it
					s.drain(e)
					e.sendLog()
				}
				return false
			})
		}()
	}
	log.SetOutput(os.Stderr)
	c.call = c.shortest()
	return nil
}

// pipe returns the ends of the pipe of a stream: the agent's, or one of our own.
func pipe(words string, stream int) (r, w *os.File, err error) {
	if words == "" {
		return os.Pipe()
	}
	path := filepath.Join(words, WordsFiles[stream])
	if r, err = os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0); err != nil {
		return nil, nil, err
	}
	if w, err = os.OpenFile(path, os.O_WRONLY, 0); err != nil {
		return nil, nil, errors.Join(err, r.Close())
	}
	return r, w, nil
}

// pending tells whether there is anything to read.
func (s *captured) pending() bool {
	return !nothingToRead([]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}})
}

// drainAfter is drain after a function that took so long. One that returned in
// less time than a system call takes has printed nothing.
func (c *capture) drainAfter(took time.Duration) {
	if took == 0 || took >= c.call {
		c.drain()
	}
}

// shortest returns less than the time that a system call takes at least: half of
// the quickest of many that do next to nothing. A print takes longer: its call does more.
func (c *capture) shortest() time.Duration {
	least := time.Duration(math.MaxInt64)
	for range 200 {
		began := time.Now()
		if !c.silent() {
			return 0
		}
		least = min(least, time.Since(began))
	}
	return least / 2
}

// drain passes on all that was printed up to now.
func (c *capture) drain() {
	if c.silent() {
		return
	}
	for _, s := range c.streams {
		if s != nil {
			s.drain(c.exec)
		}
	}
}

// silent tells that nothing was printed that has not been passed on: one system
// call for both streams, as it is asked after every run.
func (c *capture) silent() bool {
	var fds [2]unix.PollFd
	for i, s := range c.streams {
		if s == nil {
			return false
		}
		s.mu.Lock() // what was read before has been passed on
		defer s.mu.Unlock()
		fds[i] = unix.PollFd{Fd: int32(s.fd), Events: unix.POLLIN}
	}
	return nothingToRead(fds[:])
}

func (s *captured) drain(e *Executor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		n, err := syscall.Read(s.fd, s.buf[:])
		if err == syscall.EINTR {
			continue
		}
		if n <= 0 || err != nil { // EAGAIN: nothing more for now
			return
		}
		e.print(s, s.buf[:n])
	}
}

// sendLog sends what the current run has printed.
func (e *Executor) sendLog() {
	e.mu.Lock()
	var log *logWriter
	if r := e.current; r != nil {
		log = r.log
	}
	e.mu.Unlock()
	if log != nil {
		log.flush()
	}
}

// print gives text to the log of the current run, or to the agent when there is none.
func (e *Executor) print(s *captured, text []byte) {
	var log *logWriter
	e.mu.Lock()
	if r := e.current; r != nil {
		log = r.loggerLocked().logWriter
	}
	e.mu.Unlock()
	if log != nil {
		if _, err := log.write(s.stream, text); err == nil {
			return
		}
	}
	_, _ = s.old.Write(text) // an error has no receiver any more
}
