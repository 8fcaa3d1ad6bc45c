//go:build linux

package agent

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/diskspace"
)

// taskLogs keeps what tasks wrote: one append-only file per task under
// DIR/JOB/, of a bounded size. append, read, forget and close belong to one lane,
// so that a reader sees all that was appended before it asked. The log of a task has
// what those wrote, too, that it has called; an index beside it says which parts are whose.
type taskLogs struct {
	dir   string
	limit int64  // bytes per task
	leave uint64 // free bytes of the disk below which text is left out
	free  func(dir string) (uint64, error)
	short map[logName]bool // whose text was left out last, which the log says

	open   map[logName]*taskLog
	recent []logName // keys of open, oldest first

	mu      sync.Mutex
	room    sync.Cond
	backlog int64 // bytes that may wait
	waiting int64 // bytes that wait
	closed  bool
}

// taskLog is a log that is open.
type taskLog struct {
	file    *os.File
	index   *os.File // nil while no called task has written
	indexed int64    // bytes of the index
	writer  string   // of its end: a called task, or ""
	sure    bool     // that it is writer
}

// close closes its files.
func (l *taskLog) close() {
	l.file.Close()
	if l.index != nil {
		l.index.Close()
	}
}

type logName struct {
	job  comms.JobID
	task string
}

// openLogs is how many log files are kept open.
const openLogs = 64

