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
	Self  Source // who we are and where we serve; an empty At serves nobody
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
}

// Errors with which a pull ends.
var (
	// ErrNoSource says that no agent is left that has the dataset.
	ErrNoSource = errors.New("no source is left")
	// ErrCancelled says that Cancel ended the pull.
	ErrCancelled = errors.New("cancelled")
	// ErrBusy says that this copy is being pulled, or here, already.
	ErrBusy = errors.New("the copy is here or on its way already")
)
