package postmortem

import (
	"bytes"
	"regexp"
	"strings"
)

const maxText = 16 << 10 // bytes of a message and of a stack

// Panic is what a Go program said about the bug that it died of.
type Panic struct {
	Message string // "panic: boom"
	Stack   string // of the goroutine that it happened in
}

// fatal lists the errors that only a program's own mistake causes and that the
// runtime does not let it recover from. Their text goes to standard error alone,
// so they are known by the place where the runtime stopped. Errors that a lack of
// memory or a broken machine may have caused are left out.
var fatal = []struct{ frame, message string }{
	{"\nruntime.newstack(", "fatal error: stack overflow"},
	{"\ninternal/runtime/maps.fatal(", "fatal error: concurrent map access"},
	{"\ninternal/sync.fatal(", "fatal error: a lock was unlocked that was not locked"},
}

var (
	words     = regexp.MustCompile(`(?m)^panic: `)
	stackHead = regexp.MustCompile(`\n\n?(runtime stack:|goroutine \d+ )`)
	goroutine = regexp.MustCompile(`(?m)^goroutine \d+ `)
)

// FindPanic finds, in the crash output of a Go program, a panic that no caller
// could recover, such as one in a goroutine that a task started.
func FindPanic(crash []byte) (p Panic, ok bool) {
	end := stackHead.FindIndex(crash)
	if end == nil {
		return p, false
	}
	message, ending := crash[:end[0]], crash[end[0]:]
	if from := goroutine.FindIndex(ending); from != nil {
		stack, _, _ := bytes.Cut(ending[from[0]:], []byte("\n\n"))
		p.Stack = clip(stack)
		ending = ending[:from[0]+len(stack)] // other goroutines may follow
	}
	if at := words.FindIndex(message); at != nil {
		p.Message = clip(message[at[0]:])
		return p, true
	}
	for _, f := range fatal {
		if bytes.Contains(ending, []byte(f.frame)) {
			p.Message = f.message
			return p, true
		}
	}
	return Panic{}, false
}

func clip(text []byte) string {
	text = bytes.TrimSpace(text)
	return strings.ToValidUTF8(string(text[:min(len(text), maxText)]), "?")
}
