package comms

import (
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// slowStream is a connection that, as one of TLS, is written by the writer's goroutine
// alone, which takes a while.
type slowStream struct {
	stream
	takes time.Duration
	once  sync.Once
	gone  chan struct{}
}

func (s *slowStream) writeVec(vec [][]byte, wait bool) (int, error) {
	if !wait {
		return 0, nil
	}
	late := time.NewTimer(s.takes)
	defer late.Stop()
	select {
	case <-late.C:
		return s.stream.writeVec(vec, true)
	case <-s.gone:
		return 0, net.ErrClosed
	}
}

func (s *slowStream) Close() error {
	s.once.Do(func() { close(s.gone) })
	return s.stream.Close()
}

// Who closes a link is told what the peer received last before that hangs up, also
// when it is another goroutine that writes the acknowledgement. A peer whose
// connection takes nothing any more is waited for no longer than CloseTimeout.
func TestCloseWaitsForTheLastAcknowledgement(t *testing.T) {
	for _, c := range []struct {
		name  string
		takes time.Duration // CloseTimeout is two seconds
		want  string
	}{
		{"late", time.Second, ""},
		{"never", time.Hour, "1 messages may be lost"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hub, leaf, inproc := newRecorder(), newRecorder(), NewInproc()
				hc, lc := config(t, self("agent", "a", 1), hub), config(t, self("client", "c", 1), leaf)
				hc.Replay, lc.Replay, hc.Inproc, lc.Inproc = true, true, inproc, inproc
				ln := listenTest(t, "inproc://hub", hc)
				front, err := inproc.listen("front")
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					near, err := front.Accept()
					if err != nil {
						t.Error(err)
						return
					}
					ln.admit(&slowStream{stream: near.(stream), takes: c.takes, gone: make(chan struct{})})
				}()
				l := dialTest(t, "inproc://front", lc)
				if err := l.Send([]byte("the last"), nil); err != nil {
					t.Fatal(err)
				}
				hub.next(t, "message")
				if err := l.Close(); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("closed with %v, want %q", err, c.want)
				}
			})
		})
	}
}

// A client that leaves its link alone while its program does something else has what was
// sent in its socket: nobody waits until it looks.
func TestCloseDoesNotWaitForAQuietClient(t *testing.T) {
	for _, c := range []struct {
		features []string
		waits    time.Duration
	}{
		{[]string{FeatureQuiet}, 0},
		{nil, 2 * time.Second}, // CloseTimeout
	} {
		synctest.Test(t, func(t *testing.T) {
			hub, leaf, inproc := newRecorder(), newRecorder(), NewInproc()
			busy := make(chan struct{})
			leaf.react = func(h happening) {
				if h.what == "message" {
					<-busy
				}
			}
			id := self("client", "c", 1)
			id.Features = c.features
			hc, lc := config(t, self("agent", "a", 1), hub), config(t, id, leaf)
			hc.Replay, lc.Replay, hc.Inproc, lc.Inproc = true, true, inproc, inproc
			listenTest(t, "inproc://hub", hc)
			dialTest(t, "inproc://hub", lc)
			l := hub.next(t, "up").link
			for range 2 {
				if err := l.Send([]byte("an answer"), nil); err != nil {
					t.Fatal(err)
				}
			}
			begun := time.Now()
			if err := l.Close(); (err == nil) != (c.waits == 0) {
				t.Errorf("features %v: closed with %v", c.features, err)
			}
			if took := time.Since(begun); took != c.waits {
				t.Errorf("features %v: Close took %v, want %v", c.features, took, c.waits)
			}
			close(busy)
			leaf.next(t, "message")
			leaf.next(t, "message")
			leaf.next(t, "down")
		})
	}
}
