//go:build linux

package cascade

import (
	"context"
	"errors"
	"testing"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/pki"
)

func TestLaunch(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		f    func(context.Context) error
		died bool // it tells, before it is ended
		err  error
	}{
		"runs until it is ended":           {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, false, nil},
		"runs until it is ended, and says": {func(ctx context.Context) error { <-ctx.Done(); return broken }, false, broken},
		"ends of its own accord":           {func(context.Context) error { return broken }, true, broken},
		"ends without a word":              {func(context.Context) error { return nil }, true, nil},
	} {
		died := make(chan error, 1)
		end := launch(c.f, died)
		if c.died {
			if err := <-died; c.err != nil && !errors.Is(err, c.err) || err == nil {
				t.Errorf("%s: told %v", name, err)
			}
		}
		if err := end(); !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", name, err, c.err)
		}
		if len(died) > 0 {
			t.Errorf("%s: told %v", name, <-died)
		}
	}
}

// mute takes every message and answers none.
type mute struct{ heard chan struct{} }

func (mute) Up(*comms.Link, comms.Identity, bool)  {}
func (m mute) Message(*comms.Link, []byte, []byte) { m.heard <- struct{}{} }
func (mute) Credit(*comms.Link)                    {}
func (mute) Down(*comms.Link, error)               {}

// When a part of the cluster dies in this process, who waits for an answer of the
// controller or of an agent is told why, and who asks later too.
func TestRequestsEndWithTheirCluster(t *testing.T) {
	net, heard := comms.NewInproc(), mute{make(chan struct{}, 8)}
	for _, name := range []string{"controller", "agent"} {
		l, err := comms.Listen("inproc://"+name, comms.Config{Self: comms.Identity{Role: name, Name: name, Incarnation: 1}, Replay: true, Handler: heard, Inproc: net})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	o := newOptions(nil)
	o.inproc = net
	ctrl, err := dialPeer(t.Context(), "inproc://controller", pki.RoleController, "", o)
	if err != nil {
		t.Fatal(err)
	}
	c := &Client{opts: o, ctrl: ctrl, agent: map[string]*peer{}}
	defer c.Close()
	agent, err := c.agentPeer(t.Context(), "agent", []string{"inproc://agent"})
	if err != nil {
		t.Fatal(err)
	}
	ends := make(chan error, 2)
	for _, p := range []*peer{ctrl, agent} {
		go func() {
			_, err := p.requests.one(t.Context(), func(req uint64) comms.Message { return &comms.HaveReq{Req: req} })
			ends <- err
		}()
		<-heard.heard
	}
	dead := errors.New("the agent is dead")
	c.giveUp(dead)
	for range 2 {
		if err := <-ends; !errors.Is(err, dead) {
			t.Errorf("a request that waits: %v", err)
		}
	}
	if _, err := c.agentPeer(t.Context(), "agent", []string{"inproc://agent"}); !errors.Is(err, dead) {
		t.Errorf("a link to the agent: %v", err)
	}
	if _, err := Rows[comms.AgentRow](t.Context(), c, comms.QueryAgents, comms.JobID{}, ""); !errors.Is(err, dead) {
		t.Errorf("a later request: %v", err)
	}
}
