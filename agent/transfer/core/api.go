package core

import (
	"errors"
	"fmt"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// Copy names the copy of a dataset that one attempt made. Bytes of two attempts are never mixed.
type Copy struct {
	Data    comms.DatasetID
	Attempt uint32
}

func (c Copy) String() string { return fmt.Sprintf("%s of attempt %d", c.Data, c.Attempt) }

// Source is an agent that has, or will have, a dataset.
type Source struct {
	Agent string // its name, which its link proves
	At    string // the address where it serves, as comms.ParseAddress reads it
}

// LinkID numbers the links of one agent; the driver never uses a number twice.
type LinkID uint64

// Config says how datasets are moved. Zero fields take the default.
type Config struct {
	Self  Source // who we are and where we serve; with an empty At it serves no copies
	First uint64 // number before that of the first transfer; random, so that two incarnations share none

	Chunk       uint64 // bytes of one Pull; default 4 MiB, at most 32 MiB
	Window      int    // Pulls that wait for their Piece on one link; default 4
	Connections int    // most links to one source; default 1
	Stripe      uint64 // bytes of a dataset for which one link more is opened; default 64 MiB
	Fanout      int    // receivers that one agent serves of a dataset itself; default 1
	Sources     int    // agents that one dataset is pulled from at a time; default 3

	Tries   int           // times that a source may fail without a byte between; default 5
	Backoff time.Duration // pause before the second try, doubled for each one more; default 50 ms
	Stall   time.Duration // silence after which an agent that itself still receives is left; default 10 s
	Idle    time.Duration // time without use after which links are closed; default 1 min

	// Ask has copies that are not here asked for, by Wanted, before their receivers are
	// refused. Unwanted tells when a copy has no receivers any more.
	Ask bool
}

// Errors with which a pull ends.
var (
	// ErrNoSource says that no agent is left that has the dataset.
	ErrNoSource = errors.New("no source is left")
	// ErrCancelled says that Cancel ended the pull.
	ErrCancelled = errors.New("cancelled")
)

// Event is something that happened. The driver gives events in the order in which they happened.
type Event interface{ event() }

// Offer says that a copy is here and shall be served.
type Offer struct {
	Copy Copy
	Size uint64
}

// NotHere answers Wanted: the copy cannot be had here.
type NotHere struct {
	Copy Copy
	Why  string
}

// Withdraw says that a copy shall not be served any more; one that is on its way is cancelled.
type Withdraw struct{ Copy Copy }

// Pull asks for a copy that is not here. Sources have all of it; they come in order of preference.
type Pull struct {
	Copy Copy
	Size uint64
	From []Source
}

// More names further sources of a copy that is on its way.
type More struct {
	Copy Copy
	From []Source
}

// Up says that a link is there: one that a Dial asked for, or one of an agent that dialed us.
type Up struct {
	Link   LinkID
	Agent  string // at the other end, as proven
	Dialed bool
}

// DialFailed answers a Dial.
type DialFailed struct {
	Agent string
	Why   string
}

// Down says that a link has ended. Every Arrived of its pieces came before.
type Down struct {
	Link LinkID
	Why  string
}

// Message is a message from the other end of a link, Piece excepted.
type Message struct {
	Link LinkID
	Msg  comms.Message
}

// Arrived says that the bytes of a piece are in memory, which Expects had allowed.
type Arrived struct {
	Link     LinkID
	Transfer uint64
	Offset   uint64
	Good     bool // its checksum is right
}

// Tick comes about once a second.
type Tick struct{}

func (Offer) event()      {}
func (NotHere) event()    {}
func (Withdraw) event()   {}
func (Pull) event()       {}
func (More) event()       {}
func (Up) event()         {}
func (DialFailed) event() {}
func (Down) event()       {}
func (Message) event()    {}
func (Arrived) event()    {}
func (Tick) event()       {}

// Action is something that the driver does, in order.
type Action interface{ action() }

// Dial asks for one link to an agent. The answer is Up or DialFailed.
type Dial struct {
	Source
	After time.Duration // to wait before
}

// Send sends a message.
type Send struct {
	Link LinkID
	Msg  comms.Message
}

// SendPiece sends bytes of a copy that is here.
type SendPiece struct {
	Link     LinkID
	Transfer uint64
	Copy     Copy
	Offset   uint64
	Bytes    uint64
}

// Hangup ends a link. Its Down follows.
type Hangup struct {
	Link LinkID
	Why  string
}

// Done says how a Pull ended. After a good end the copy is offered.
type Done struct {
	Copy Copy
	Came uint64 // bytes
	Err  error

	Flows []comms.Flow // that have ended since the last Done, of whatever copies
}

// Wanted says that another agent asks for a copy that is not here. Offer or NotHere answers.
type Wanted struct{ Copy Copy }

// Unwanted says that an offered copy has no receivers just now.
type Unwanted struct{ Copy Copy }

func (Wanted) action()    {}
func (Unwanted) action()  {}
func (Dial) action()      {}
func (Send) action()      {}
func (SendPiece) action() {}
func (Hangup) action()    {}
func (Done) action()      {}

// Stats counts.
type Stats struct {
	BytesIn  uint64 // of pieces that arrived well
	Pulls    uint64 // that ended well
	Failed   uint64 // that ended otherwise, cancelled ones too
	Again    uint64 // pieces that are asked for again: of a link that broke, of a source that failed, corrupt ones
	Corrupt  uint64 // pieces whose checksum was wrong
	Referred uint64 // askers who were sent to others
	Pulling  int    // copies that are on their way
	Serving  int    // transfers that we serve
	Links    int    // that are up
}
