package comms

import (
	"errors"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
)

// bencher counts messages, plays ping-pong from the reading goroutine, or
// hands them to the benchmark's goroutine.
type bencher struct {
	up     chan *Link
	hop    chan []byte // set: hand over
	left   atomic.Int64
	pong   bool // answer each message until left is zero
	done   chan struct{}
	credit chan struct{}
}

func newBencher() *bencher {
	return &bencher{up: make(chan *Link, 1), done: make(chan struct{}, 1), credit: make(chan struct{}, 1)}
}

func (b *bencher) Up(l *Link, _ Identity, _ bool) { b.up <- l }
func (b *bencher) Message(l *Link, head, _ []byte) {
	switch {
	case b.hop != nil:
		b.hop <- head
	case b.left.Add(-1) == 0:
		b.done <- struct{}{}
	case b.pong:
		_ = l.Queue(head, nil) // flushed before the link waits
	}
}
func (b *bencher) Credit(*Link) {
	select {
	case b.credit <- struct{}{}:
	default:
	}
}
func (b *bencher) Down(*Link, error) {}

// benchLink gives a link whose peer echoes, in this process or in another.
func benchLink(b *testing.B, scheme string, otherProcess, replay bool) (*bencher, *Link) {
	h, inproc := newBencher(), NewInproc()
	addr := "inproc://bench"
	if scheme == "ipc" {
		addr = "ipc://" + socketFolder(b) + "/s"
	}
	cfg := Config{Self: self("agent", "bench", 1), Handler: h, Inproc: inproc, Replay: replay}
	listenTest(b, addr, cfg)
	if otherProcess {
		child(b, "CASCADE_LINK_CHILD="+addr, map[bool]string{true: "CASCADE_LINK_REPLAY=1", false: "X=1"}[replay])
	} else {
		cfg.Handler = &echo{}
		cfg.Self.Name = "echo"
		dialTest(b, addr, cfg)
	}
	return h, <-h.up
}

func child(b *testing.B, env ...string) {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
}

func places(b *testing.B, run func(b *testing.B, scheme string, other, replay bool)) {
	b.Run("inproc", func(b *testing.B) { run(b, "inproc", false, false) })
	b.Run("ipc", func(b *testing.B) { run(b, "ipc", false, false) })
	b.Run("ipc-processes", func(b *testing.B) { run(b, "ipc", true, false) })
	b.Run("ipc-processes-replay", func(b *testing.B) { run(b, "ipc", true, true) })
}

// BenchmarkRoundTrip is a message of 128 bytes there and back, handled in the
// reading goroutines of both ends.
func BenchmarkRoundTrip(b *testing.B) {
	b.Run("raw-socket-processes", benchRaw)
	places(b, func(b *testing.B, scheme string, other, replay bool) {
		h, l := benchLink(b, scheme, other, replay)
		h.pong = true
		h.left.Store(int64(b.N))
		b.ResetTimer()
		if err := l.Send(make([]byte, 128), nil); err != nil {
			b.Fatal(err)
		}
		<-h.done
	})
}

// BenchmarkRoundTripHop is the same with a channel between the reading
// goroutine and the one that sends, as a driver with an event loop has.
func BenchmarkRoundTripHop(b *testing.B) {
	places(b, func(b *testing.B, scheme string, other, replay bool) {
		h, l := benchLink(b, scheme, other, replay)
		h.hop = make(chan []byte, 16)
		head := make([]byte, 128)
		b.ResetTimer()
		for range b.N {
			if err := l.Send(head, nil); err != nil {
				b.Fatal(err)
			}
			<-h.hop
		}
	})
}

// BenchmarkOneWay sends messages of 128 bytes as fast as they go, each by
// itself or queued in batches of 64.
func BenchmarkOneWay(b *testing.B) {
	for _, batch := range []int{1, 64} {
		b.Run(map[int]string{1: "send", 64: "queue"}[batch], func(b *testing.B) {
			places(b, func(b *testing.B, scheme string, other, replay bool) { benchOneWay(b, batch, scheme, other, replay) })
		})
	}
}

func benchOneWay(b *testing.B, batch int, scheme string, other, replay bool) {
	h, l := benchLink(b, scheme, other, replay)
	body := []byte{} // with a body the peer does not answer
	head := make([]byte, 128)
	b.ResetTimer()
	for i := 0; i < b.N; {
		send := l.Queue
		if i%batch == batch-1 || i == b.N-1 {
			send = l.Send
		}
		switch err := send(head, body); {
		case err == nil:
			i++
		case errors.Is(err, ErrFull):
			l.Flush()
			<-h.credit
		default:
			b.Fatal(err)
		}
	}
	h.left.Store(1) // the answer to the last message says that all arrived
	for l.Send(head, nil) != nil {
		<-h.credit
	}
	<-h.done
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mmsg/s")
}

func benchRaw(b *testing.B) {
	path := socketFolder(b) + "/s"
	l, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		err = errors.Join(syscall.Bind(l, &syscall.SockaddrUnix{Name: path}), syscall.Listen(l, 1))
	}
	if err != nil {
		b.Fatal(err)
	}
	defer syscall.Close(l)
	child(b, "CASCADE_LINK_CHILD=raw", "CASCADE_LINK_RAW="+path)
	fd, _, err := syscall.Accept(l)
	if err != nil {
		b.Fatal(err)
	}
	defer syscall.Close(fd)
	body, buf := make([]byte, 128), make([]byte, 256)
	b.ResetTimer()
	for range b.N {
		if _, err := syscall.Write(fd, body); err != nil {
			b.Fatal(err)
		}
		if _, err := syscall.Read(fd, buf); err != nil {
			b.Fatal(err)
		}
	}
}
