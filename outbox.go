package cascade

import (
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/cascade-run/cascade/comms"
)

// outbox sends requests that wait for nothing but being sent. Those that come
// while others are on their way go together, as one message when they are alike.
type outbox struct {
	peer *peer

	mu      sync.Mutex
	waiting []*request
	spare   []*request
	sending bool // somebody sends what waits
	bunch   comms.Bunch
	inside  []*request // requests whose messages are in bunch
}

// post sends a request, or leaves it to who is sending. A failure ends it. With
// more to be expected it lets others come first: those that run anyway, no others
// are waited for.
func (o *outbox) post(r *request, more bool) {
	o.mu.Lock()
	o.waiting = append(o.waiting, r)
	if o.sending {
		o.mu.Unlock()
		return
	}
	o.sending = true
	o.mu.Unlock()
	if more {
		runtime.Gosched()
	}
	for {
		o.mu.Lock()
		rs := o.waiting
		if o.sending = len(rs) > 0; !o.sending {
			o.mu.Unlock()
			return
		}
		o.waiting = o.spare[:0]
		o.mu.Unlock()
		o.send(rs)
		clear(rs)
		o.spare = rs
	}
}

// send sends requests in order. Only who set sending calls it.
func (o *outbox) send(rs []*request) {
	many := slices.Contains(o.peer.current().Peer().Features, comms.FeatureMany)
	for _, r := range rs {
		if !many {
			o.put(r.again, r)
			continue
		}
		if !o.bunch.Add(r.again) {
			o.flush()
			if !o.bunch.Add(r.again) {
				o.put(r.again, r)
				continue
			}
		}
		o.inside = append(o.inside, r)
	}
	o.flush()
}

func (o *outbox) flush() {
	if m := o.bunch.Take(); m != nil {
		o.put(m, o.inside...)
	}
	clear(o.inside)
	o.inside = o.inside[:0]
}

func (o *outbox) put(m comms.Message, rs ...*request) {
	if err := o.peer.send(comms.Encode(m), nil); err != nil {
		for _, r := range rs {
			o.peer.requests.failed(r, fmt.Errorf("send request: %w", err))
		}
	}
}
