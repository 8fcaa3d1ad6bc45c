//go:build linux

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
	exec "github.com/cascade-run/cascade/executor"
)

type fakeConn struct{ l *comms.Link }

func (c fakeConn) Send(m comms.Message) error {
	for {
		err := c.l.Send(comms.Encode(m), nil)
		if !errors.Is(err, comms.ErrFull) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

type execHandler struct {
	e     *exec.Executor
	ready chan struct{}
}

func (h *execHandler) Up(*comms.Link, comms.Identity, bool) {}
func (h *execHandler) Credit(*comms.Link)                   {}
func (h *execHandler) Down(_ *comms.Link, err error)        { <-h.ready; h.e.Broken(err) }
func (h *execHandler) Message(_ *comms.Link, head, _ []byte) {
	<-h.ready
	m, err := comms.Decode(head)
	if err != nil {
		panic(err)
	}
	h.e.Handle(m)
}

func tempMain() {
	signal.Ignore()
	h := &execHandler{ready: make(chan struct{})}
	l, err := comms.Dial(context.Background(), os.Getenv("CASCADE_EXECUTOR_ADDR"), comms.Config{
		Self: comms.Identity{Role: "executor", Name: "x" + os.Getenv("CASCADE_EXECUTOR_TOKEN"), Incarnation: 1, PID: os.Getpid()}, Handler: h})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	h.e = exec.New(exec.Config{Conn: fakeConn{l}, Token: os.Getenv("CASCADE_EXECUTOR_TOKEN"), PID: os.Getpid()})
	close(h.ready)
	err = h.e.Run()
	fmt.Fprintln(os.Stderr, "executor ends:", err)
	l.Close()
	os.Exit(0)
}

func TestMain(m *testing.M) {
	if os.Getenv("CASCADE_EXECUTOR_ADDR") != "" {
		tempMain()
	}
	if state := os.Getenv("CASCADE_TEST_AGENT"); state != "" {
		if err := runAgent(state); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}
