//go:build linux

package chaos

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
)

// greeting is what a peer of ZeroMQ says first.
var greeting = func() []byte {
	b := make([]byte, 64)
	b[0], b[9], b[10] = 0xff, 0x7f, 3
	copy(b[12:], "NULL")
	return b
}()

// intruders connect to a socket and never become a peer. They stay until the
// other side hangs up or the test is over.
var intruders = []struct {
	says []byte
	slow bool // one byte, and another each time that the other side may have lost patience
}{
	{nil, false}, // silence
	{[]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), false},
	{greeting[:11], false},
	{append(greeting[:64:64], 6, 0x40, 0, 0, 0, 0, 0, 0, 0, 5, 'R', 'E', 'A', 'D', 'Y'), false}, // a frame of 2^62 bytes
	{greeting, true},
}

// slowly is how long a slow intruder waits between two bytes.
const slowly = 250 * time.Millisecond

// drip says the rest, byte by byte.
func drip(c net.Conn, rest []byte, leave <-chan struct{}) {
	tick := time.NewTicker(slowly)
	defer tick.Stop()
	for _, b := range rest {
		select {
		case <-tick.C:
		case <-leave:
			return
		}
		if _, err := c.Write([]byte{b}); err != nil {
			return // the other side has hung up: it should
		}
	}
}

// intrude opens n connections to each address and returns when all have said what they say first.
func intrude(t *testing.T, n int, addresses []string) {
	t.Helper()
	leave := make(chan struct{})
	var all, said sync.WaitGroup
	for _, addr := range addresses {
		network, target, _ := strings.Cut(addr, "://")
		if network == "ipc" {
			network = "unix"
		}
		for i := range n {
			said.Add(1)
			all.Go(func() {
				c, err := net.Dial(network, target)
				if err != nil {
					t.Errorf("connect to %s: %v", addr, err)
					said.Done()
					return
				}
				defer c.Close()
				kind, rest := intruders[i%len(intruders)], []byte(nil)
				if kind.slow {
					kind.says, rest = kind.says[:1], kind.says[1:]
				}
				_, _ = c.Write(kind.says) // the other side may have hung up: it should
				said.Done()
				drip(c, rest, leave)
				<-leave
			})
		}
	}
	said.Wait()
	t.Cleanup(func() {
		close(leave)
		all.Wait()
	})
}

// deaf is a client that asks and does not read.
type deaf struct{ leave chan struct{} }

func (d deaf) Up(*comms.Link, comms.Identity, bool) {}
func (d deaf) Message(*comms.Link, []byte, []byte)  { <-d.leave }
func (d deaf) Credit(*comms.Link)                   {}
func (d deaf) Down(*comms.Link, error)              {}
func (d deaf) join(t *testing.T, addr string, name int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cfg := comms.Config{Handler: d, Replay: true, InsecureTestNetwork: true, HandshakeTimeout: patience,
		Self: comms.Identity{Role: "client", Name: fmt.Sprintf("deaf-%d", name), Incarnation: 1}}
	link, err := comms.Dial(ctx, addr, cfg)
	for err != nil && ctx.Err() == nil { // a busy host may be too slow for a handshake
		link, err = comms.Dial(ctx, addr, cfg)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { link.Abort(fmt.Errorf("the test is over")) })
	for req := range uint64(200) {
		if err := link.Send(comms.Encode(&comms.Query{Req: req + 1, Kind: comms.QueryJobs}), nil); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCrowd: two thousand connections that are no peers, spread over every socket (a
// thousand on each, and a thousand more, in the long form), and clients that do not read,
// disturb neither links nor jobs.
func TestCrowd(t *testing.T) {
	t.Parallel()
	each := rounds(250, 1000)
	h := New(t)
	ctl := h.Controller("--listen", h.Address()+",tcp://127.0.0.1:0", "--insecure-test-network")
	agent := h.Agent()
	c := h.Client()
	want := h.Submit(c, mix, nil).Done()
	tcp := regexp.MustCompile(`tcp://127[0-9.:]+`).FindString(ctl.Output())
	addresses := []string{h.Address(), tcp,
		"ipc://" + filepath.Join(h.Sockets, "agent.sock"), "ipc://" + filepath.Join(h.Sockets, "executors.sock")}
	d := deaf{make(chan struct{})}
	t.Cleanup(func() { close(d.leave) })
	for i := range 20 {
		d.join(t, h.Address(), i)
	}
	during := h.Submit(c, mix, nil)
	intrude(t, each, addresses)
	during.Done().Same(t, want)
	intrude(t, each, addresses)
	// Somebody new gets in, too.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	late, err := cascade.Dial(ctx, tcp, cascade.WithInsecureTestNetwork())
	for err != nil && ctx.Err() == nil {
		late, err = cascade.Dial(ctx, tcp, cascade.WithInsecureTestNetwork())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	h.Submit(late, mix, nil).Done().Same(t, want)
	for _, p := range []*Process{ctl, agent} {
		for line := range strings.Lines(p.Output()) { // those who do not read do not answer: they are given up in time
			if strings.Contains(line, "nothing heard for") && !strings.Contains(line, `"peer":"deaf-`) {
				t.Errorf("a link broke for want of heartbeats: %s", line)
			}
		}
	}
}
