package tune

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cascade-run/cascade/tune/core"
	"github.com/cascade-run/cascade/tune/journal"
)

// SocketFile is the name of the socket in the folder of an experiment on which its runner takes orders.
const SocketFile = "runner.sock"

// ErrNotRunning says that no process runs an experiment that has not ended.
var ErrNotRunning = errors.New("no process runs the experiment")

// stopRequest orders trials to stop; without any, the experiment.
type stopRequest struct {
	Trials []core.ID `json:"trials,omitempty"`
}

// Stopped is what came of an order to stop.
type Stopped struct {
	Trials []core.ID `json:"trials,omitempty"` // that were stopped; none when the experiment was
	Before []core.ID `json:"before,omitempty"` // trials that had ended, or were being stopped, before
	Ended  bool      `json:"ended,omitempty"`  // the experiment had ended, or was being stopped, before
	Error  string    `json:"error,omitempty"`
}

const controlTime = 30 * time.Second // for a request, and for its answer

// Stop stops the experiment that a process runs in a folder, or some of its trials. When it returns without an error the
// order is durable; trials end, and save what their rules say, soon after. A second order changes nothing.
func Stop(ctx context.Context, folder string, trials ...core.ID) (*Stopped, error) {
	s, err := ReadSpec(folder)
	if err != nil {
		return nil, err
	}
	answer, failed := askToStop(ctx, folder, trials)
	switch {
	case failed == nil && answer.Error != "":
		return nil, fmt.Errorf("stop %s: %s", s.Name, answer.Error)
	case failed == nil:
		return answer, nil
	}
	runs, err := journal.Busy(folder) // before its journal is read, which may end the experiment
	if err != nil {
		return nil, err
	}
	n, ended, err := journaled(folder)
	switch {
	case err != nil:
		return nil, err
	case !ended && runs:
		return nil, fmt.Errorf("stop %s: the process that runs it does not answer: run this on its host, or interrupt the process: %w", s.Name, failed)
	case !ended:
		return nil, fmt.Errorf("stop %s: %w: it was interrupted", s.Name, ErrNotRunning)
	}
	if err := known(trials, n); err != nil {
		return nil, fmt.Errorf("stop %s: %w", s.Name, err)
	}
	return &Stopped{Before: trials, Ended: true}, nil
}

func askToStop(ctx context.Context, folder string, trials []core.ID) (*Stopped, error) {
	path, release, err := socketPath(folder)
	if err != nil {
		return nil, err
	}
	defer release()
	conn, err := (&net.Dialer{Timeout: controlTime}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("reach its runner: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := conn.SetDeadline(time.Now().Add(controlTime)); err != nil {
		return nil, err
	}
	if err := json.NewEncoder(conn).Encode(stopRequest{trials}); err != nil {
		return nil, fmt.Errorf("ask its runner: %w", err)
	}
	var answer Stopped
	if err := json.NewDecoder(conn).Decode(&answer); err != nil {
		return nil, fmt.Errorf("read the answer of its runner: %w", err)
	}
	return &answer, nil
}

// journaled reads from the journal how many trials there are, and whether the experiment has ended.
func journaled(folder string) (trials int, ended bool, err error) {
	err = journal.Read(folder, func(r *journal.Record) error {
		trials += len(r.Event.Configs)
		if r.Event.Kind == core.Begun {
			ended = false
		}
		ended = ended || slices.ContainsFunc(r.Do, func(a core.Action) bool { return a.Kind == core.Finish })
		return nil
	})
	return trials, ended, err
}

func known(trials []core.ID, n int) error {
	for _, id := range trials {
		if id < 0 || int(id) >= n {
			return fmt.Errorf("the experiment has no trial %d, it has %d trials", id, n)
		}
	}
	return nil
}

// order is a request that waits for the loop.
type order struct {
	stopRequest
	answer chan<- *Stopped
}

// listen takes orders until the experiment ends. Without a socket it runs, too: the journal is locked, so that the file
// of a process that was killed is nothing but in the way.
func (x *Experiment) listen() {
	l, err := x.socket()
	if err != nil {
		x.log("cascade tune stop cannot reach this experiment: %v", err)
		return
	}
	x.aside.Go(func() {
		<-x.ctx.Done()
		if err := l.Close(); err != nil {
			x.log("close the socket of the experiment: %v", err)
		}
	})
	x.aside.Go(func() {
		for {
			conn, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				x.log("cascade tune stop cannot reach this experiment any more: accept: %v", err)
				return
			}
			x.aside.Go(func() { x.serve(conn) })
		}
	})
}

func (x *Experiment) socket() (net.Listener, error) {
	path, release, err := socketPath(x.folder)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		release()
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		release()
		return nil, err
	}
	made := &folderListener{l, release}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, made.Close())
	}
	return made, nil
}

// folderListener keeps the folder of its socket open: its path goes through it.
type folderListener struct {
	net.Listener
	release func()
}

func (l *folderListener) Close() error {
	defer l.release()
	return l.Listener.Close()
}

// serve answers one order.
func (x *Experiment) serve(conn net.Conn) {
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(controlTime)); err != nil {
		return // it is gone
	}
	defer context.AfterFunc(x.ctx, func() { _ = conn.SetReadDeadline(time.Now()) })() // one that says nothing holds no end up
	line, err := bufio.NewReader(io.LimitReader(conn, 1<<20)).ReadBytes('\n')
	if err != nil {
		return
	}
	answer := &Stopped{}
	o := order{}
	if err := json.Unmarshal(line, &o.stopRequest); err != nil {
		answer.Error = fmt.Sprintf("read the order: %v", err)
	} else {
		answered := make(chan *Stopped, 1)
		o.answer = answered
		select {
		case x.orders <- o:
			answer = <-answered
		case <-x.ctx.Done():
			return // it looks into the journal
		}
	}
	_ = json.NewEncoder(conn).Encode(answer) // one that is gone asks again
}

// obey carries an order out: it is durable before it is answered.
func (x *Experiment) obey(o order) error {
	a := &Stopped{}
	defer func() { o.answer <- a }()
	trials := x.core.Trials()
	if err := known(o.Trials, len(trials)); err != nil {
		a.Error = err.Error()
		return nil
	}
	a.Ended = x.core.Halted() != ""
	var events []core.Event
	if len(o.Trials) == 0 && !a.Ended {
		events = append(events, core.Event{Kind: core.Ordered, Order: core.OrderStop})
	}
	for _, id := range o.Trials {
		if t := trials[id]; t.Status.Final() || t.Phase == core.Draining {
			a.Before = append(a.Before, id)
			continue
		}
		a.Trials = append(a.Trials, id)
		events = append(events, core.Event{Kind: core.Ordered, Order: core.OrderStopTrial, Trial: id})
	}
	if len(events) == 0 {
		return nil
	}
	err := x.commit(events)
	if err != nil {
		a.Error = err.Error()
	}
	return err
}

// shortPath tells whether the path of a socket fits into an address.
func shortPath(path string) bool { return len(path) < 100 }

func directPath(folder string) string { return filepath.Join(folder, SocketFile) }
