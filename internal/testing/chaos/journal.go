//go:build linux

package chaos

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Line is one thing that a task said of itself.
type Line struct {
	At      time.Time // when the task said it; of a command: when the test read it
	Event   string    // start, end, or what the task calls it
	Task    string
	Attempt int
	PID     int
	Job     string // "" from a command
	Note    string
}

func (l Line) String() string {
	return fmt.Sprintf("%s %s %s attempt %d in %d %s", l.At.Format("05.000000"), l.Event, l.Task, l.Attempt, l.PID, l.Note)
}

// Journal hears what tasks say, in order, through a named pipe: a line of at most
// 4 KiB is written as a whole, and the test has it at once.
type Journal struct {
	Path string
	tb   testing.TB
	pipe *os.File
	done chan struct{}

	synced chan struct{} // has something when a line of Sync was read

	mu    sync.Mutex
	lines []Line
	hook  func(n int, l Line)
	more  chan struct{} // closed at the next line
}

// newJournal makes the pipe and listens until the test ends.
func newJournal(tb testing.TB, path string) *Journal {
	tb.Helper()
	if err := unix.Mkfifo(path, 0o600); err != nil {
		tb.Fatal(err)
	}
	// Open for both: it never ends because a writer has gone, and no writer waits for us.
	pipe, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		tb.Fatal(err)
	}
	j := &Journal{Path: path, tb: tb, pipe: pipe, done: make(chan struct{}), synced: make(chan struct{}, 1), more: make(chan struct{})}
	go j.read()
	tb.Cleanup(func() {
		pipe.Close()
		<-j.done
	})
	return j
}

func (j *Journal) read() {
	defer close(j.done)
	for in := bufio.NewScanner(j.pipe); in.Scan(); {
		f := strings.Fields(in.Text())
		for len(f) < 7 {
			f = append(f, "")
		}
		if f[0] == syncWord {
			j.synced <- struct{}{}
			continue
		}
		l := Line{At: time.Now(), Event: f[0], Task: f[1], Job: f[4], Note: f[6]}
		l.Attempt, _ = strconv.Atoi(f[2])
		l.PID, _ = strconv.Atoi(f[3])
		if at, err := strconv.ParseInt(f[5], 10, 64); err == nil {
			l.At = time.Unix(0, at)
		}
		j.mu.Lock()
		j.lines = append(j.lines, l)
		n, hook := len(j.lines), j.hook
		close(j.more)
		j.more = make(chan struct{})
		j.mu.Unlock()
		if hook != nil {
			hook(n, l)
		}
	}
}

const syncWord = "sync"

// Sync returns when everything that was said before has been read.
func (j *Journal) Sync() {
	j.tb.Helper()
	if _, err := j.pipe.WriteString(syncWord + "\n"); err != nil {
		j.tb.Fatal(err)
	}
	<-j.synced
}

// On calls f for every line from now on, with the line's number from 1, before
// the next one is read. Nil ends that.
func (j *Journal) On(f func(n int, l Line)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.hook = f
}

// Lines returns all lines from the n-th on, counted from 0.
func (j *Journal) Lines(from int) []Line {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]Line(nil), j.lines[from:]...)
}

// Len returns how many lines there are.
func (j *Journal) Len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.lines)
}

// Await waits for the first line, also an old one, that matches.
func (j *Journal) Await(match func(Line) bool) Line {
	j.tb.Helper()
	return j.AwaitFrom(0, match)
}

// AwaitFrom is like Await from the n-th line on, counted from 0.
func (j *Journal) AwaitFrom(next int, match func(Line) bool) Line {
	j.tb.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		j.mu.Lock()
		lines, more := j.lines[next:], j.more
		j.mu.Unlock()
		for _, l := range lines {
			if match(l) {
				return l
			}
		}
		next += len(lines)
		select {
		case <-more:
		case <-late.C:
			j.tb.Fatalf("no task has said what the test waits for in %v; all that was said: %v", patience, j.Lines(0))
		}
	}
}

// AwaitLen waits until there are so many lines.
func (j *Journal) AwaitLen(n int) {
	j.tb.Helper()
	left := max(n, 1)
	j.Await(func(Line) bool { left--; return left == 0 })
}

// Ended returns a match for the end of a task; attempt 0 is any.
func Ended(task string, attempt int) func(Line) bool {
	return func(l Line) bool {
		return l.Event == "end" && l.Task == task && (attempt == 0 || l.Attempt == attempt)
	}
}

// Started returns a match for the start of a task; attempt 0 is any.
func Started(task string, attempt int) func(Line) bool {
	return func(l Line) bool {
		return l.Event == "start" && l.Task == task && (attempt == 0 || l.Attempt == attempt)
	}
}
