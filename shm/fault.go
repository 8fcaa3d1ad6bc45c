package shm

import (
	"regexp"
	"runtime/debug"
	"strconv"
)

// CatchFault runs f and reports whether it was ended by access to memory that it may not touch, in this
// goroutine: nearly always a write to a read-only view. Mapper.Owner tells which. Other panics pass through.
// In other goroutines, and in code that is not Go, such an access ends the process; see ParseCrash.
func CatchFault(f func()) (addr uintptr, fault bool) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		switch r := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }: // the runtime gives the address of a fault, but not of a nil dereference
			addr, fault = r.Addr(), true
		default:
			panic(r)
		}
	}()
	f()
	return 0, false
}

// Crash is what the output of a Go program says about the fault that ended it.
type Crash struct {
	Signal string // SIGSEGV or SIGBUS
	Addr   uintptr
}

var signalLine = regexp.MustCompile(`(?m)^\[signal (SIGSEGV|SIGBUS)[^\n]*? addr=(0x[0-9a-f]+)`)

// ParseCrash finds the fault in the standard error of a Go program that died of one. A nil dereference is
// one too, with an address below 4096.
func ParseCrash(output []byte) (Crash, bool) {
	m := signalLine.FindSubmatch(output)
	if m == nil {
		return Crash{}, false
	}
	addr, err := strconv.ParseUint(string(m[2]), 0, 64)
	if err != nil {
		return Crash{}, false
	}
	return Crash{string(m[1]), uintptr(addr)}, true
}
