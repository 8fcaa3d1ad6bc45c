package shm

import (
	"regexp"
	"strconv"
)

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
