package core

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/pq"
	"github.com/cascade-run/cascade/shm/ledger"
)

// reading is a task of TestFetchedInOrderOfNeed: what it reads of the far tasks, and
// whether it waits for another, of which nothing is known at first.
type reading struct {
	far      []int
	waits    bool
	priority int
	rank     float64
}

func randomReadings(t *rapid.T, far int) []reading {
	all := make([]reading, rapid.IntRange(1, 12).Draw(t, "tasks"))
	for i := range all {
		all[i] = reading{
			far:      rapid.SliceOfNDistinct(rapid.IntRange(0, far-1), 1, 3, rapid.ID[int]).Draw(t, "reads"),
			waits:    rapid.Bool().Draw(t, "waits"),
			priority: rapid.IntRange(0, 1).Draw(t, "priority"),
			rank:     float64(rapid.IntRange(0, 4).Draw(t, "rank")),
		}
	}
	return all
}

// readingsJob is far tasks, the one that others wait for, and those.
func readingsJob(far int, all []reading) string {
	var b strings.Builder
	fmt.Fprintf(&b, "job: readings\ntasks:\n  f: {for: {i: \"0..%d\"}, run: F, out: [x]}\n  gate: {run: F, out: [x]}\n", far-1)
	for i, r := range all {
		var in []string
		for _, f := range r.far {
			in = append(in, fmt.Sprintf("x%d: \"f[%d].x\"", f, f))
		}
		if r.waits {
			in = append(in, "g: gate.x")
		}
		fmt.Fprintf(&b, "  t%d: {run: F, priority: %d, in: {%s}, out: [x]}\n", i, r.priority, strings.Join(in, ", "))
	}
	return b.String()
}

// neededFirst is the far task of those left that is needed first, found one by one.
func neededFirst(all []reading, left map[int]bool, open bool) int {
	best, found := need{}, -1
	for f := range left {
		for i, r := range all {
			if !slices.Contains(r.far, f) {
				continue
			}
			n := need{neededNext, r.priority, r.rank, taskIndex(i)}
			if r.waits && !open {
				n.urgency = neededLater
			}
			if found < 0 || n.before(best) || n == best && f < found {
				best, found = n, f
			}
		}
	}
	return found
}

// TestFetchedInOrderOfNeed has random tasks read what others have made elsewhere, of
// which a few are fetched at a time. Whenever one more is asked for, it is the one that is
// needed first, also when ranks change and when what tasks wait for comes.
func TestFetchedInOrderOfNeed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		far := rapid.IntRange(1, 20).Draw(t, "far")
		all := randomReadings(t, far)
		g, err := dag.ParseYAML("job.yaml", []byte(readingsJob(far, all)), dag.Override{}, dag.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c := New(Config{Agent: "a", Total: comms.Resources{CPU: 1000, Memory: 1 << 30}, Memory: 1 << 30})
		now, last, open := time.Unix(1000, 0), uint64(0), false
		left := map[int]bool{}
		for _, r := range all {
			for _, f := range r.far {
				left[f] = true
			}
		}
		step := func(ev Event) {
			t.Helper()
			for inbox := []Event{ev}; len(inbox) > 0; inbox = inbox[1:] {
				now = now.Add(time.Microsecond)
				for _, a := range c.Step(now, inbox[0]) {
					if m, ok := a.(Memory); ok {
						if s, ok := m.Effect.(ledger.CreateSegment); ok {
							inbox = append(inbox, SegmentReady{Segment: uint64(s.Segment), Path: "/s"})
						}
					}
				}
				for ; c.pulls[last+1] != nil; last++ {
					got, want := int(c.pulls[last+1].h.desc.Ref.Task), neededFirst(all, left, open)
					if got != want {
						t.Fatalf("%d is fetched, %d is needed first", got, want)
					}
					delete(left, got)
				}
				if err := c.Check(); err != nil {
					t.Fatal(err)
				}
			}
		}
		ranks := func() []byte {
			of := make([]float64, g.NumTasks())
			for i, r := range all {
				of[far+1+i] = r.rank
			}
			return comms.AppendRanks(nil, of)
		}
		n := taskIndex(g.NumTasks())
		m := &comms.Assign{Job: comms.JobID{1}, Epoch: 1, Run: []comms.Range{{First: taskIndex(far + 1), Last: n - 1}}, Ranks: ranks(),
			Ended: []comms.Ended{{First: 0, Last: taskIndex(far - 1), How: comms.OutcomeDone}},
			Peers: []comms.Assignment{{Agent: "b", Run: []comms.Range{{First: taskIndex(far), Last: taskIndex(far)}}}}}
		for f := range far {
			m.Datasets = append(m.Datasets, comms.Desc{Ref: comms.DatasetRef{Task: taskIndex(f)}, Attempt: 1, Size: 50 << 20,
				Place: comms.Place{Kind: comms.PlaceAgent, Where: "b"}})
		}
		step(ControllerUp{})
		step(FromController{Msg: m, Graph: g})
		for len(left) > 0 {
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				for i := range all {
					all[i].rank = float64(rapid.IntRange(0, 4).Draw(t, "rank"))
				}
				step(FromController{Msg: &comms.Steer{Job: m.Job, Action: comms.SteerRank, Epoch: 1, Ranks: ranks()}})
			case 1:
				open = true
				step(FromPeer{Agent: "b", Msg: &comms.Notice{Job: m.Job, Epoch: 1, Datasets: []comms.Desc{{Ref: comms.DatasetRef{Task: taskIndex(far)}, Attempt: 1,
					Place: comms.Place{Kind: comms.PlaceInline, Bytes: []byte("x")}}}}})
			default:
				ids := sentPulls(c)
				step(Pulled{Pull: ids[rapid.IntRange(0, len(ids)-1).Draw(t, "which")]})
			}
		}
	})
}

