//go:build linux

package agent

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade/agent/postmortem"
	"github.com/cascade-run/cascade/comms"
	exec "github.com/cascade-run/cascade/executor"
)

// words are the pipes through which an executor takes what its functions print. It
// reads them itself, as it knows where one task ends and the next begins. The agent
// only holds them: what is in them when the executor dies would be lost with it.
type words struct {
	dir   string
	pipes []int
}

// wordsBytes is how much a pipe is to hold. A user may have few that are so large: then it holds the kernel's 64 KiB.
const wordsBytes = 1 << 20

func openWords(dir string) (w words, err error) {
	fail := func(err error) (words, error) {
		w.close()
		return words{}, fmt.Errorf("make pipes for what tasks print: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fail(err)
	}
	w.dir = dir
	for _, name := range exec.WordsFiles {
		path := filepath.Join(dir, name)
		if err := unix.Mkfifo(path, 0o600); err != nil {
			return fail(err)
		}
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return fail(err)
		}
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, wordsBytes) // see wordsBytes
		w.pipes = append(w.pipes, fd)
	}
	return w, nil
}

// rest reads what a dead executor left.
func (w words) rest() (text []byte) {
	buf := make([]byte, 64<<10)
	for _, fd := range w.pipes {
		for {
			n, err := unix.Read(fd, buf)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if n <= 0 || err != nil || len(text) > 2*wordsBytes { // a child that it left behind goes on writing
				break
			}
			text = append(text, buf[:n]...)
		}
	}
	return text
}

func (w words) close() {
	for _, fd := range w.pipes {
		_ = unix.Close(fd) // nothing was written
	}
}

// spoken is the end of what an executor has sent of what its current task prints.
type spoken struct {
	mu   sync.Mutex
	run  comms.RunID
	text []byte
}

// note takes what was sent.
func (s *spoken) note(m *comms.Log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Run != s.run {
		s.run, s.text = m.Run, nil
	}
	s.text = append(s.text, m.Text[max(0, len(m.Text)-postmortem.Tail):]...)
	s.text = bytes.Clone(s.text[max(0, len(s.text)-postmortem.Tail):])
}

// of returns the end of what was sent of a run.
func (s *spoken) of(run comms.RunID) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != run {
		return nil
	}
	return s.text
}
