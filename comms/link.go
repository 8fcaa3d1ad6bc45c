package comms

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cascade-run/cascade/comms/internal/session"
)

// Link carries messages to one peer and back. Send, Queue, Flush, Peer, Stats,
// Abort and Close may be called from any goroutine.
type Link struct {
	cfg     Config
	pauser  Pauser // the handler, if it is one
	dialed  bool
	session uint64        // chosen by the dialing side
	token   uint64        // chosen by the listening side: who has it goes on with the same sequences
	inbox   session.Inbox // belongs to the goroutine that reads
	stop    context.Context
	cancel  context.CancelFunc
	done    chan struct{}
	recv    atomic.Uint64 // what inbox has received, for those who acknowledge

	mu      sync.Mutex
	out     session.Outbox
	wire    *wire    // nil while the connection is broken
	peer    Identity // of the last handshake
	maxHead int64    // what the peer accepts
	maxBody int64
	epoch   uint64 // counts handshakes that were not resumed
	ackSent uint64
	closing bool  // Close was called, no more Sends
	ended   error // why the link has ended, nil while it lives; always matches ErrClosed
	stats   Stats
	quiet   time.Duration // see Quiet

	endpoints []Endpoint    // dialing side: where to connect
	serving   chan struct{} // listening side: not nil while a goroutine owns the link, closed when it lets go
	expiry    *time.Timer   // listening side: ends a link that does not come back
	onEnd     func()        // listening side: forgets the link
}

// Stats counts what a link did since its start.
type Stats struct {
	Sent, Received           uint64 // messages handed to the kernel (again after a replay) and to the handler
	SentBytes, ReceivedBytes uint64 // of heads and bodies
	Duplicates               uint64 // copies that were dropped
	Connections              uint64 // handshakes completed
	Pings                    uint64 // PINGs of the peer that were answered
	Queued, QueuedBytes      int    // now in the outbound queue, with replay also what is unacknowledged
}

// corkLimit is how many bytes Queue lets wait before it writes by itself.
const corkLimit = 64 << 10

func newLink(cfg Config, dialed bool, id uint64) *Link {
	l := &Link{cfg: cfg, dialed: dialed, session: id, done: make(chan struct{}),
		out: session.NewOutbox(cfg.Replay, cfg.QueueBytes, cfg.QueueMessages)}
	l.pauser, _ = cfg.Handler.(Pauser)
	l.stop, l.cancel = context.WithCancel(context.Background())
	return l
}

// Send queues one message and writes what is queued as far as the kernel takes
// it; the rest is written by the link's own goroutine. It never blocks. The
// link owns head and body from here on: with replay until the peer has
// acknowledged them. A nil body sends none. Errors are ErrFull, ErrClosed and
// ErrTooLarge; with any of them nothing was queued.
func (l *Link) Send(head, body []byte) error { return l.send(head, body, 0, true) }

// Queue is Send for a caller that has more to send or to do at once: the
// message waits for the next Send or Flush, or until 64 KiB wait. Messages that
// a handler queues are flushed before the link waits for the peer again.
func (l *Link) Queue(head, body []byte) error { return l.send(head, body, 0, false) }

// QueueIn is Queue for messages that only the peer of one epoch may get: after
// an Up that was not resumed it refuses with ErrEpoch what was meant for the
// peer before, also when the caller has not seen that Up yet.
func (l *Link) QueueIn(epoch uint64, head, body []byte) error {
	return l.send(head, body, epoch, false)
}

// Epoch counts the times that the link was Up without being resumed. Within
// the handler's Up it is the epoch that begins.
func (l *Link) Epoch() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epoch
}

// send queues a message, in any epoch if that is 0.
func (l *Link) send(head, body []byte, epoch uint64, flush bool) error {
	l.mu.Lock()
	if l.ended != nil || l.closing {
		l.mu.Unlock()
		return ErrClosed
	}
	if epoch != 0 && epoch != l.epoch {
		l.mu.Unlock()
		return ErrEpoch
	}
	if int64(len(head)) > l.maxHead || int64(len(body)) > l.maxBody {
		err := fmt.Errorf("%w: head of %d bytes (limit %d), body of %d (limit %d)", ErrTooLarge, len(head), l.maxHead, len(body), l.maxBody)
		l.mu.Unlock()
		return err
	}
	if err := l.out.Push(head, body); err != nil {
		l.mu.Unlock()
		return err
	}
	if !flush && l.out.Unsent() < corkLimit {
		l.mu.Unlock()
		return nil
	}
	l.kickAndUnlock()
	return nil
}

// Flush writes what is queued, as far as the kernel takes it now.
func (l *Link) Flush() {
	l.mu.Lock()
	l.kickAndUnlock()
}

// Peer returns who was at the other end at the last handshake.
func (l *Link) Peer() Identity {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.peer
}

// Stats returns the link's counters.
func (l *Link) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Queued, s.QueuedBytes = l.out.Len(), l.out.Bytes()
	return s
}

