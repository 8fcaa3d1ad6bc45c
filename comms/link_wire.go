package comms

import (
	"bufio"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cascade-run/cascade/comms/internal/session"
)

const (
	readBuffer    = 64 << 10
	arenaSize     = 64 << 10 // frame headers, envelopes and small payloads of one write
	inlineMax     = 4 << 10  // payloads up to this are copied beside their headers
	batchMax      = 1 << 20  // payload bytes in one write
	frontRoom     = 256      // arena bytes that one message's headers and envelope may take
	ackEvery      = 64       // messages after which an acknowledgement goes out at once
	ackWanted     = 8        // the same, when the sender asked for it
	ackEveryBytes = 1 << 20  // and bytes
	maxPongs      = 16       // PINGs that wait for their answer; a flood beyond it is dropped
	callerTurns   = 4        // writes that a sending goroutine does before the writer takes over
)

// wire is one connection of a link: the stream, its reader's state, and the
// batch that is being written. All output passes through write, PONG and
// acknowledgements included.
//
//	Send, Flush, ack timer, PING ─▶ kick: no writer yet? ─▶ fill ─▶ write without waiting
//	                                                          ▲          │ kernel full
//	                                                          └── writer goroutine waits and goes on
type wire struct {
	l       *Link
	st      stream
	proven  credential // of the peer; set in the handshake
	in      frameReader
	heard   atomic.Bool // bytes arrived since the last heartbeat tick
	calm    bool        // the peer is a client with FeatureQuiet
	wake    chan struct{}
	quit    chan struct{}
	writers sync.WaitGroup

	// Of the reading goroutine.
	carried                                     bool // the handshake is over
	received, receivedBytes, countedAt, ackedAt uint64
	ackBytes                                    int
	wantAck                                     bool

	// Guarded by Link.mu.
	writing  bool // a goroutine owns arena, vec and the stream's output
	ackDue   bool
	pingDue  bool
	farewell bool // a Close envelope follows the last message
	parted   bool // it is in the batch
	pongs    [][]byte
	ackTimer *time.Timer
	ackArmed bool
	beat     *time.Timer
	dead     bool
	lastAck  chan struct{} // not nil: the peer has closed the link, and only an acknowledgement still goes out; closed behind it
	left     chan struct{} // not nil: closed when the farewell is written

	// Of whoever holds writing.
	arena []byte
	batch [][]byte // all segments of the batch
	vec   [][]byte // those that are not written yet
	sent  [][]byte // bodies of the batch, when Config.Sent is set

	writeErr atomic.Pointer[error]
	failure  sync.Once
	err      error
	failed   chan struct{}
}

// newWire wraps a stream whose ZMTP handshake is done. The link is known only
// after the greeting, so the answer to a PING waits until start.
func newWire(st stream) *wire {
	w := &wire{st: st, wake: make(chan struct{}, 1), quit: make(chan struct{}), failed: make(chan struct{})}
	w.in = frameReader{br: bufio.NewReaderSize(listener{w}, readBuffer), ping: w.earlyPing}
	return w
}

// listener reads the stream, which may have to wait for the peer: also in the
// middle of a long frame what is due goes out first, and the peer was heard after.
type listener struct{ w *wire }

func (l listener) Read(p []byte) (int, error) {
	w := l.w
	if w.carried {
		w.l.beforeWait(w)
	}
	n, err := w.st.Read(p)
	if n > 0 && !w.heard.Load() {
		w.heard.Store(true)
	}
	return n, err
}

// envelope reads the first frame of the next message.
func (w *wire) envelope() (session.Envelope, bool, error) {
	n, more, err := w.in.message(session.MaxEnvelope)
	if err != nil {
		return session.Envelope{}, false, err
	}
	p, err := w.in.view(n)
	if err != nil {
		return session.Envelope{}, false, err
	}
	e, err := session.Decode(p)
	return e, more, err
}

// skipMessage reads past the head and body of a message.
func (w *wire) skipMessage(maxHead, maxBody uint64) error {
	for _, limit := range []uint64{maxHead, maxBody} {
		n, more, err := w.in.message(limit)
		if err != nil {
			return err
		}
		if err := w.in.discard(n); err != nil {
			return err
		}
		if !more {
			return nil
		}
	}
	return fmt.Errorf("%w: a message of more than three frames", errFraming)
}

// start runs the writer goroutine and the heartbeat.
func (w *wire) start() {
	w.in.ping, w.carried = w.pong, true
	w.writers.Add(1)
	go w.writer()
	if w.l.cfg.HeartbeatEvery > 0 && !w.calm {
		w.l.mu.Lock()
		w.beat = time.AfterFunc(w.l.cfg.HeartbeatEvery, w.tick)
		w.l.mu.Unlock()
	}
}

