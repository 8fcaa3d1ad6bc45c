package core

import (
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// Notices whose Assign does not come are bounded in bytes and in time: then the link
// is made anew, and all that counts is told again.
func TestEarlyNoticesAreBounded(t *testing.T) {
	at := time.Unix(1, 0)
	c := New(Config{Agent: "a"})
	early := func(bytes int) (reset []string, timer time.Time) {
		m := &comms.Notice{Job: comms.JobID{1}, Epoch: 1, Datasets: []comms.Desc{{Place: comms.Place{Kind: comms.PlaceInline, Bytes: make([]byte, bytes)}}}}
		for _, a := range c.Step(at, FromPeer{Agent: "b", Msg: m}) {
			switch a := a.(type) {
			case ResetPeer:
				reset = append(reset, a.Agent)
			case SetTimer:
				timer = a.At
			}
		}
		return reset, timer
	}
	if reset, timer := early(1000); reset != nil || !timer.Equal(at.Add(earlyFor)) {
		t.Errorf("after one notice %v is reset, and the timer is set to %v", reset, timer)
	}
	if reset, _ := early(earlyBytes); len(reset) != 1 || len(c.early) != 0 || c.earlyBytes != 0 {
		t.Errorf("after too many bytes %v is reset, and %d notices of %d bytes wait", reset, len(c.early), c.earlyBytes)
	}
	early(1000)
	at = at.Add(earlyFor)
	found := false
	for _, a := range c.Step(at, Tick{}) {
		r, ok := a.(ResetPeer)
		found = found || ok && r.Agent == "b"
	}
	if !found || len(c.early) != 0 {
		t.Errorf("after %v nothing is reset, and %d notices wait", earlyFor, len(c.early))
	}
}
