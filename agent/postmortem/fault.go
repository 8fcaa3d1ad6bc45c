package postmortem

import (
	"bytes"
	"regexp"
)

var (
	fault    = regexp.MustCompile(`(?m)^Fatal Python error: .*$`)
	frameOf  = regexp.MustCompile(`^  File ".*", line (\d+|\?\?\?) in `)
	ownFrame = regexp.MustCompile(`^  File ".*/cascade/executor/\w+\.py", line`)
)

// FindFault finds, in what faulthandler of Python wrote when the process died, the error and the stack of the task's
// function: without the frames of the executor that called it, which come last, and without what follows those.
// It is nil when there is none.
func FindFault(crash []byte) []byte {
	at := fault.FindIndex(crash)
	if at == nil {
		return nil
	}
	out := append([]byte(nil), crash[at[0]:at[1]]...)
	out = append(out, '\n')
	for line := range bytes.Lines(crash[at[1]:]) {
		if ownFrame.Match(line) {
			break
		}
		if frameOf.Match(line) || bytes.HasPrefix(line, []byte("Current thread ")) {
			out = append(out, line...)
		}
	}
	return out
}