// fail breaks the connection; the first cause is kept.
func (w *wire) fail(err error) {
	w.failure.Do(func() {
		w.err = err
		close(w.failed)
		_ = w.st.Close() // the connection is given up, its own error adds nothing
	})
}

// unwritable stops the output permanently: its caller stays the writer. Messages
// that the peer sent before it left, perhaps its farewell, can still be read, so
// the reader ends the connection, within a bound.
func (w *wire) unwritable(err error) {
	w.writeErr.Store(&err)
	w.l.mu.Lock()
	w.wroteLast()
	w.l.mu.Unlock()
	if err := w.st.SetReadDeadline(time.Now().Add(w.l.cfg.CloseTimeout)); err != nil {
		w.fail(fmt.Errorf("write: %w", err))
	}
}

func (w *wire) cause() error {
	<-w.failed
	return w.err
}

// finish waits for the goroutines of a failed connection.
func (w *wire) finish() {
	w.l.mu.Lock()
	w.dead = true
	for _, t := range []*time.Timer{w.ackTimer, w.beat} {
		if t != nil {
			t.Stop()
		}
	}
	w.l.mu.Unlock()
	close(w.quit)
	w.writers.Wait()
}

// kickAndUnlock writes what is due unless a goroutine does already. It is called
// with l.mu held and releases it.
func (l *Link) kickAndUnlock() {
	w := l.wire
	if w == nil || w.writing || w.dead || !w.fill() {
		l.mu.Unlock()
		return
	}
	w.writing = true
	l.mu.Unlock()
	for turn := 1; len(w.sent) == 0; turn++ { // Sent must not be called from here
		if _, err := w.st.writeVec(w.vec, false); err != nil {
			w.unwritable(err)
			return
		}
		if w.trim() || turn == callerTurns {
			break
		}
		l.mu.Lock()
		if w.dead || !w.fill() {
			// Credit must not be called from here: the caller may hold its own locks.
			if !l.out.NeedsCredit() || w.dead {
				w.letGo()
				l.mu.Unlock()
				return
			}
			l.mu.Unlock()
			break
		}
		l.mu.Unlock()
	}
	w.wake <- struct{}{} // the writer owns the output now; it takes exactly one wake per handover
}

// writer goes on where a caller would have had to wait.
func (w *wire) writer() {
	defer w.writers.Done()
	l := w.l
	for {
		select {
		case <-w.wake:
		case <-w.quit:
			return
		}
		for {
			if len(w.vec) > 0 {
				if _, err := w.st.writeVec(w.vec, true); err != nil {
					w.unwritable(err)
					return
				}
				w.trim()
				for _, body := range w.sent {
					l.cfg.Sent(l, body)
				}
			}
			l.mu.Lock()
			if room := l.out.Credit(); room {
				l.mu.Unlock()
				l.cfg.Handler.Credit(l)
				l.mu.Lock()
			}
			if w.dead || !w.fill() {
				w.letGo()
				l.mu.Unlock()
				break
			}
			l.mu.Unlock()
		}
	}
}

// letGo gives up the output. Called with l.mu held.
func (w *wire) letGo() {
	w.writing = false
	w.wroteLast()
	if w.parted && w.left != nil {
		close(w.left)
		w.left = nil
	}
}

// wroteLast tells acknowledgeLast that nothing is being written any more. Called with l.mu held.
func (w *wire) wroteLast() {
	if w.lastAck != nil {
		close(w.lastAck)
		w.lastAck = nil
	}
}

// acknowledgeLast acknowledges what the peer has sent, which has closed the link and
// waits for that, and returns when it is written: by whoever is writing. It gives up
// after CloseTimeout. The caller hangs up.
func (l *Link) acknowledgeLast(w *wire) {
	if !l.cfg.Replay {
		return
	}
	written := make(chan struct{})
	l.mu.Lock()
	w.lastAck = written
	w.ackDue = l.ackSent != l.recv.Load()
	l.kickAndUnlock()
	l.mu.Lock()
	writing := w.writing && w.writeErr.Load() == nil
	l.mu.Unlock()
	if !writing {
		return
	}
	bound := time.NewTimer(l.cfg.CloseTimeout)
	defer bound.Stop()
	select {
	case <-written:
	case <-w.failed:
	case <-bound.C:
	}
}

// trim drops what is written from the batch and says whether some is left.
func (w *wire) trim() bool {
	i := 0
	for i < len(w.vec) && len(w.vec[i]) == 0 {
		i++
	}
	w.vec = w.vec[i:]
	return len(w.vec) > 0
}