func newTaskLogs(dir string, limits Limits, leave uint64) *taskLogs {
	t := &taskLogs{dir: dir, limit: limits.TaskLog, leave: leave, free: diskspace.Free, backlog: limits.Backlog,
		open: map[logName]*taskLog{}, short: map[logName]bool{}}
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

// append writes text that was counted, of a task or of one that it has called. Beyond the limit it writes once that the
// log was cut, and once where text is missing for want of space.
func (t *taskLogs) append(job comms.JobID, task, called string, text []byte) error {
	defer t.count(-len(text))
	name := logName{job, task}
	log, err := t.log(name)
	if err != nil {
		return err
	}
	end, err := log.file.Seek(0, io.SeekEnd)
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
	if err := t.mark(name, log, end, called); err != nil {
		return err
	}
	if _, err := log.file.Write(text); err != nil {
		return fmt.Errorf("append to log of task %s: %w", task, err)
	}
	return nil
}

// mark notes in the index whose text begins at an offset of a log, if it is another's than what is before.
func (t *taskLogs) mark(name logName, log *taskLog, at int64, called string) error {
	if log.indexed >= t.limit {
		called = "" // the rest of the log is in that of the whole alone
	}
	if log.index == nil && called == "" || log.sure && log.writer == called {
		return nil
	}
	if log.index == nil {
		index, err := os.OpenFile(t.index(name), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
		if err != nil {
			return fmt.Errorf("open index of log of task %s: %w", name.task, err)
		}
		log.index = index
	}
	line := fmt.Sprintf("%d %s\n", at, strconv.Quote(called))
	if !log.sure {
		line = "\n" + line // the last one may have been cut by a power loss
	}
	n, err := log.index.WriteString(line)
	if log.indexed += int64(n); err != nil {
		log.sure = false // a part of the line may be there
		return fmt.Errorf("append to index of log of task %s: %w", name.task, err)
	}
	log.writer, log.sure = called, true
	return nil
}

// read returns up to most bytes at offset and the log's size; nothing for a task that wrote nothing. Of a called task it is
// what it wrote, and those wrote that it has called.
func (t *taskLogs) read(job comms.JobID, task string, offset, most uint64) (text []byte, total uint64, err error) {
	file, err := os.Open(t.path(logName{job, task}))
	if errors.Is(err, os.ErrNotExist) {
		return t.readCalled(job, task, offset, most)
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

// readCalled reads what a called task wrote in the log of the one that stands at the root of its calls: its name
// begins with that one's.
func (t *taskLogs) readCalled(job comms.JobID, task string, offset, most uint64) (text []byte, total uint64, err error) {
	for i, c := range task {
		if c != '/' {
			continue
		}
		name := logName{job, task[:i]}
		file, err := os.Open(t.path(name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			text, total, err = t.parts(file, name, task, offset, most)
			file.Close()
		}
		if err != nil {
			return nil, 0, fmt.Errorf("read log of task %s: %w", task, err)
		}
		return text, total, nil
	}
	return nil, 0, nil
}

// stretch is a part of a log, up to the next, and whether it is a called task's.
type stretch struct {
	begin uint64
	is    bool
}

// parts reads the parts of a log that a called task wrote, as if they were a file.
func (t *taskLogs) parts(log *os.File, name logName, called string, offset, most uint64) (text []byte, total uint64, err error) {
	index, err := os.Open(t.index(name))
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer index.Close()
	info, err := log.Stat()
	if err != nil {
		return nil, 0, err
	}
	size := uint64(info.Size())
	part := func(from, to uint64) error {
		begin, n := total, to-from
		total += n
		if skip := offset - min(offset, begin); skip < n && uint64(len(text)) < most {
			more := make([]byte, min(n-skip, most-uint64(len(text))))
			if _, err := log.ReadAt(more, int64(from+skip)); err != nil {
				return err
			}
			text = append(text, more...)
		}
		return nil
	}
	whose := []stretch{{0, false}}
	lines := bufio.NewScanner(index)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		at, quoted, _ := strings.Cut(lines.Text(), " ")
		begin, err := strconv.ParseUint(at, 10, 64)
		writer, unquoted := strconv.Unquote(quoted)
		if err != nil || unquoted != nil {
			continue // a power loss has cut it
		}
		for len(whose) > 1 && whose[len(whose)-1].begin >= begin {
			whose = whose[:len(whose)-1] // its text was never written
		}
		if is := writer == called || strings.HasPrefix(writer, called+"/"); is != whose[len(whose)-1].is {
			whose = append(whose, stretch{begin, is})
		}
	}
	for i, w := range whose {
		end := size
		if i+1 < len(whose) {
			end = min(end, whose[i+1].begin)
		}
		if w.is && end > w.begin {
			if err := part(w.begin, end); err != nil {
				return nil, 0, err
			}
		}
	}
	return text, total, lines.Err()
}

// forget removes the logs of a job.
func (t *taskLogs) forget(job comms.JobID) error {
	for name, log := range t.open {
		if name.job == job {
			log.close()
			delete(t.open, name)
		}
	}
	t.recent = slices.DeleteFunc(t.recent, func(name logName) bool { return name.job == job })
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
	for _, log := range t.open {
		log.close()
	}
	clear(t.open)
}

func (t *taskLogs) index(name logName) string {
	return strings.TrimSuffix(t.path(name), ".log") + ".calls"
}

func (t *taskLogs) path(name logName) string {
	file := url.PathEscape(name.task)
	if len(file) > 200 {
		file = fmt.Sprintf("%s-%016x", file[:180], xxh3.HashString(name.task))
	}
	return filepath.Join(t.dir, name.job.String(), file+".log")
}

func (t *taskLogs) log(name logName) (*taskLog, error) {
	if l := t.open[name]; l != nil {
		return l, nil
	}
	path := t.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make folder for logs: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log of task %s: %w", name.task, err)
	}
	l := &taskLog{file: f}
	if l.index, err = os.OpenFile(t.index(name), os.O_RDWR|os.O_APPEND, 0o600); err != nil && !errors.Is(err, os.ErrNotExist) {
		f.Close()
		return nil, fmt.Errorf("open index of log of task %s: %w", name.task, err)
	}
	if l.index != nil {
		if l.indexed, err = l.index.Seek(0, io.SeekEnd); err != nil {
			l.close()
			return nil, fmt.Errorf("open index of log of task %s: %w", name.task, err)
		}
	}
	t.open[name] = l
	t.recent = append(t.recent, name)
	for len(t.open) > openLogs {
		oldest := t.recent[0]
		t.recent = t.recent[1:]
		if old := t.open[oldest]; old != nil && oldest != name {
			old.close()
			delete(t.open, oldest)
		}
	}
	return l, nil
}
