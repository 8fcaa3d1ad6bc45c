package executor

import (
	"bytes"
	"testing"
)

// stoppedTerminal is a terminal that takes nothing until it goes on.
type stoppedTerminal struct {
	begun, on chan struct{}
	bytes.Buffer
}

func (s *stoppedTerminal) Write(b []byte) (int, error) {
	if s.begun != nil {
		close(s.begun)
		s.begun = nil
		<-s.on
	}
	return s.Buffer.Write(b)
}

// TestPrinter has called tasks write to a terminal that was stopped: nothing waits for it, what exceeds the bound is dropped,
// and the rest comes in order when it goes on.
func TestPrinter(t *testing.T) {
	begun, on := make(chan struct{}), make(chan struct{})
	out := &stoppedTerminal{begun: begun, on: on}
	p := newPrinter(out, nil)
	p.print(1, []byte("first "))
	<-begun
	p.print(1, []byte("second "))
	p.print(2, []byte("without a writer"))
	p.print(3, []byte("of no stream"))
	p.print(1, make([]byte, mostPrinted)) // too much
	p.print(1, []byte("third"))
	close(on)
	p.close()
	p.print(1, []byte("too late"))
	if got := out.String(); got != "first second third" {
		t.Errorf("written: %q", got)
	}
}