func sentPulls(c *Core) (ids []uint64) {
	for id, p := range c.pulls {
		if p.sent {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// BenchmarkPrefetch lets a job run in its own time: four executors, and a link that
// brings one dataset after the other. The job reads 200 datasets of 10 MB, which take a
// tenth of a second each, in tasks of four tenths of a second. At first all are told that only
// tasks read which wait for one of ten seconds, too; of the others those come last on which
// most follows. It reports how long the job takes in that time, and what a dataset
// costs in ours.
func BenchmarkPrefetch(b *testing.B) {
	g := graph(b, `
job: prefetch
tasks:
  f: {for: {i: "0..199"}, run: F, out: [x]}
  slow: {run: F, out: [x]}
  wide: {for: {i: "0..99"}, run: F, in: {x: "f[${i}].x", y: slow.x}, out: [x]}
  short: {for: {i: "0..49"}, run: F, in: {x: "f[${i+100}].x"}, out: [x]}
  long: {for: {i: "0..49"}, run: F, in: {x: "f[${i+150}].x"}, out: [x]}
  after: {for: {i: "0..49"}, run: F, in: {x: "long[${i}].x"}, out: [x]}
`)
	const far, slow, wide, short, long, after = 200, 200, 201, 301, 351, 401
	rank := make([]float64, g.NumTasks())
	for i := range rank {
		switch {
		case i == slow:
			rank[i] = 10.4
		case i >= long && i < after:
			rank[i] = 0.8
		default:
			rank[i] = 0.4
		}
	}
	var took time.Duration
	for range b.N {
		d := &timedHost{now: time.Unix(1000, 0), took: func(t taskIndex) time.Duration {
			if t == slow {
				return 10 * time.Second
			}
			return 400 * time.Millisecond
		}}
		d.c = New(Config{Agent: "a", Total: comms.Resources{CPU: 4000, Memory: 1 << 30}, Memory: 4 << 30, Warm: 4})
		m := &comms.Assign{Job: comms.JobID{1}, Epoch: 1, Run: []comms.Range{{First: slow, Last: taskIndex(g.NumTasks() - 1)}}, Ranks: comms.AppendRanks(nil, rank),
			Seconds: []float64{0.4, 10, 0.4, 0.4, 0.4, 0.4},
			Ended:   []comms.Ended{{First: 0, Last: far - 1, How: comms.OutcomeDone}}, Peers: []comms.Assignment{{Agent: "b"}}}
		for i := range taskIndex(far) {
			m.Datasets = append(m.Datasets, comms.Desc{Ref: comms.DatasetRef{Task: i}, Attempt: 1, Size: 10e6, Place: comms.Place{Kind: comms.PlaceAgent, Where: "b"}})
		}
		start := d.now
		d.step(ControllerUp{})
		d.step(Idle{})
		d.step(FromController{Msg: m, Graph: g})
		d.run()
		if want := g.NumTasks() - far; d.finished != want {
			b.Fatalf("%d tasks finished, want %d", d.finished, want)
		}
		took = d.end.Sub(start)
	}
	b.ReportMetric(took.Seconds(), "job-s")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/far, "ns/dataset")
}

// timedHost answers actions when what they ask for would be done: runs of one executor,
// and fetches, take their time one after the other.
type timedHost struct {
	c        *Core
	now, end time.Time
	inbox    pq.Queue[due, dueOrder]
	sent     int // events put into inbox
	took     func(taskIndex) time.Duration
	link     time.Time // when it is free
	execs    map[comms.ExecutorID]time.Time
	finished int
}

type due struct {
	at time.Time
	n  int
	ev Event
}

type dueOrder struct{ pq.Unplaced[due] }

func (dueOrder) Before(a, b due) bool { return cmp.Or(a.at.Compare(b.at), a.n-b.n) < 0 }

func (d *timedHost) later(at time.Time, ev Event) {
	d.sent++
	d.inbox.Push(due{at, d.sent, ev})
}

func (d *timedHost) run() {
	for d.inbox.Len() > 0 {
		e := d.inbox.Pop()
		d.now = e.at
		if p, ok := e.ev.(Pulled); ok && d.c.pulls[p.Pull] == nil {
			continue
		}
		d.step(e.ev)
		if d.inbox.Len() == 0 || d.inbox.First().at.After(d.now) {
			d.step(Idle{})
		}
	}
}

func (d *timedHost) step(ev Event) {
	for _, a := range d.c.Step(d.now, ev) {
		switch a := a.(type) {
		case Spawn:
			d.later(d.now, Spawned{Executor: a.Executor})
			d.later(d.now, FromExecutor{a.Executor, &comms.Hello{Functions: []comms.FuncSig{{Name: "F"}}}})
		case Memory:
			switch e := a.Effect.(type) {
			case ledger.CreateSegment:
				d.later(d.now, SegmentReady{Segment: uint64(e.Segment), Path: "/s"})
			case ledger.ResizeSegment:
				d.later(d.now, SegmentReady{Segment: uint64(e.Segment), Path: "/s"})
			}
		case SetTimer:
			if !a.At.IsZero() {
				d.later(a.At, Tick{})
			}
		case Pull:
			if d.link.Before(d.now) {
				d.link = d.now
			}
			d.link = d.link.Add(time.Duration(a.Size) * 10) // 100 MB a second
			d.later(d.link, Pulled{Pull: a.ID})
		case ToExecutor:
			if m, ok := a.Msg.(*comms.Dispatch); ok {
				d.runAll(a.Executor, m)
			}
		case ToController:
			if m, ok := a.Msg.(*comms.Events); ok {
				n := m.First - 1
				for _, j := range m.Jobs {
					n += uint64(len(j.Events))
				}
				d.later(d.now, FromController{Msg: &comms.Committed{UpTo: n}})
			}
		}
	}
}

func (d *timedHost) runAll(ex comms.ExecutorID, m *comms.Dispatch) {
	if d.execs == nil {
		d.execs = map[comms.ExecutorID]time.Time{}
	}
	for i := range m.Runs {
		runs, err := m.Runs[i].All()
		if err != nil {
			panic(err)
		}
		for k := range runs {
			start := d.execs[ex]
			if start.Before(d.now) {
				start = d.now
			}
			took := d.took(runs[k].Task)
			d.end = start.Add(took)
			d.execs[ex] = d.end
			d.finished++
			d.later(start, FromExecutor{ex, &comms.Report{Items: []comms.ReportItem{{Kind: comms.ReportStarted, Run: runs[k].ID}}}})
			d.later(d.end, FromExecutor{ex, &comms.Report{Items: []comms.ReportItem{{Kind: comms.ReportFinished, Run: runs[k].ID, Usage: &comms.Usage{Duration: int64(took)},
				Outputs: []comms.Desc{{Place: comms.Place{Kind: comms.PlaceInline, Bytes: []byte{1}}, Size: 1}}}}}})
		}
	}
}
