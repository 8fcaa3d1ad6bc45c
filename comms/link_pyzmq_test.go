package comms

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// python finds an interpreter that has pyzmq.
func python(t *testing.T) string {
	t.Helper()
	for _, p := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(p, "-c", "import zmq").Run() == nil {
			return p
		}
	}
	const missing = "no python3 with pyzmq (Debian: apt-get install python3-zmq)"
	if os.Getenv("CASCADE_REQUIRE_PYZMQ") == "1" {
		t.Fatal(missing)
	}
	t.Skip(missing + "; CASCADE_REQUIRE_PYZMQ=1 makes this a failure")
	return ""
}

// A libzmq peer exchanges messages with us both ways: as DEALER with our
// listener, as ROUTER with our dial, small messages and large ones, with its
// heartbeats so frequent that PINGs arrive in the middle of everything.
func TestPyzmq(t *testing.T) {
	py := python(t)
	for _, role := range []string{"dealer", "router"} {
		for _, c := range []struct{ count, size, beat int }{{200, 10, 0}, {20, 5 << 20, 5}, {2, 40 << 20, 5}} {
			for _, scheme := range []string{"ipc", "tcp"} {
				t.Run(fmt.Sprintf("%s/%s/%dx%d", role, scheme, c.count, c.size), func(t *testing.T) {
					if testing.Short() && c.size > 10 && scheme == "tcp" {
						t.Skip("large messages over tcp take seconds")
					}
					r := newRecorder()
					r.react = func(h happening) {
						if h.what == "message" {
							if err := h.link.Send(append([]byte("re:"), h.head...), h.body); err != nil {
								t.Errorf("echo: %v", err)
							}
						}
					}
					cfg := config(t, self("controller", "go", 9), r)
					cfg.Replay, cfg.QueueBytes = true, 512<<20
					addr := "ipc://" + socketFolder(t) + "/s"
					if scheme == "tcp" {
						addr = "tcp://127.0.0.1:0"
					}
					if role == "dealer" {
						addr = listenTest(t, addr, cfg).Addr()
					} else if scheme == "tcp" {
						addr = "tcp://127.0.0.1:*" // any that is free
					}
					cmd := exec.Command(py, "testdata/peer.py", role, addr, fmt.Sprint(c.count), fmt.Sprint(c.size), fmt.Sprint(c.beat))
					cmd.Stderr = os.Stderr
					out, err := cmd.StdoutPipe()
					if err != nil {
						t.Fatal(err)
					}
					if err := cmd.Start(); err != nil {
						t.Fatal(err)
					}
					lines := bufio.NewScanner(out)
					if role == "router" {
						lines.Scan()
						at, bound := strings.CutPrefix(lines.Text(), "bound ")
						if !bound {
							t.Fatalf("pyzmq did not bind: %q", lines.Text())
						}
						dialTest(t, at, cfg)
					}
					said := ""
					for lines.Scan() {
						said += lines.Text()
					}
					if err := cmd.Wait(); err != nil || said != "ok controller go" {
						t.Errorf("pyzmq said %q, %v", said, err)
					}
					d := r.next(t, "down")
					if s := d.link.Stats(); (s.Pings > 0) != (c.beat > 0) || s.Connections != 1 {
						t.Errorf("heartbeats every %d ms, %+v", c.beat, s)
					}
					if !errors.Is(d.err, errPeerClosed) || !strings.HasSuffix(d.err.Error(), "done") {
						t.Errorf("down: %v", d.err)
					}
				})
			}
		}
	}
}
