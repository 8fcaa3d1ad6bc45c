// Package output keeps what a process or command writes, for a test that waits for
// a part of it.
package output

import (
	"bytes"
	"sync"
)

// Buffer is an io.Writer; the zero value is ready. It may be used from many goroutines.
type Buffer struct {
	mu   sync.Mutex
	b    bytes.Buffer
	more chan struct{} // closed at the next write; nil when no reader waits
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.more != nil {
		close(b.more)
		b.more = nil
	}
	return b.b.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Next returns all that was written, and a channel that is closed when there is more.
func (b *Buffer) Next() (string, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.more == nil {
		b.more = make(chan struct{})
	}
	return b.b.String(), b.more
}