// Quiet returns for how long nothing has been heard of the peer, in whole heartbeats;
// once the connection is broken, for how long that was so before it broke.
func (l *Link) Quiet() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.quiet
}

// Done is closed when the link has ended and no method of its handler runs or
// will run.
func (l *Link) Done() <-chan struct{} { return l.done }

// Close sends what is queued, tells the peer, and ends the link when the peer
// has received all or after CloseTimeout. A client that leaves its link alone while its
// program is busy is not waited for: it finds all in its socket. The error says what may be lost.
// Call it from any goroutine but the handler's; there, use Abort.
func (l *Link) Close() error {
	l.mu.Lock()
	if l.ended != nil || l.closing {
		l.mu.Unlock()
		<-l.done
		return nil
	}
	l.closing = true
	if w := l.wire; w != nil {
		w.farewell = true
		var parted chan struct{}
		if w.calm {
			parted = make(chan struct{})
			w.left = parted
		}
		l.kickAndUnlock()
		timeout := time.NewTimer(l.cfg.CloseTimeout)
		defer timeout.Stop()
		select {
		case <-l.done: // the peer has read the farewell and hung up
		case <-parted:
			l.end(ErrClosed)
			<-l.done
			return nil
		case <-timeout.C:
		}
	} else {
		l.mu.Unlock()
	}
	l.end(ErrClosed)
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.out.Len(); n > 0 {
		return fmt.Errorf("close link to %s %s: %d messages may be lost", l.peer.Role, l.peer.Name, n)
	}
	return nil
}

// Abort ends the link at once, for example after a message that makes no
// sense. The handler's Down follows with reason. It may be called anywhere.
func (l *Link) Abort(reason error) { l.end(fmt.Errorf("%w: %w", ErrClosed, reason)) }

// AbortBroken is Abort of a link that has no connection: when its peer is back, it does nothing
// and returns false.
func (l *Link) AbortBroken(reason error) bool {
	return l.endIf(fmt.Errorf("%w: %w", ErrClosed, reason), func() bool { return l.wire == nil })
}

// end makes the link final. The goroutine that owns it concludes; a link that
// waits for its peer to come back has no owner, and then we do.
func (l *Link) end(why error) { l.endIf(why, func() bool { return true }) }

// endIf ends the link if a condition holds, which is asked with l.mu held.
func (l *Link) endIf(why error, holds func() bool) bool {
	l.mu.Lock()
	if l.ended != nil || !holds() {
		l.mu.Unlock()
		return false
	}
	l.ended = why
	l.cancel()
	w := l.wire
	orphan := !l.dialed && l.serving == nil
	if orphan {
		l.serving = make(chan struct{})
	}
	l.mu.Unlock()
	if w != nil {
		w.fail(why)
	}
	if orphan {
		l.conclude()
	}
	return true
}

// broke handles the end of a connection and says whether the link ends with it.
func (l *Link) broke(err error) (over bool) {
	l.mu.Lock()
	switch {
	case l.ended != nil:
	case l.closing:
		l.ended = ErrClosed
	case !l.cfg.Replay || errors.Is(err, errPeerClosed) || errors.Is(err, ErrRefused):
		l.ended = fmt.Errorf("%w: %w", ErrClosed, err)
	}
	over = l.ended != nil
	l.mu.Unlock()
	if over {
		l.cancel()
	} else {
		l.cfg.Handler.Down(l, err)
	}
	return over
}

// conclude is the last act of a link, by whoever owns it.
func (l *Link) conclude() {
	l.mu.Lock()
	why := l.ended
	if l.expiry != nil {
		l.expiry.Stop()
	}
	l.mu.Unlock()
	if why != ErrClosed { //nolint:errorlint // identity: the owner's own Close is not news to it
		l.cfg.Handler.Down(l, why)
	}
	if l.onEnd != nil {
		l.onEnd()
	}
	close(l.done)
}

// attach gives the link a fresh connection. resumed says that both ends go on
// where they were; peerRecv is the last message that the peer has received.
func (l *Link) attach(w *wire, g *session.Greeting, resumed bool, peerRecv uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended != nil {
		return ErrClosed
	}
	if !resumed {
		if l.stats.Connections > 0 {
			l.out.Reset()
		}
		l.epoch++
		l.inbox.Reset()
		l.recv.Store(0)
	}
	if err := l.out.Rewind(peerRecv); err != nil {
		return err
	}
	l.ackSent = l.recv.Load()
	l.peer = identityOf(g, w.proven)
	l.maxHead = int64(min(g.MaxHead, uint64(1)<<62))
	l.maxBody = int64(min(g.MaxBody, uint64(1)<<62))
	l.stats.Connections++
	l.wire, l.quiet = w, 0
	w.farewell = l.closing
	return nil
}

