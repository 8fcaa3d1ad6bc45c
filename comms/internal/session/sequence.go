package session

import (
	"errors"
	"fmt"
)

// Errors of the two sequences.
var (
	// ErrFull says that the outbound bound is reached. Nothing was queued.
	ErrFull = errors.New("outbound queue is full")
	// ErrSequence says that the peer broke the rules of numbering.
	ErrSequence = errors.New("sequence broken")
)

// entryCost is what one queued message costs beyond its bytes.
const entryCost = 64

// Entry is one message on its way out.
type Entry struct {
	Seq        uint64
	Head, Body []byte
}

func (e *Entry) cost() int { return len(e.Head) + len(e.Body) + entryCost }

// Outbox holds what is to be sent and, when it replays, what was sent and not
// yet acknowledged. The zero value is not usable: call NewOutbox.
type Outbox struct {
	replay             bool
	maxBytes, maxCount int

	entries []Entry // [front:] are live; front of them sent and unacknowledged, then unsent
	front   int
	sent    int    // index into entries of the first unsent one
	next    uint64 // number of the next message
	bytes   int    // cost of all live entries
	unsent  int    // cost of the unsent ones
	refused bool   // a Push was refused and no Credit reported since
}

// NewOutbox makes an empty outbox that holds at most maxBytes and maxCount
// messages. With replay, messages stay until acknowledged.
func NewOutbox(replay bool, maxBytes, maxCount int) Outbox {
	return Outbox{replay: replay, maxBytes: maxBytes, maxCount: maxCount, next: 1}
}

// Push queues a message. An empty outbox takes one message of any size, so
// that a bound smaller than a message cannot block it for ever.
func (o *Outbox) Push(head, body []byte) error {
	e := Entry{Seq: o.next, Head: head, Body: body}
	if n := o.Len(); n > 0 && (n >= o.maxCount || o.bytes+e.cost() > o.maxBytes) {
		o.refused = true
		return ErrFull
	}
	o.compact()
	o.entries = append(o.entries, e)
	o.next++
	o.bytes += e.cost()
	o.unsent += e.cost()
	return nil
}

// compact moves the live entries to the front once the dead ones outnumber
// them, so that the slice is reused and the cost stays constant on average.
func (o *Outbox) compact() {
	if len(o.entries) < cap(o.entries) || o.front <= len(o.entries)/2 {
		return
	}
	n := copy(o.entries, o.entries[o.front:])
	clear(o.entries[n:])
	o.entries = o.entries[:n]
	o.sent -= o.front
	o.front = 0
}

// Take returns the next unsent message and marks it sent.
func (o *Outbox) Take() (Entry, bool) {
	if o.sent == len(o.entries) {
		return Entry{}, false
	}
	e := o.entries[o.sent]
	o.sent++
	o.unsent -= e.cost()
	if !o.replay {
		o.drop(o.sent)
	}
	return e, true
}

// Peek returns the next unsent message without marking it sent.
func (o *Outbox) Peek() (Entry, bool) {
	if o.sent == len(o.entries) {
		return Entry{}, false
	}
	return o.entries[o.sent], true
}

// drop forgets the entries before index end.
func (o *Outbox) drop(end int) {
	for i := o.front; i < end; i++ {
		o.bytes -= o.entries[i].cost()
		o.entries[i] = Entry{}
	}
	o.front = end
	if o.front == len(o.entries) {
		o.entries, o.front, o.sent = o.entries[:0], 0, 0
	}
}

// Ack drops every message up to number n: the peer has received them.
// An old number changes nothing; one that was never sent is an error.
func (o *Outbox) Ack(n uint64) error {
	first := o.next - uint64(o.Len()) // number of entries[front]
	if n < first {
		return nil
	}
	end := o.front + int(n-first) + 1
	if n >= o.next || end > o.sent {
		return fmt.Errorf("%w: peer acknowledges message %d, sent are %d", ErrSequence, n, o.LastSent())
	}
	o.drop(end)
	return nil
}

// Rewind starts again after message n, the last one that the peer received on
// an earlier connection.
func (o *Outbox) Rewind(n uint64) error {
	first := o.next - uint64(o.Len())
	if n+1 < first {
		return fmt.Errorf("%w: peer received %d messages, but %d were acknowledged", ErrSequence, n, first-1)
	}
	if err := o.Ack(n); err != nil {
		return err
	}
	o.sent, o.unsent = o.front, o.bytes
	return nil
}

// Reset forgets everything and numbers from 1 again, for a new incarnation of
// the peer.
func (o *Outbox) Reset() {
	clear(o.entries)
	o.entries, o.front, o.sent = o.entries[:0], 0, 0
	o.next, o.bytes, o.unsent = 1, 0, 0
}

// Len returns the number of messages held.
func (o *Outbox) Len() int { return len(o.entries) - o.front }

// Bytes returns the cost of the messages held.
func (o *Outbox) Bytes() int { return o.bytes }

// Unsent returns the cost of the messages that wait to be sent.
func (o *Outbox) Unsent() int { return o.unsent }

// LastSent returns the highest number given to Take, 0 for none.
func (o *Outbox) LastSent() uint64 { return o.next - 1 - uint64(len(o.entries)-o.sent) }

// Filling says that more than half of the bound is used.
func (o *Outbox) Filling() bool { return o.Len() > o.maxCount/2 || o.bytes > o.maxBytes/2 }

// Credit reports once that an outbox that had refused a Push has room again:
// it is at most half full.
func (o *Outbox) Credit() bool {
	due := o.NeedsCredit()
	if due {
		o.refused = false
	}
	return due
}

// NeedsCredit says whether Credit would report.
func (o *Outbox) NeedsCredit() bool { return o.refused && (!o.Filling() || o.Len() == 0) }

// Inbox checks the numbers of what arrives.
type Inbox struct{ last uint64 }

// Last returns the number of the last message received, 0 for none.
func (in *Inbox) Last() uint64 { return in.last }

// Check says whether seq is the next message (true) or a copy of one that was
// received (false). A gap is an error: a link never skips.
func (in *Inbox) Check(seq uint64) (fresh bool, err error) {
	switch {
	case seq == in.last+1:
		return true, nil
	case seq == 0 || seq > in.last:
		return false, fmt.Errorf("%w: message %d after message %d", ErrSequence, seq, in.last)
	}
	return false, nil
}

// Commit counts message seq as received. Call it when the whole message is there.
func (in *Inbox) Commit(seq uint64) { in.last = seq }

// Reset starts again with message 1, for a new incarnation of the peer.
func (in *Inbox) Reset() { in.last = 0 }
