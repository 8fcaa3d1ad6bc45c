//go:build linux

package agent

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/cascade-run/cascade/comms"
)

// relay passes on requests of executors for blobs that the controller keeps, and the
// answers. Requests whose link has ended are repeated on the next one.
type relay struct {
	ask func(*comms.BlobReq) // sends, or drops it when there is no link

	mu   sync.Mutex
	open map[comms.BlobReq][]asker // who waits for a piece, once for each time that it asked
}

// asker is the link of an executor.
type asker interface {
	Send(head, body []byte) error
	Abort(why error)
}

// relayed is how many pieces one executor may wait for: its own bound is far less.
const relayed = 64

func newRelay(ask func(*comms.BlobReq)) *relay {
	return &relay{ask: ask, open: map[comms.BlobReq][]asker{}}
}

// take passes a request on, unless another executor waits for the same.
func (r *relay) take(l asker, m *comms.BlobReq) {
	r.mu.Lock()
	waits := 0
	for _, links := range r.open {
		for _, who := range links {
			if who == l {
				waits++
			}
		}
	}
	if waits >= relayed {
		r.mu.Unlock()
		l.Abort(fmt.Errorf("it waits for %d pieces of blobs and asks for more", waits))
		return
	}
	first := len(r.open[*m]) == 0
	r.open[*m] = append(r.open[*m], l)
	r.mu.Unlock()
	if first {
		r.ask(m)
	}
}

// answer passes a piece on to those who wait for it. The bytes stay the caller's.
func (r *relay) answer(m *comms.Blob, body []byte) {
	r.mu.Lock()
	var asked []comms.BlobReq
	var links []asker
	for req, who := range r.open {
		if req.Hash == m.Hash && req.Offset == m.Offset {
			for range who {
				asked = append(asked, req)
			}
			links = append(links, who...)
			delete(r.open, req)
		}
	}
	r.mu.Unlock()
	for i, l := range links {
		// Links own what they are given.
		if errors.Is(l.Send(comms.Encode(m), bytes.Clone(body)), comms.ErrFull) {
			r.take(l, &asked[i]) // by the time that it comes again there may be room
		}
	}
}

// forget drops what an executor waits for whose link has ended.
func (r *relay) forget(l asker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for req, links := range r.open {
		links = slices.DeleteFunc(links, func(who asker) bool { return who == l })
		if r.open[req] = links; len(links) == 0 {
			delete(r.open, req)
		}
	}
}

// again asks a controller anew for what the one before, or a link that is no more, was asked for.
func (r *relay) again() {
	r.mu.Lock()
	asked := slices.Collect(maps.Keys(r.open))
	r.mu.Unlock()
	for i := range asked {
		r.ask(&asked[i])
	}
}
