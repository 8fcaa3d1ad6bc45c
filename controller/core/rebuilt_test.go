package core

import (
	"runtime"
	"slices"
	"testing"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// A task says what it has read, or does not: because an executor was at fault that it was
// tried again, because what it read had no hash, or because it did not run in this job. What it
// reads is published by a first attempt or not at all, and then by a second one.
func TestReadersThatSayNothing(t *testing.T) {
	g := mustParse(t, `
job: j
environments: {e: {go: ./e}}
tasks:
  a: {run: "e:F", out: [x]}
  b: {run: "e:F", in: {x: a.x}, out: [x]}
`)
	made := func(attempt uint32, bytes string) *comms.Event {
		d := comms.Desc{Attempt: attempt, Place: comms.Place{Kind: comms.PlaceSegment}}
		if bytes != "" {
			d.Hash = comms.HashOf([]byte(bytes))
		}
		return &comms.Event{Kind: comms.EventFinished, Attempt: attempt, Executor: 1, Outputs: []comms.Desc{d}}
	}
	out := []comms.Desc{{Ref: comms.DatasetRef{Task: 1}, Attempt: 1, Place: comms.Place{Kind: comms.PlaceInline}}}
	ran := &comms.Event{Kind: comms.EventFinished, Task: 1, Attempt: 1, Executor: 1, Outputs: out, Cause: comms.Cause{Kind: comms.CauseRun}}
	crashed := &comms.Event{Kind: comms.EventFinished, Task: 1, Attempt: 1, Executor: 2, Outputs: out, Cause: comms.Cause{Kind: comms.CauseExecutor, Number: 1}}
	taken := &comms.Event{Kind: comms.EventFinished, Task: 1, Attempt: 1, Outputs: out, Cause: comms.Cause{Text: "taken from another job"}}
	for _, c := range []struct {
		name   string
		events []*comms.Event
		want   bool
	}{
		{"other bytes", []*comms.Event{made(1, "one"), crashed, made(2, "two")}, true},
		{"the same", []*comms.Event{made(1, "one"), crashed, made(2, "one")}, false},
		{"a hash now", []*comms.Event{made(1, ""), ran, made(2, "two")}, true},
		{"never a hash", []*comms.Event{made(1, ""), ran, made(2, "")}, false},
		{"not heard before", []*comms.Event{crashed, made(2, "two")}, true},
		{"taken from another job", []*comms.Event{taken, made(2, "two")}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := NewStates(g)
			for _, e := range c.events {
				if e.Task == 0 && e.Attempt > 1 && s.get(0) == TaskDone {
					s.Reset([]comms.Range{{}}, 1)
					s.epoch = 1
					_, e.Attempt = s.Get(0)
					e.Outputs[0].Attempt = e.Attempt
				}
				s.Apply(e)
			}
			var want []dag.TaskIndex
			if c.want {
				want = []dag.TaskIndex{1}
			}
			if got := s.Outdated(); !slices.Equal(got, want) {
				t.Errorf("%v have read what is gone, want %v", got, want)
			}
		})
	}
}

// Sums of elements and of further outputs take little more than their eight bytes.
func TestSumsTakeLittle(t *testing.T) {
	const n = 1 << 17
	var l lineage
	at := func(i int) comms.DatasetRef {
		if i < n {
			return comms.DatasetRef{Task: 7, Output: 1, Element: uint64(i)} // a stream
		}
		return comms.DatasetRef{Task: dag.TaskIndex(i), Output: 2} // the third output of each task
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 2 * n {
		l.setSum(at(i), uint64(i)+1)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if each := float64(after.HeapAlloc-before.HeapAlloc) / (2 * n); each > 12 {
		t.Errorf("a sum takes %.1f bytes, want at most 12", each)
	}
	for i := range 2 * n {
		if got := l.sum(at(i)); got != uint64(i)+1 {
			t.Fatalf("the sum of %+v is %d, want %d", at(i), got, i+1)
		}
	}
	l.setSum(at(5), 0)
	l.setSum(at(n+5), 0)
	if l.sum(at(5)) != 0 || l.sum(at(n+5)) != 0 || l.sum(at(6)) == 0 {
		t.Error("a sum that was taken away is there, or another is not")
	}
}
