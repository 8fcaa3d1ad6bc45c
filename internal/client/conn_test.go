package client

import (
	"errors"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
)

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
	c, err := Dial(t.Context(), "inproc://controller", Config{Inproc: net, Patience: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	agent, err := c.agentPeer(t.Context(), "agent", []string{"inproc://agent"})
	if err != nil {
		t.Fatal(err)
	}
	ends := make(chan error, 2)
	for _, p := range []*peer{c.ctrl, agent} {
		go func() {
			_, err := p.requests.one(t.Context(), func(req uint64) comms.Message { return &comms.HaveReq{Req: req} })
			ends <- err
		}()
		<-heard.heard
	}
	dead := errors.New("the agent is dead")
	c.GiveUp(dead)
	for range 2 {
		if err := <-ends; !errors.Is(err, dead) {
			t.Errorf("a request that waits: %v", err)
		}
	}
	if _, err := c.agentPeer(t.Context(), "agent", []string{"inproc://agent"}); !errors.Is(err, dead) {
		t.Errorf("a link to the agent: %v", err)
	}
	if _, err := Rows[comms.AgentRow](t.Context(), c, comms.QueryAgents, comms.JobID{}, "", 0); !errors.Is(err, dead) {
		t.Errorf("a later request: %v", err)
	}
}
