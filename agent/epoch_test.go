//go:build linux

package agent

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cascade-run/cascade/comms"
)

// end is a handler of one end of a link.
type end struct {
	ups   chan *comms.Link
	heads chan []byte
}

func newEnd() *end { return &end{make(chan *comms.Link, 4), make(chan []byte, 4)} }

func (e *end) Up(l *comms.Link, _ comms.Identity, _ bool) { e.ups <- l }
func (e *end) Message(_ *comms.Link, head, _ []byte)      { e.heads <- head }
func (e *end) Credit(*comms.Link)                         {}
func (e *end) Down(*comms.Link, error)                    {}

// TestSendsToWhomTheCoreKnows: a link that is up anew leads to another process. What the
// core sends before it has heard of that is not for it.
func TestSendsToWhomTheCoreKnows(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	us, them := newEnd(), newEnd()
	ln, err := comms.Listen("ipc://"+filepath.Join(dir, "s.sock"), comms.Config{
		Self: comms.Identity{Role: "agent", Name: "b", Incarnation: 1, PID: os.Getpid()}, Handler: them, Replay: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	link, err := comms.Dial(t.Context(), ln.Addr(), comms.Config{
		Self: comms.Identity{Role: "agent", Name: "a", Incarnation: 1, PID: os.Getpid()}, Handler: us, Replay: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	<-us.ups
	out := outbound{link: link, epoch: link.Epoch()}
	(<-them.ups).Abort(errors.New("it knows nothing of that link any more"))
	<-us.ups
	<-them.ups

	l := &loop{}
	l.send(&out, &comms.GrantEnd{Grants: []uint64{1}})
	out.epoch = link.Epoch()
	l.send(&out, &comms.GrantEnd{Grants: []uint64{2}})
	l.flush()
	m, err := comms.Decode(<-them.heads)
	if r, ok := m.(*comms.GrantEnd); err != nil || !ok || len(r.Grants) != 1 || r.Grants[0] != 2 {
		t.Errorf("the first that it gets is %+v, %v", m, err)
	}
}
