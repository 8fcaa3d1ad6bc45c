package ledger

import "fmt"

// State is where a dataset is in its life.
type State uint8

const (
	// Absent: never sealed here, or freed, dropped, lost.
	Absent State = iota
	// Evictable: sealed, in memory, no pin.
	Evictable
	// InUse: sealed, in memory, pinned.
	InUse
	// Spilling: in memory, being written to disk; it may be pinned and unpinned meanwhile.
	Spilling
	// Spilled: only on disk.
	Spilled
	// Reading: being read back; its pins are granted when that is done.
	Reading
)

func (s State) String() string {
	switch s {
	case Absent:
		return "absent"
	case Evictable:
		return "evictable"
	case InUse:
		return "pinned"
	case Spilling:
		return "spilling"
	case Spilled:
		return "spilled"
	case Reading:
		return "reading"
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

type event uint8

const (
	evSeal       event = iota // an executor sealed it, or a restart adopted it in memory
	evAdoptSpill              // a restart found its spill file
	evPin                     // a pin was added
	evUnpin                   // the last pin ended
	evSpill                   // memory is wanted, no copy on disk yet
	evForget                  // memory is wanted and a copy is on disk
	evKeep                    // a spill ended, the bytes stay in memory, no pin
	evKeepPinned              // a spill ended, the bytes stay in memory, pinned
	evRead                    // pinned while on disk
	evReadDone                // read back, still pinned
	evReadIdle                // read back, no request waits for it any more
	evReadUndo                // its new place could not be had; the bytes are still on disk
	evFree                    // no reference and no pin is left, or a copy elsewhere replaces it, or it is lost
)

func (e event) String() string {
	return [...]string{"seal", "adopt spilled", "pin", "unpin", "spill", "forget", "keep", "keep pinned",
		"read", "read done", "read idle", "read undone", "free"}[e]
}

// next is the table of transitions; what is not in it can not happen and panics in move.
//
//	            seal*      pin       unpin      spill     forget   keep       keepPinned read     readDone readIdle   readUndo free
//	Absent      Evictable
//	Evictable              InUse                Spilling  Spilled                                                              Absent
//	InUse                  InUse     Evictable
//	Spilling               Spilling  Spilling             Spilled  Evictable  InUse                                            Absent
//	Spilled                                                                              Reading                               Absent
//	Reading                Reading   Reading                                                      InUse    Evictable  Spilled  Absent
//
// * and from Absent to Spilled when a restart adopts a spill file.
func next(from State, ev event) (State, bool) {
	switch from {
	case Absent:
		switch ev {
		case evSeal:
			return Evictable, true
		case evAdoptSpill:
			return Spilled, true
		}
	case Evictable:
		switch ev {
		case evPin:
			return InUse, true
		case evSpill:
			return Spilling, true
		case evForget:
			return Spilled, true
		case evFree:
			return Absent, true
		}
	case InUse:
		switch ev {
		case evPin:
			return InUse, true
		case evUnpin:
			return Evictable, true
		}
	case Spilling:
		switch ev {
		case evPin, evUnpin:
			return Spilling, true
		case evForget:
			return Spilled, true
		case evKeep:
			return Evictable, true
		case evKeepPinned:
			return InUse, true
		case evFree:
			return Absent, true
		}
	case Spilled:
		switch ev {
		case evRead:
			return Reading, true
		case evFree:
			return Absent, true
		}
	case Reading:
		switch ev {
		case evPin, evUnpin:
			return Reading, true
		case evReadDone:
			return InUse, true
		case evReadIdle:
			return Evictable, true
		case evReadUndo:
			return Spilled, true
		case evFree:
			return Absent, true
		}
	}
	return from, false
}
