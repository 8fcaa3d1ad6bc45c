package client

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
	waiting []posted
	spare   []posted
	sending bool // a goroutine sends what waits
	bunch   comms.Bunch
	inside  []*Request // requests whose messages are in bunch
}

// posted is a request and how it is sent at first: what is to be sent again may be
// another message by then.
type posted struct {
	request *Request
	message comms.Message
}

// post sends a request as m, or leaves it to who is sending. A failure ends it. With
// more to be expected it lets others come first: those that run anyway, no others
// are waited for. Nobody sends for others for longer than it takes to send once:
// what comes then goes by a goroutine.
func (o *outbox) post(r *Request, m comms.Message, more bool) {
	o.mu.Lock()
	o.waiting = append(o.waiting, posted{r, m})
	if o.sending {
		o.mu.Unlock()
		return
	}
	o.sending = true
	o.mu.Unlock()
	if more {
		runtime.Gosched()
	}
	if o.round() {
		go o.rounds()
	}
}

func (o *outbox) rounds() {
	for o.round() {
	}
}

// round sends what waits and tells whether more has come meanwhile: then who called
// it has to see to that. Only who set sending calls it.
func (o *outbox) round() bool {
	o.mu.Lock()
	all := o.waiting
	o.waiting = o.spare[:0]
	o.mu.Unlock()
	o.send(all)
	clear(all)
	o.spare = all
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sending = len(o.waiting) > 0
	return o.sending
}

// send sends requests in order. Only who set sending calls it.
func (o *outbox) send(all []posted) {
	many := slices.Contains(o.peer.current().Peer().Features, comms.FeatureMany)
	for _, p := range all {
		if !many {
			o.put(p.message, p.request)
			continue
		}
		if !o.bunch.Add(p.message) {
			o.flush()
			if !o.bunch.Add(p.message) {
				o.put(p.message, p.request)
				continue
			}
		}
		o.inside = append(o.inside, p.request)
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

func (o *outbox) put(m comms.Message, rs ...*Request) {
	if err := o.peer.send(comms.Encode(m), nil); err != nil {
		for _, r := range rs {
			o.peer.requests.failed(r, fmt.Errorf("send request: %w", err))
		}
	}
}
