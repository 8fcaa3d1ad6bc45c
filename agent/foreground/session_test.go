package foreground

import (
	"os"
	"sync"
	"testing"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/executor"
)

// peer is an executor's end of a link. It reads nothing before release is called.
type peer struct {
	hold    chan struct{}
	release func()
	came    chan comms.Message
}

func (p *peer) Up(*comms.Link, comms.Identity, bool) {}
func (p *peer) Credit(*comms.Link)                   {}
func (p *peer) Down(*comms.Link, error)              {}

func (p *peer) Message(l *comms.Link, head, _ []byte) {
	<-p.hold
	m, err := comms.Decode(head)
	if err != nil {
		l.Abort(err)
		return
	}
	p.came <- m
}

// connected is a session of a task, its executor, and the link from there.
func connected(t *testing.T, segments int) (*session, *peer, *comms.Link) {
	t.Helper()
	folder, err := os.MkdirTemp("", "cf") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	task := &Task{Agent: "a", Folder: folder, Kind: &comms.Kind{ID: 1}, Run: comms.Run{ID: 1, Kind: 1}}
	for range segments {
		f, _, err := task.Input()
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s := &session{task: task, token: "t", up: make(chan *comms.Link, 1), came: make(chan comms.Message, 64), over: make(chan struct{})}
	t.Cleanup(func() { close(s.over) })
	ln, err := task.listen(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	p := &peer{hold: make(chan struct{}), came: make(chan comms.Message, segments+64)}
	link, err := comms.Dial(t.Context(), ln.Addr(), comms.Config{Self: comms.Identity{Role: "executor", Name: "e", Incarnation: 1}, Handler: p,
		MaxMessage: executor.MaxMessage, Pipes: true, HeartbeatEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { link.Close() })
	p.release = sync.OnceFunc(func() { close(p.hold) })
	t.Cleanup(p.release)
	return s, p, link
}

// A message may be taken before the link that it came on: both are there.
func TestMessageBeforeLink(t *testing.T) {
	s, p, link := connected(t, 0)
	p.release()
	if err := link.Send(comms.Encode(&comms.Hello{Token: "t"}), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.take(<-s.came); err != nil {
		t.Fatal(err)
	}
	if m, ok := (<-p.came).(*comms.Welcome); !ok {
		t.Errorf("the answer is %T", m)
	}
}

// An executor that reads nothing yet may have any number of inputs.
func TestManyInputs(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a file for each of many inputs")
	}
	const inputs = 22_000 // more than a link's queue and what the kernel holds
	s, p, link := connected(t, inputs)
	if err := link.Send(comms.Encode(&comms.Hello{Token: "t"}), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.take(<-s.came); err != nil {
		t.Fatal(err)
	}
	p.release()
	named := 0
	for {
		switch (<-p.came).(type) {
		case *comms.Segment:
			named++
		case *comms.Dispatch:
			if named != inputs {
				t.Errorf("%d inputs are named", named)
			}
			return
		}
	}
}
