package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/cascade-run/cascade/comms"
)

// blobs fetches what the controller keeps, which the agent passes on: one blob at a
// time, as an executor has one run at a time.
type blobs struct {
	mu  sync.Mutex
	now *fetching // nil: what comes is late
}

// fetching is a blob on its way. Pieces are asked for ahead and come in any order,
// perhaps twice.
type fetching struct {
	hash  comms.Hash
	into  []byte
	asked int                 // bytes that were asked for, from the start
	got   map[int]bool        // pieces, by number
	want  chan *comms.BlobReq // to be sent; has room for all that are on their way
	end   chan error          // capacity 1
}

const (
	blobPiece = 256 << 10 // bytes: others use the links, too
	blobAhead = 4         // pieces
)

// fetch fills into with a blob of just that size. The caller checks the hash.
func (b *blobs) fetch(ctx context.Context, send func(comms.Message), hash comms.Hash, into []byte) error {
	if hash == "" {
		return errors.New("it has no hash")
	}
	if len(into) == 0 {
		return nil
	}
	f := &fetching{hash: hash, into: into, got: map[int]bool{}, want: make(chan *comms.BlobReq, blobAhead), end: make(chan error, 1)}
	b.mu.Lock()
	b.now = f
	for range blobAhead {
		f.ask()
	}
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.now = nil // from here on nothing writes into the memory
		b.mu.Unlock()
	}()
	for {
		select {
		case m := <-f.want:
			send(m)
		case err := <-f.end:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ask asks for the next piece, if there is one. blobs.mu is held.
func (f *fetching) ask() {
	if f.asked < len(f.into) {
		n := min(blobPiece, len(f.into)-f.asked)
		f.want <- &comms.BlobReq{Hash: f.hash, Offset: uint64(f.asked), Max: uint64(n)}
		f.asked += n
	}
}

// piece takes a piece that the agent passes on. It is dropped when no reader waits for it.
func (b *blobs) piece(m *comms.Blob, body []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.now
	if f == nil || m.Hash != f.hash {
		return
	}
	if err := f.take(m, body); err != nil {
		f.over(err)
	} else if len(f.got)*blobPiece >= len(f.into) {
		f.over(nil)
	}
}

func (f *fetching) over(err error) {
	select {
	case f.end <- err:
	default: // it is over
	}
}

func (f *fetching) take(m *comms.Blob, body []byte) error {
	size := uint64(len(f.into))
	switch {
	case m.Err != "":
		return errors.New(m.Err)
	case m.Total != size:
		return fmt.Errorf("it has %d bytes, and not %d", m.Total, size)
	case m.Offset >= size || m.Offset%blobPiece != 0 || uint64(len(body)) != min(blobPiece, size-m.Offset):
		return fmt.Errorf("a piece of %d bytes at %d, which was not asked for", len(body), m.Offset)
	}
	if n := int(m.Offset / blobPiece); !f.got[n] {
		f.got[n] = true
		copy(f.into[m.Offset:], body)
		f.ask()
	}
	return nil
}
