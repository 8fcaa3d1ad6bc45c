package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Errors that Failed and the methods wrap. Test with errors.Is.
var (
	// ErrTooLarge: the request can never be granted, it exceeds the capacity.
	ErrTooLarge = errors.New("larger than the shared memory of this host (--store)")
	// ErrNoRoom: memory is full and can not be emptied (spilling fails or segments can not be created).
	ErrNoRoom = errors.New("shared memory is full and nothing can be moved out")
	// ErrStuck: everything is held by tasks that themselves wait for memory.
	ErrStuck = errors.New("shared memory is held by tasks that all wait for more of it")
	// ErrUnknown: no such dataset, lease, segment or request.
	ErrUnknown = errors.New("unknown")
	// ErrExists: the key or request number is in use.
	ErrExists = errors.New("exists already")
	// ErrLost: a dataset's bytes could not be read back.
	ErrLost = errors.New("dataset lost")
	// ErrState: the event does not fit the state (a mistake of the caller).
	ErrState = errors.New("not possible in this state")
)

// Key names a dataset. The ledger never looks inside; DatasetKey gives the layout that the runtime uses.
type Key [32]byte

// DatasetKey packs a dataset's name, big-endian, so that keys sort by job, task, output, element.
func DatasetKey(job [16]byte, task, output uint32, element uint64) Key {
	var k Key
	copy(k[:16], job[:])
	binary.BigEndian.PutUint32(k[16:], task)
	binary.BigEndian.PutUint32(k[20:], output)
	binary.BigEndian.PutUint64(k[24:], element)
	return k
}

// Split is the inverse of DatasetKey.
func (k Key) Split() (job [16]byte, task, output uint32, element uint64) {
	copy(job[:], k[:16])
	return job, binary.BigEndian.Uint32(k[16:]), binary.BigEndian.Uint32(k[20:]), binary.BigEndian.Uint64(k[24:])
}

// String prints job:task.output[element].
func (k Key) String() string {
	job, task, output, element := k.Split()
	return fmt.Sprintf("%x:%d.%d[%d]", job, task, output, element)
}

type (
	// SegmentID names a segment. Numbers are never used twice, so a path never means two inodes.
	SegmentID uint64
	// LeaseID names a lease; numbers are never used twice.
	LeaseID uint64
	// RequestID names a request and later its grant; the caller chooses it, unique among those alive.
	RequestID uint64
	// Owner is a process or transfer that holds pins and leases; the caller chooses the number.
	Owner uint64
)

// Kind says how a segment is used.
type Kind uint8

const (
	// Arena holds many regions.
	Arena Kind = iota
	// File holds one dataset, created by the driver and recycled through the warm pool.
	File
	// Output is a file that a command creates by itself; its size is an estimate until it is sealed.
	Output
)

func (k Kind) String() string {
	switch k {
	case Arena:
		return "arena"
	case File:
		return "file"
	case Output:
		return "output"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Class orders requests. Within a class they are served first come, first served.
type Class uint8

const (
	// Grow is more memory for a task that runs. It goes first and may use the reserve. A request
	// for datasets in memory that are only to be pinned does not wait.
	Grow Class = iota
	// Start is all that a task needs to begin. It leaves the reserve free, unless nothing else is held.
	Start
	// Prefetch is optional: it leaves the reserve free, waits for all others, and its pins may be revoked.
	Prefetch
	classes
)

// LeaseSpec asks for writable bytes.
type LeaseSpec struct {
	Bytes int64
	// Kind Arena becomes File by itself from Config.LargeBytes on; ask for File or Output when a command
	// will read or write the dataset.
	Kind Kind
}

// Request asks for pins on datasets and for leases, all or nothing.
type Request struct {
	ID     RequestID
	Owner  Owner
	Class  Class
	Pins   []Key
	Leases []LeaseSpec
}

// Place is a range of a segment, in bytes.
type Place struct {
	Segment SegmentID
	Offset  int64
	Bytes   int64
}

// Lease is a granted region. The holder may write Place until it seals, closes or dies.
type Lease struct {
	ID    LeaseID
	Kind  Kind
	Place Place
}

// Pinned is a granted pin.
type Pinned struct {
	Key   Key
	Kind  Kind
	Place Place
}

// Effect is what the caller must do or learn, in the order given. Those of the first group are for the
// driver of the segments, the others are news for the caller.
type Effect interface{ effect() }

type (
	// CreateSegment: create and reserve the file. Answer SegmentReady or SegmentFailed.
	CreateSegment struct {
		Segment SegmentID
		Kind    Kind
		Bytes   int64
	}
	// ResizeSegment: make a recycled file writable and reserve Bytes. Answer SegmentReady or SegmentFailed.
	ResizeSegment struct {
		Segment SegmentID
		Bytes   int64
	}
	// SealSegment: cut the file to exactly Bytes and make it read-only. No answer.
	SealSegment struct {
		Segment SegmentID
		Kind    Kind
		Bytes   int64
	}
	// RemoveSegment: give the memory back and remove the file, before any later effect. No answer.
	RemoveSegment struct{ Segment SegmentID }
	// Spill: write the dataset to disk. Answer SpillDone or SpillFailed. The bytes stay valid until then.
	Spill struct {
		Key  Key
		From Place
	}
	// ReadBack: read the spilled dataset into To. Answer ReadBackDone or ReadBackFailed.
	ReadBack struct {
		Key Key
		To  Place
	}
	// DropSpill: remove the spill file. No answer.
	DropSpill struct{ Key Key }
	// FreedRange: these bytes have no owner any more (only when Config.ReportFrees; used to poison them, which must
	// be over before any later effect is performed or announced). No answer.
	FreedRange struct{ Place Place }

	// Enter: note, where a successor finds it, that the sealed dataset lies at Place. At once: before any later
	// effect is performed or told to anybody. No answer.
	Enter struct {
		Key   Key
		Place Place
	}
	// Strike: the dataset does not lie in memory any more; end what Enter noted, as promptly. There may be no
	// note. No answer.
	Strike struct{ Key Key }

	// Granted: the request is fulfilled, pins and leases in the order of the request.
	Granted struct {
		ID     RequestID
		Owner  Owner
		Pins   []Pinned
		Leases []Lease
	}
	// Waiting: the request is queued. Emitted once. Callers should now take back leases of idle executors.
	Waiting struct {
		ID    RequestID
		Bytes int64
	}
	// Failed: the request is over, nothing is held for it.
	Failed struct {
		ID  RequestID
		Err error
	}
	// Revoked: a prefetch lost its pins to a request that needs the memory.
	Revoked struct{ ID RequestID }
	// Dropped: the local copy was given up because another exists elsewhere.
	Dropped struct{ Key Key }
	// Lost: the only local copy could not be read back.
	Lost struct {
		Key Key
		Err error
	}
	// Freed: references and pins of the dataset came to their end.
	Freed struct{ Key Key }
)

func (CreateSegment) effect() {}
func (ResizeSegment) effect() {}
func (SealSegment) effect()   {}
func (RemoveSegment) effect() {}
func (Spill) effect()         {}
func (ReadBack) effect()      {}
func (DropSpill) effect()     {}
func (FreedRange) effect()    {}
func (Enter) effect()         {}
func (Strike) effect()        {}
func (Granted) effect()       {}
func (Waiting) effect()       {}
func (Failed) effect()        {}
func (Revoked) effect()       {}
func (Dropped) effect()       {}
func (Lost) effect()          {}
func (Freed) effect()         {}
