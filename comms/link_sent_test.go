package comms

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// A body's memory belongs to its owner again when Sent tells of it: what is
// written there then is not what the peer gets.
func TestSentBodiesAreFree(t *testing.T) {
	c := newCluster(t)
	for _, transport := range []string{"tcp", "tls", "inproc"} {
		t.Run(transport, func(t *testing.T) {
			in, out := newRecorder(), newRecorder()
			here, there := config(t, self("agent", "a", 1), in), config(t, self("agent", "b", 1), out)
			addr := "tcp://127.0.0.1:0"
			switch transport {
			case "tls":
				secure(&here, c.member("agent", "a"))
				secure(&there, c.member("agent", "b"), "agent")
			case "inproc":
				here.Inproc = NewInproc()
				there.Inproc, addr = here.Inproc, "inproc://a"
			}
			var order []byte
			sent := make(chan []byte, 10)
			here.Sent = func(_ *Link, body []byte) {
				order = append(order, body[0])
				clear(body)
				sent <- order
			}
			ln := listenTest(t, addr, here)
			dialTest(t, ln.Addr(), there)
			l := in.next(t, "up").link
			var want [][]byte
			for i, n := range []int{8 << 20, 1, 100 << 10, 8 << 20} {
				body := bytes.Repeat([]byte{byte(i + 1)}, n)
				want = append(want, bytes.Clone(body))
				if err := l.Send([]byte("head"), body); err != nil {
					t.Fatal(err)
				}
			}
			for i, h := range out.count(t, "message", len(want)) {
				if !bytes.Equal(h.body, want[i]) {
					t.Errorf("body %d is another", i)
				}
			}
			for range want[1:] {
				<-sent
			}
			if got := <-sent; !bytes.Equal(got, []byte{1, 2, 3, 4}) {
				t.Errorf("told of %v", got)
			}
		})
	}
}

func TestSentNeedsNoReplay(t *testing.T) {
	cfg := config(t, self("agent", "a", 1), newRecorder())
	cfg.Replay, cfg.Sent = true, func(*Link, []byte) {}
	if _, err := Dial(context.Background(), "tcp://127.0.0.1:1", cfg); err == nil || !strings.Contains(err.Error(), "exclude each other") {
		t.Error(err)
	}
}
