package controller

import (
	"fmt"
	"os"

	"github.com/rs/zerolog"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/internal/screen"
)

// audit is the audit log: a line of JSON for each request that changes something, with
// its outcome, and for the end of each job.
type audit struct {
	file *os.File
	log  zerolog.Logger
}

func openAudit(path string) (audit, error) {
	if path == "" {
		return audit{log: zerolog.Nop()}, nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return audit{}, fmt.Errorf("open the audit file: %w", err)
	}
	return audit{f, zerolog.New(screen.NewWriter(f)).With().Timestamp().Logger()}, nil
}

func (a *audit) close() error {
	if a.file == nil {
		return nil
	}
	return a.file.Close()
}

// by begins a line about what a peer did.
func (a *audit) by(p comms.Identity, what string) *zerolog.Event {
	who := p.Holder
	if who == "" {
		who = "local" // our user, over a Unix socket or from this process
	}
	return a.log.Log().Str("what", what).Str("who", who).Str("role", string(p.Grant)).Str("peer", p.Name)
}

// asked is a request whose outcome the audit tells.
type asked struct {
	what   string
	job    comms.JobID
	detail string
}

var steers = map[comms.SteerAction]string{
	comms.SteerCancel: "cancel", comms.SteerHold: "hold", comms.SteerRelease: "release",
	comms.SteerRerun: "rerun", comms.SteerForget: "forget",
}

// asks notes a request of which the audit tells when it is answered. c.turns is held.
func (c *Controller) asks(ev core.Received) {
	if c.audit.file == nil {
		return
	}
	p := c.peers[ev.Link]
	if p == nil || p.who.Role != "client" {
		return
	}
	var req uint64
	var a asked
	switch m := ev.Msg.(type) {
	case *comms.Submit:
		req, a = m.Req, asked{"submit", m.Job, m.Tenant}
	case *comms.Control:
		what, ok := steers[m.Action]
		if !ok {
			what = fmt.Sprintf("action %d", m.Action)
		}
		req, a = m.Req, asked{what, m.Job, m.Reason}
	case *comms.Drain:
		req, a = m.Req, asked{"drain " + m.Agent, comms.JobID{}, m.Reason}
	default:
		return
	}
	if p.asked == nil {
		p.asked = map[uint64]asked{}
	}
	p.asked[req] = a
}

// answers writes the line of a request that is answered. c.turns is held.
func (c *Controller) answers(p *peer, m comms.Message) {
	if len(p.asked) == 0 {
		return
	}
	var req uint64
	outcome := "done"
	switch m := m.(type) {
	case *comms.Accepted:
		req = m.Req
		if m.Again {
			outcome = "known already"
		}
	case *comms.Reply:
		req = m.Req
		if m.Code != comms.CodeOK {
			outcome = "refused: " + m.Message
		}
	default:
		return
	}
	a, ok := p.asked[req]
	if !ok {
		return
	}
	delete(p.asked, req)
	e := c.audit.by(p.who, a.what)
	if !a.job.IsZero() {
		e = e.Stringer("job", a.job)
	}
	switch {
	case a.what == "submit":
		e = e.Str("tenant", a.detail)
	case a.detail != "":
		e = e.Str("reason", a.detail)
	}
	e.Str("outcome", outcome).Send()
}
