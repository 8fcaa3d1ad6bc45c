//go:build linux

package agent

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/diskspace"
)

// taskLogs keeps what tasks wrote: one append-only file per task under
// DIR/JOB/, of a bounded size. append, read, forget and close belong to one lane,
// so that a reader sees all that was appended before it asked.
type taskLogs struct {
	dir   string
	limit int64  // bytes per task
	leave uint64 // free bytes of the disk below which text is left out
	free  func(dir string) (uint64, error)
	short map[logName]bool // whose text was left out last, which the log says

	open   map[logName]*os.File
	recent []logName // keys of open, oldest first

	mu      sync.Mutex
	room    sync.Cond
	backlog int64 // bytes that may wait
	waiting int64 // bytes that wait
	closed  bool
}

type logName struct {
	job  comms.JobID
	task string
}

// openLogs is how many log files are kept open.
const openLogs = 64

func newTaskLogs(dir string, limits Limits, leave uint64) *taskLogs {
	t := &taskLogs{dir: dir, limit: limits.TaskLog, leave: leave, free: diskspace.Free, backlog: limits.Backlog,
		open: map[logName]*os.File{}, short: map[logName]bool{}}
	t.room.L = &t.mu
	return t
}

// await waits until the text that waits to be written is within its bound. Those
// who read links call it, so that the writer of a flood is held back, not the agent.
func (t *taskLogs) await() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.waiting > t.backlog && !t.closed {
		t.room.Wait()
	}
}

// count adds n bytes to what waits; append subtracts them.
func (t *taskLogs) count(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting += int64(n)
	if t.waiting <= t.backlog {
		t.room.Broadcast()
	}
}

// release lets all waiters go, for good.
func (t *taskLogs) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.room.Broadcast()
}

// append writes text that was counted. Beyond the limit it writes once that the log was cut,
// and once where text is missing for want of space.
func (t *taskLogs) append(job comms.JobID, task string, text []byte) error {
	defer t.count(-len(text))
	name := logName{job, task}
	file, err := t.file(name)
	if err != nil {
		return err
	}
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("append to log of task %s: %w", task, err)
	}
	if end > t.limit {
		return nil
	}
	if end+int64(len(text)) > t.limit {
		text = append(text[:t.limit-end:t.limit-end], fmt.Sprintf("\n[cascade: the log is cut here: it reached %d bytes]\n", t.limit)...)
	}
	free, err := t.free(t.dir)
	if err != nil {
		return err
	}
	short := diskspace.Leaves(t.dir, free, uint64(len(text)), t.leave) != nil
	switch was := t.short[name]; {
	case short && was:
		return nil
	case short:
		text = fmt.Appendf(nil, "\n[cascade: text is missing here: only %d MiB of the disk are free, and %d MiB stay free for the ends of jobs]\n", free>>20, t.leave>>20)
		t.short[name] = true
	case was:
		delete(t.short, name)
	}
	if _, err := file.Write(text); err != nil {
		return fmt.Errorf("append to log of task %s: %w", task, err)
	}
	return nil
}

// read returns up to most bytes at offset and the log's size; nothing for a task that wrote nothing.
func (t *taskLogs) read(job comms.JobID, task string, offset, most uint64) (text []byte, total uint64, err error) {
	file, err := os.Open(t.path(logName{job, task}))
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read log of task %s: %w", task, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, 0, fmt.Errorf("read log of task %s: %w", task, err)
	}
	total = uint64(info.Size())
	if offset >= total {
		return nil, total, nil
	}
	text = make([]byte, min(most, total-offset))
	n, err := file.ReadAt(text, int64(offset))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, fmt.Errorf("read log of task %s: %w", task, err)
	}
	return text[:n], total, nil
}

// forget removes the logs of a job.
func (t *taskLogs) forget(job comms.JobID) error {
	for name, file := range t.open {
		if name.job == job {
			file.Close()
			delete(t.open, name)
		}
	}
	maps.DeleteFunc(t.short, func(name logName, _ bool) bool { return name.job == job })
	if err := os.RemoveAll(filepath.Join(t.dir, job.String())); err != nil {
		return fmt.Errorf("remove logs of job %s: %w", job, err)
	}
	return nil
}

// expire removes the logs of jobs that wrote nothing since a time.
func (t *taskLogs) expire(before time.Time) error {
	jobs, err := os.ReadDir(t.dir)
	if err != nil {
		return fmt.Errorf("list logs: %w", err)
	}
	var all []error
	for _, j := range jobs {
		dir := filepath.Join(t.dir, j.Name())
		files, err := os.ReadDir(dir)
		if err != nil {
			all = append(all, fmt.Errorf("list logs: %w", err))
			continue
		}
		old := true
		for _, f := range files {
			if info, err := f.Info(); err == nil && !info.ModTime().Before(before) {
				old = false
				break
			}
		}
		if old {
			all = append(all, os.RemoveAll(dir))
		}
	}
	return errors.Join(all...)
}

func (t *taskLogs) close() {
	for _, file := range t.open {
		file.Close()
	}
	clear(t.open)
}

func (t *taskLogs) path(name logName) string {
	file := url.PathEscape(name.task)
	if len(file) > 200 {
		file = fmt.Sprintf("%s-%016x", file[:180], xxh3.HashString(name.task))
	}
	return filepath.Join(t.dir, name.job.String(), file+".log")
}

func (t *taskLogs) file(name logName) (*os.File, error) {
	if f := t.open[name]; f != nil {
		return f, nil
	}
	path := t.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make folder for logs: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log of task %s: %w", name.task, err)
	}
	t.open[name] = f
	t.recent = append(t.recent, name)
	for len(t.open) > openLogs {
		oldest := t.recent[0]
		t.recent = t.recent[1:]
		if f := t.open[oldest]; f != nil && oldest != name {
			f.Close()
			delete(t.open, oldest)
		}
	}
	return f, nil
}