// fill builds the next batch from all that is due and says whether there is
// any. It is called with l.mu held, by whoever owns or is about to own the output.
func (w *wire) fill() bool {
	l := w.l
	if w.arena == nil {
		w.arena = make([]byte, 0, arenaSize)
	}
	w.arena, w.batch, w.sent = w.arena[:0], w.batch[:0], w.sent[:0]
	mark, payload := 0, 0
	for _, context := range w.pongs {
		w.arena = appendCommand(w.arena, "PONG", context)
	}
	l.stats.Pings += uint64(len(w.pongs))
	w.pongs = w.pongs[:0]
	if w.pingDue {
		w.arena, w.pingDue = appendPing(w.arena), false
	}
	for payload < batchMax && w.lastAck == nil {
		e, ok := l.out.Peek()
		if !ok || len(w.arena)+frontRoom+inlineCost(e.Head)+inlineCost(e.Body) > arenaSize {
			break
		}
		l.out.Take()
		payload += len(e.Head) + len(e.Body)
		mark = w.message(e, mark)
	}
	if more := l.out.Unsent() > 0; !more && w.farewell && !w.parted {
		w.parted = true
		e := session.Envelope{Kind: session.Close, Seq: l.out.LastSent(), Ack: l.recv.Load()}
		w.lone(&e)
	} else if w.ackDue && l.ackSent != l.recv.Load() {
		e := session.Envelope{Kind: session.Ack, Ack: l.recv.Load()}
		w.lone(&e)
		l.ackSent = e.Ack
	}
	w.ackDue = false
	if len(w.arena) > mark {
		w.batch = append(w.batch, w.arena[mark:])
	}
	w.vec = w.batch
	return len(w.vec) > 0
}

// message appends one message to the batch. Small payloads are copied beside
// their headers, large ones written from where they are. It returns the start
// of the part of the arena that is not yet in vec.
func (w *wire) message(e session.Entry, mark int) int {
	l := w.l
	ack := uint64(0)
	if l.cfg.Replay {
		ack = l.recv.Load()
		l.ackSent = ack
	}
	var env [32]byte
	p := session.AppendData(env[:0], e.Seq, ack, l.cfg.Replay && l.out.Filling())
	w.arena = appendFrameHeader(w.arena, frameMore, len(p))
	w.arena = append(w.arena, p...)
	flags := byte(0)
	if e.Body != nil {
		flags = frameMore
	}
	mark = w.payload(e.Head, flags, mark)
	if e.Body != nil {
		mark = w.payload(e.Body, 0, mark)
		if l.cfg.Sent != nil {
			w.sent = append(w.sent, e.Body)
		}
	}
	l.stats.Sent++
	l.stats.SentBytes += uint64(len(e.Head) + len(e.Body))
	return mark
}

func (w *wire) payload(p []byte, flags byte, mark int) int {
	w.arena = appendFrameHeader(w.arena, flags, len(p))
	if len(p) <= inlineMax {
		w.arena = append(w.arena, p...)
		return mark
	}
	w.batch = append(w.batch, w.arena[mark:], p)
	return len(w.arena)
}

// lone appends an envelope that is a message of its own.
func (w *wire) lone(e *session.Envelope) {
	p := e.Append(nil)
	w.arena = append(appendFrameHeader(w.arena, 0, len(p)), p...)
}

func inlineCost(p []byte) int {
	if len(p) <= inlineMax {
		return len(p)
	}
	return 0
}

// earlyPing keeps a PING that came before the greeting was over.
func (w *wire) earlyPing(context []byte) {
	if len(w.pongs) < maxPongs {
		w.pongs = append(w.pongs, append([]byte(nil), context...))
	}
}

// pong queues the answer to a PING. It goes out before the next message.
func (w *wire) pong(context []byte) {
	w.l.mu.Lock()
	w.earlyPing(context)
	w.l.kickAndUnlock()
}

// armAck makes sure that an acknowledgement goes out after the delay, alone if
// no message takes it along. Called with l.mu held.
func (w *wire) armAck(delay time.Duration) {
	if w.ackArmed || w.dead {
		return
	}
	w.ackArmed = true
	if w.ackTimer == nil {
		w.ackTimer = time.AfterFunc(delay, w.ackNow)
		return
	}
	w.ackTimer.Reset(delay)
}

func (w *wire) ackNow() {
	w.l.mu.Lock()
	w.ackArmed = false
	w.ackDue = true
	w.l.kickAndUnlock()
}

// tick is the heartbeat. It counts ticks instead of reading a clock, so that a
// process that was stopped and goes on does not blame its peers.
func (w *wire) tick() {
	l := w.l
	l.mu.Lock()
	if w.dead {
		l.mu.Unlock()
		return
	}
	if w.heard.Swap(false) {
		l.quiet = 0
	} else {
		l.quiet += l.cfg.HeartbeatEvery
		w.pingDue = true
	}
	if quiet := l.quiet; quiet >= l.cfg.HeartbeatTimeout {
		l.mu.Unlock()
		w.fail(fmt.Errorf("%w: nothing heard for %v", ErrSilent, quiet))
		return
	}
	w.beat.Reset(l.cfg.HeartbeatEvery)
	l.kickAndUnlock()
}
