//go:build linux

package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/comms"
)

// executorEnd is the link of an executor: it writes down what it is sent.
type executorEnd struct {
	got   []string
	full  int // so many sends are refused
	ended error
}

func (e *executorEnd) Send(head, body []byte) error {
	if e.full > 0 {
		e.full--
		return comms.ErrFull
	}
	m, err := comms.Decode(head)
	if err != nil {
		return err
	}
	b := m.(*comms.Blob)
	e.got = append(e.got, fmt.Sprintf("%d:%s%s", b.Offset, body, b.Err))
	return nil
}

func (e *executorEnd) Abort(why error) { e.ended = why }

// Each piece is asked for once, goes to all who wait for it, and is asked for again
// of the next controller.
func TestRelay(t *testing.T) {
	var asked []string
	r := newRelay(func(m *comms.BlobReq) {
		asked = append(asked, fmt.Sprintf("%s %d+%d", string(m.Hash), m.Offset, m.Max))
	})
	a, b := &executorEnd{}, &executorEnd{}
	ask := func(l asker, hash string, offset uint64) {
		r.take(l, &comms.BlobReq{Hash: comms.Hash(hash), Offset: offset, Max: 2})
	}
	expect := func(want ...string) {
		t.Helper()
		slices.Sort(asked)
		if !slices.Equal(asked, want) {
			t.Errorf("asked for %q, want %q", asked, want)
		}
		asked = nil
	}
	got := func(l *executorEnd, want ...string) {
		t.Helper()
		if !slices.Equal(l.got, want) {
			t.Errorf("an executor got %q, want %q", l.got, want)
		}
		l.got = nil
	}
	ask(a, "x", 0)
	ask(a, "x", 2)
	ask(b, "x", 2)
	ask(b, "y", 2)
	expect("x 0+2", "x 2+2", "y 2+2")
	r.again()
	expect("x 0+2", "x 2+2", "y 2+2")

	r.answer(&comms.Blob{Hash: "x", Offset: 2, Total: 4}, []byte("cd"))
	r.answer(&comms.Blob{Hash: "x", Offset: 2, Total: 4}, []byte("cd"))
	got(a, "2:cd")
	got(b, "2:cd")

	a.full = 1
	r.answer(&comms.Blob{Hash: "x", Offset: 0, Total: 4}, []byte("ab"))
	got(a)
	expect("x 0+2") // there was no room for it
	r.answer(&comms.Blob{Hash: "x", Offset: 0, Total: 4}, []byte("ab"))
	got(a, "0:ab")

	r.answer(&comms.Blob{Hash: "y", Offset: 2, Err: "there is none"}, nil)
	got(b, "2:there is none")

	ask(a, "z", 0)
	ask(b, "z", 0)
	r.forget(a)
	r.answer(&comms.Blob{Hash: "z", Total: 2}, []byte("ef"))
	got(a)
	got(b, "0:ef")
	if len(r.open) > 0 {
		t.Errorf("open: %v", r.open)
	}
	for i := range uint64(relayed) {
		ask(b, "w", i)
	}
	if b.ended != nil {
		t.Fatal(b.ended)
	}
	ask(b, "w", relayed)
	if b.ended == nil || !strings.Contains(b.ended.Error(), "asks for more") {
		t.Errorf("an executor that floods: %v", b.ended)
	}
}
