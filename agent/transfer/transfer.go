package transfer

import (
	"errors"
	"time"

	"github.com/rs/zerolog"

	"github.com/cascade-run/cascade/agent/transfer/core"
	"github.com/cascade-run/cascade/comms"
)

// Copy names the copy of a dataset that one attempt made.
type Copy = core.Copy

// Source is an agent that has a dataset, and the address where it serves.
type Source = core.Source

// Errors with which a Pull ends, wrapped with what was tried.
var (
	ErrNoSource  = core.ErrNoSource
	ErrCancelled = core.ErrCancelled
	ErrBusy      = core.ErrBusy
	// ErrClosed says that the Exchange is closed.
	ErrClosed = errors.New("transfers are closed")
)

// Config says how an agent moves datasets.
type Config struct {
	Self   comms.Identity // Role must be "agent"; Name is how others know us
	Listen string         // address for other agents, as comms.ParseAddress reads it: "tcp://10.0.0.1:0"
	// Advertise is the address that others are told; default: Listen, with the port filled in.
	Advertise string

	Security            *comms.Security // needed for TCP; Expect is set to agents
	InsecureTestNetwork bool            // permits plain TCP, for tests and benchmarks
	Inproc              *comms.Inproc   // names that can be reached inside this process

	Tuning core.Config // its Self and First are filled in
	// NoSums leaves out the checksums of plain links. On TLS there are none.
	NoSums bool
	Log    zerolog.Logger
}

// Ended says how a Pull ended.
type Ended struct {
	Copy  Copy
	Bytes uint64        // that came over the network
	Took  time.Duration // since Pull
	Err   error         // nil when every byte is there and its checksum is right
}

// Stats counts what an Exchange did since its start.
type Stats struct {
	BytesIn, BytesOut uint64 // of datasets, as received whole and as handed to the kernel
	Pulls             uint64 // that ended well
	Failed            uint64 // that ended otherwise, cancelled ones too
	Again             uint64 // pieces that were asked for again after a break
	Corrupt           uint64 // pieces whose checksum was wrong
	Referred          uint64 // askers who were sent to others
	Pulling, Serving  int    // now: datasets that come, and transfers that go
	Links             int    // now
}

// Exchange moves datasets between this agent and others. Its methods may be
// called from any goroutine and never wait for a peer.
type Exchange struct{}

// errUnfinished is returned until the first working version lands.
var errUnfinished = errors.New("transfer: not working yet")

// New starts to listen.
func New(Config) (*Exchange, error) { return nil, errUnfinished }

// Addr returns the address that others shall be told.
func (x *Exchange) Addr() string { return "" }

// Offer serves a dataset that is here. The bytes must stay as they are until
// Withdraw says that nobody reads them any more.
func (x *Exchange) Offer(Copy, []byte) error { return errUnfinished }

// Withdraw ends an Offer, also the one that a Pull became when it ended well.
// Those who are served go elsewhere. released is called once nobody reads the
// bytes any more: at once from within Withdraw, or later from another goroutine;
// it must not block. A copy that is not offered is released at once.
func (x *Exchange) Withdraw(_ Copy, released func()) {}

// Pull fetches a copy into memory of exactly its size. Sources come in order of
// preference. done is called once, when all is there and verified or when no
// source is left; nobody writes to into afterwards. It is called from a goroutine
// of the Exchange, never from within Pull, and must not block. What is here of the copy is served
// to others from its first piece on; after a good end it is offered as by Offer.
func (x *Exchange) Pull(_ Copy, into []byte, from []Source, done func(Ended)) error {
	return errUnfinished
}

// More names further sources for a copy that is being pulled; for others it does nothing.
func (x *Exchange) More(Copy, []Source) {}

// Cancel ends a Pull: its done is called with ErrCancelled when nobody writes to
// its memory any more. For a copy that is not being pulled it does nothing.
func (x *Exchange) Cancel(Copy) {}

// Stats returns what was done since New.
func (x *Exchange) Stats() Stats { return Stats{} }

// Close ends every link and every Pull. When it returns nobody uses the memory of
// offers and pulls any more, and every callback has been called.
func (x *Exchange) Close() error { return nil }
