package executor

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/cascade-run/cascade/comms"
)

const (
	maxLogMessage = 32 << 10               // bytes of one Log message
	maxLog        = 64 << 20               // bytes that one run may log; the rest is counted and dropped
	logDelay      = 100 * time.Millisecond // text waits this long for more to join its message
)

// logWriter sends what one run writes, in order, and keeps the end of it. Text
// of both streams shares one order.
type logWriter struct {
	exec *Executor
	run  comms.RunID

	mu      sync.Mutex
	stream  uint8
	buf     []byte
	last    []byte // ring of the last bytes
	at      int
	total   int64
	dropped int64
	timer   *time.Timer
	closed  bool
}

// streamWriter is one stream of a logWriter.
type streamWriter struct {
	*logWriter
	stream uint8
}

func (w streamWriter) Write(p []byte) (int, error) { return w.write(w.stream, p) }

// logger returns the run's log, made at first use.
func (r *run) logger() io.Writer {
	r.exec.mu.Lock()
	defer r.exec.mu.Unlock()
	return r.loggerLocked()
}

// logged returns the run's log if it has one: what is printed elsewhere may make
// one for as long as the run is the current one.
func (r *run) logged() *logWriter {
	r.exec.mu.Lock()
	defer r.exec.mu.Unlock()
	return r.log
}

// endLog closes the run's log: one that is first asked for later takes nothing.
func (r *run) endLog() {
	r.exec.mu.Lock()
	log := r.log
	r.mute = true
	r.exec.mu.Unlock()
	if log != nil {
		log.close()
	}
}

func (r *run) loggerLocked() streamWriter {
	if r.log == nil {
		r.log = &logWriter{exec: r.exec, run: r.ID, closed: r.mute}
	}
	return streamWriter{r.log, 1}
}

func (w *logWriter) write(stream uint8, p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0, io.ErrClosedPipe
	}
	w.remember(p)
	if w.stream != stream {
		w.flushLocked()
		w.stream = stream
	}
	rest := p
	if room := maxLog - w.total; int64(len(rest)) > room {
		w.dropped += int64(len(rest)) - room
		rest = rest[:room]
	}
	w.total += int64(len(rest))
	for len(rest) > 0 {
		n := min(len(rest), maxLogMessage-len(w.buf))
		w.buf = append(w.buf, rest[:n]...)
		rest = rest[n:]
		if len(w.buf) == maxLogMessage {
			w.flushLocked()
		}
	}
	if len(w.buf) > 0 && w.timer == nil {
		w.timer = time.AfterFunc(logDelay, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.flushLocked()
		})
	}
	return len(p), nil
}

// remember keeps the last bytes of p.
func (w *logWriter) remember(p []byte) {
	if w.last == nil {
		w.last = make([]byte, 0, logTail)
	}
	if len(p) > logTail {
		p = p[len(p)-logTail:]
	}
	for len(p) > 0 {
		if len(w.last) < logTail {
			n := min(len(p), logTail-len(w.last))
			w.last = append(w.last, p[:n]...)
			p = p[n:]
			continue
		}
		n := copy(w.last[w.at:], p)
		w.at = (w.at + n) % logTail
		p = p[n:]
	}
}

// flush sends what waits.
func (w *logWriter) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flushLocked()
}

// flushLocked sends what waits; the connection's back-pressure holds the writer back.
func (w *logWriter) flushLocked() {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
	if len(w.buf) == 0 {
		return
	}
	w.exec.out.send(&comms.Log{Run: w.run, Stream: max(w.stream, 1), Text: w.buf})
	w.buf = w.buf[:0]
}

// close sends the rest. Later writes fail.
func (w *logWriter) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.flushLocked()
	if w.dropped > 0 {
		w.exec.out.send(&comms.Log{Run: w.run, Stream: 2, Text: droppedNote(w.dropped)})
	}
	w.closed = true
}

// tail returns the last bytes that were written.
func (w *logWriter) tail() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.last) < logTail {
		return append([]byte(nil), w.last...)
	}
	return append(append([]byte(nil), w.last[w.at:]...), w.last[:w.at]...)
}

func droppedNote(n int64) []byte {
	return fmt.Appendf(nil, "\n[%d more bytes were not kept: a task may log %d MiB]\n", n, maxLog>>20)
}
