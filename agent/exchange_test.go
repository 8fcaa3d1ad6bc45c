//go:build linux

package agent

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/cascade-run/cascade/agent/core"
	"github.com/cascade-run/cascade/agent/transfer"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/inbox"
	"github.com/cascade-run/cascade/shm"
	"github.com/cascade-run/cascade/shm/ledger"
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

// TestFlowsOfPulls: what was measured reaches the core however the pull ended that
// brings it, before the pull's own end.
func TestFlowsOfPulls(t *testing.T) {
	flows := []comms.Flow{{From: "b", Bytes: 1 << 20, Pieces: 1, Nanos: 1e6}}
	for _, c := range []struct {
		how  string
		end  transfer.Ended
		want []core.Event
	}{
		{"well", transfer.Ended{Flows: flows}, []core.Event{core.Flowed{Flows: flows}, core.Pulled{Pull: 1}}},
		{"failed", transfer.Ended{Flows: flows, Err: errors.New("b is gone")}, []core.Event{core.Flowed{Flows: flows}, core.PullFailed{Pull: 1, Err: "b is gone"}}},
		{"without flows", transfer.Ended{}, []core.Event{core.Pulled{Pull: 1}}},
	} {
		t.Run(c.how, func(t *testing.T) {
			a := &Agent{in: inbox.New[item](inboxLimit)}
			l := &loop{agent: a}
			p := &pulling{free: true, over: func(ev core.Event) { a.in.Push(item{ev: ev}) }}
			l.ended(1, p, &c.end)
			var got []core.Event
			for all := a.in.Take(nil); len(all) > 0; all = a.in.Take(nil) {
				for _, it := range all {
					if it.note != nil {
						it.note()
					}
					if it.ev != nil {
						got = append(got, it.ev)
					}
				}
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("the core hears %+v, want %+v", got, c.want)
			}
		})
	}
}

// TestRecycledFileStaysMapped: what the agent has mapped of a file that is given to the next dataset is there for that
// one's transfer, unless the file gets another size.
func TestRecycledFileStaysMapped(t *testing.T) {
	store, err := shm.OpenStore(shm.Options{Root: t.TempDir(), Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	var lanes sync.WaitGroup
	a := &Agent{in: inbox.New[item](inboxLimit), store: store}
	a.segmentLane.all = &lanes
	path := store.Path(ledger.File, 1)
	l := &loop{agent: a, segments: map[uint64]string{1: path}}
	l.moving.open(a)
	defer func() {
		if err := errors.Join(l.moving.close(), store.Close()); err != nil {
			t.Error(err)
		}
	}()
	const size = 1 << 20
	if err := store.Create(1, ledger.File, size); err != nil {
		t.Fatal(err)
	}
	lease, _, err := l.moving.writable(path, 0, size)
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		bytes  int64
		mapped int
	}{{size, 1}, {size / 2, 0}} {
		busy := make(chan struct{})
		a.segmentLane.do(func() { <-busy }) // or the core would be told, which this loop lacks
		l.memory(core.Memory{Effect: ledger.ResizeSegment{Segment: 1, Bytes: c.bytes}})
		close(busy)
		lanes.Wait()
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(string(maps), " "+path+"\n"); got != c.mapped {
			t.Errorf("resized to %d bytes: %d mappings, want %d", c.bytes, got, c.mapped)
		}
	}
}
