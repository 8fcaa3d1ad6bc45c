package client

import (
	"testing"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/pki"
)

// collector keeps what a peer sends.
type collector struct{ got chan comms.Message }

func (collector) Up(*comms.Link, comms.Identity, bool) {}
func (collector) Credit(*comms.Link)                   {}
func (collector) Down(*comms.Link, error)              {}

func (c collector) Message(l *comms.Link, head, _ []byte) {
	if err := comms.DecodeEach(head, func(m comms.Message) { c.got <- m }); err != nil {
		l.Abort(err)
	}
}

// A request goes out as it was posted, though it has been answered meanwhile, by a
// controller that was asked again, and is another message from then on.
func TestOutboxSendsWhatWasPosted(t *testing.T) {
	net, heard := comms.NewInproc(), collector{make(chan comms.Message, 8)}
	l, err := comms.Listen("inproc://controller", comms.Config{Self: comms.Identity{Role: "controller", Name: "c", Incarnation: 1}, Replay: true, Handler: heard, Inproc: net})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p, err := dialPeer(t.Context(), "inproc://controller", pki.RoleController, "", Config{Inproc: net})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	submit := &comms.Submit{}
	r, _, err := p.requests.prepare(func(req uint64) comms.Message {
		submit.Req = req
		return submit
	})
	if err != nil {
		t.Fatal(err)
	}
	p.outbox.sending = true // somebody else is
	p.outbox.post(r, submit, false)
	p.requests.become(r, &comms.Watch{Req: r.req})
	p.outbox.rounds()
	if m, ok := (<-heard.got).(*comms.Submit); !ok || m.Req != r.req {
		t.Errorf("%+v was sent", m)
	}
	if p.outbox.sending || len(p.outbox.waiting) > 0 {
		t.Error("something is left")
	}
}