// carry runs one connection, from Up to the break, and returns its cause.
func (l *Link) carry(w *wire, resumed bool) error {
	w.start()
	l.cfg.Handler.Up(l, l.Peer(), resumed)
	l.credit()
	l.Flush()
	err := l.read(w)
	if cause := w.writeErr.Load(); cause != nil && !errors.Is(err, errPeerClosed) {
		err = fmt.Errorf("write: %w", *cause)
	}
	w.fail(err)
	l.mu.Lock()
	l.wire = nil
	l.mu.Unlock()
	w.finish()
	return w.cause()
}

// credit tells the handler when a queue that had refused has room again.
func (l *Link) credit() {
	l.mu.Lock()
	room := l.out.Credit()
	l.mu.Unlock()
	if room {
		l.cfg.Handler.Credit(l)
	}
}

// read delivers what arrives on w until it breaks.
func (l *Link) read(w *wire) error {
	var lastAck uint64
	for {
		e, more, err := w.envelope()
		if err != nil {
			return err
		}
		if e.Ack != lastAck {
			if err := l.acked(e.Ack); err != nil {
				return err
			}
			lastAck = e.Ack
		}
		switch {
		case e.Kind == session.Data && more:
			if err := l.receive(w, e); err != nil {
				return err
			}
		case more:
			return fmt.Errorf("%w: envelope of kind %d with more frames", errFraming, e.Kind)
		case e.Kind == session.Ack:
		case e.Kind == session.Close:
			l.acknowledgeLast(w)
			if e.Text != "" {
				return fmt.Errorf("%w: %s", errPeerClosed, e.Text)
			}
			return errPeerClosed
		case e.Kind == session.Data, e.Kind == session.Hello, e.Kind == session.Welcome, e.Kind == session.Refuse:
			return fmt.Errorf("%w: envelope of kind %d in the wrong place", errFraming, e.Kind)
		}
		// Other kinds come from a later protocol and may be ignored.
	}
}

// receive reads the frames of one message and hands it over if it is new.
func (l *Link) receive(w *wire, e session.Envelope) error {
	fresh, err := l.inbox.Check(e.Seq)
	if err != nil {
		return err
	}
	if !fresh {
		l.mu.Lock()
		l.stats.Duplicates++
		l.mu.Unlock()
		return w.skipMessage(uint64(l.cfg.MaxMessage), uint64(l.cfg.MaxBody))
	}
	n, more, err := w.in.message(uint64(l.cfg.MaxMessage))
	if err != nil {
		return err
	}
	head, err := w.in.bytes(n)
	if err != nil {
		return err
	}
	var body []byte
	if more {
		if body, err = l.readBody(w, head); err != nil {
			return err
		}
	}
	l.inbox.Commit(e.Seq)
	l.recv.Store(e.Seq)
	w.received++
	w.receivedBytes += uint64(len(head) + len(body))
	w.wantAck = w.wantAck || e.WantAck
	w.ackBytes += len(head) + len(body)
	if unacked := w.received - w.ackedAt; unacked >= ackEvery || (w.wantAck && unacked >= ackWanted) || w.ackBytes >= ackEveryBytes {
		l.acknowledge(w)
	}
	l.cfg.Handler.Message(l, head, body)
	return nil
}

func (l *Link) readBody(w *wire, head []byte) ([]byte, error) {
	n, more, err := w.in.message(uint64(l.cfg.MaxBody))
	if err != nil {
		return nil, err
	}
	if more {
		return nil, fmt.Errorf("%w: a message of more than three frames", errFraming)
	}
	if l.cfg.BodyBuffer != nil {
		if b := l.cfg.BodyBuffer(l, head, n); len(b) >= n && n > 0 {
			return b[:n], w.in.fill(b[:n])
		}
	}
	return w.in.bytes(n)
}

// acked drops what the peer has received from the outbox.
func (l *Link) acked(n uint64) error {
	if !l.cfg.Replay {
		return nil
	}
	l.mu.Lock()
	err := l.out.Ack(n)
	l.mu.Unlock()
	if err == nil {
		l.credit()
	}
	return err
}

// beforeWait runs when every whole message that arrived is handled: what the
// handler queued goes out, and an acknowledgement that is due goes with it.
func (l *Link) beforeWait(w *wire) {
	if l.pauser != nil {
		l.pauser.Pause(l)
	}
	l.mu.Lock()
	l.stats.Received += w.received - w.countedAt
	l.stats.ReceivedBytes += w.receivedBytes
	w.countedAt, w.receivedBytes = w.received, 0
	if l.cfg.Replay && l.ackSent != l.recv.Load() {
		if w.wantAck {
			w.ackDue, w.wantAck = true, false
		} else {
			w.armAck(l.cfg.AckDelay)
		}
	}
	l.kickAndUnlock()
}

// acknowledge makes an acknowledgement go out with the next write, and starts it.
func (l *Link) acknowledge(w *wire) {
	w.ackedAt, w.ackBytes, w.wantAck = w.received, 0, false
	if !l.cfg.Replay {
		return
	}
	l.mu.Lock()
	w.ackDue = l.ackSent != l.recv.Load()
	l.kickAndUnlock()
}
