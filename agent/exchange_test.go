//go:build linux

package agent

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/cascade-run/cascade/agent/core"
	"github.com/cascade-run/cascade/agent/transfer"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/inbox"
	"github.com/cascade-run/cascade/shm"
)

// TestOldPullLeavesNewerCopies: what a pull that was given up does late touches
// nothing that the exchange has by the same name since, and is answered once.
func TestOldPullLeavesNewerCopies(t *testing.T) {
	for _, free := range []bool{false, true} {
		t.Run(fmt.Sprintf("freed before its end is heard of %t", free), func(t *testing.T) {
			x, err := transfer.New(transfer.Config{Self: comms.Identity{Role: "agent", Name: "a"}, Listen: "tcp://127.0.0.1:0", InsecureTestNetwork: true})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := x.Close(); err != nil {
					t.Error(err)
				}
			}()
			a := &Agent{in: inbox.New[item](inboxLimit)}
			c := transfer.Copy{Attempt: 1}
			var answers []core.Event
			old := &pulling{copy: c, over: func(ev core.Event) { answers = append(answers, ev) }}
			l := &loop{agent: a, moving: exchanging{x: x, pulls: map[uint64]*pulling{1: old}, at: map[transfer.Copy]*pulling{c: old}, views: map[transfer.Copy]shm.Span{}}}

			l.stopPull(core.StopPull{Pull: 1})
			freed := func() { // the exchange says so
				for !old.free {
					<-a.in.Woken()
					for _, it := range a.in.Take(nil) {
						if it.note != nil {
							it.note()
						}
					}
				}
			}
			if free {
				freed()
			}
			if err := x.Offer(c, []byte("newer")); err != nil {
				t.Fatal(err)
			}
			l.pulled(1, old)
			l.stopPull(core.StopPull{Pull: 1})
			l.withdraw(core.Withdraw{Attempt: 1})
			if !free {
				freed()
			}
			if err := x.Offer(c, nil); !errors.Is(err, transfer.ErrBusy) {
				t.Errorf("the newer copy is gone: %v", err)
			}
			if want := []core.Event{core.Pulled{Pull: 1}}; !reflect.DeepEqual(answers, want) {
				t.Errorf("answers %+v, want %+v", answers, want)
			}
		})
	}
}
