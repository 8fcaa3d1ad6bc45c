package core

import (
	"testing"

	"github.com/cascade-run/cascade/comms"
)

// An executor that gets no work is told of kinds to forget when they are many.
func TestClosingIsBounded(t *testing.T) {
	c := New(Config{})
	ex := &executor{id: 1, kinds: map[uint32]bool{}}
	c.execs = []*executor{ex}
	for id := uint32(1); id <= maxClosing; id++ {
		if len(c.out) > 0 {
			t.Fatalf("%d messages after %d kinds", len(c.out), id-1)
		}
		ex.kinds[id] = true
		c.closeKinds(&job{groups: []groupState{{kind: &comms.Kind{ID: id}}}})
		c.closeKinds(&job{groups: []groupState{{kind: &comms.Kind{ID: id}}}}) // known no more: nothing to close
	}
	if len(c.out) != maxClosing || len(ex.closing) > 0 || len(ex.kinds) > 0 {
		t.Errorf("%d messages, %d kinds wait, %d are known", len(c.out), len(ex.closing), len(ex.kinds))
	}
	if k, ok := c.out[0].(ToExecutor).Msg.(*comms.Kind); !ok || k.ID != 1 || !k.Close {
		t.Errorf("the first message is %+v", c.out[0])
	}
}
