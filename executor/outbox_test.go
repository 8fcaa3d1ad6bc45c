package executor

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// script is a Conn that notes what it gets, and how.
type script []string

func (s *script) Send(m comms.Message) error  { return s.note("send", m) }
func (s *script) Queue(m comms.Message) error { return s.note("queue", m) }

func (s *script) note(how string, m comms.Message) error {
	n := 0
	if r, ok := m.(*comms.Report); ok {
		n = len(r.Items)
	}
	*s = append(*s, fmt.Sprintf("%s %T %d", how, m, n))
	return nil
}

// What is sent takes along what waits: the agent is woken once.
func TestOutboxWakesTheAgentOnce(t *testing.T) {
	var s script
	o := newOutbox(&s, func(err error) { t.Error(err) })
	item := comms.ReportItem{Kind: comms.ReportThrottled}
	o.join(item, time.Now())
	o.join(item, time.Now())
	o.send(&comms.LeaseReq{})
	for range maxBatch + 1 {
		o.join(item, time.Now())
	}
	o.flush()
	o.flush()
	want := script{"queue *comms.Report 2", "send *comms.LeaseReq 0", fmt.Sprintf("queue *comms.Report %d", maxBatch), "send *comms.Report 1"}
	if !slices.Equal(s, want) {
		t.Errorf("got %q, want %q", s, want)
	}
}
