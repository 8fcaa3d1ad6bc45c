package executor

import (
	"context"
	"runtime/debug"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade/comms"
)

func TestLeftover(t *testing.T) {
	small := make([]float64, 62)
	for i := range small {
		small[i] = 1 + float64(i)/60
	}
	for _, c := range []struct {
		name    string
		rests   []float64 // GiB after each run
		without float64   // garbage, at the end
		leaves  bool
	}{
		{"a leak", []float64{1, 1.3, 1.6, 1.9, 2.2}, 2.2, true},
		{"garbage", []float64{1, 1.3, 1.6, 1.9, 2.2}, 1.5, false},
		{"garbage, then a leak that is garbage in part", []float64{1, 1.3, 1.6, 1.9, 2.01, 2.2, 2.5}, 2.1, true},
		{"what is loaded once", []float64{0.1, 4, 4, 4.001, 4}, 4, false},
		{"as much as at first", []float64{4, 4.9, 4.2, 4.9, 4.9, 4.9}, 4.9, false},
		{"a leak in small steps", small, 2.02, true},
		{"little", slices.Repeat([]float64{0.1}, 1000), 0.1, false},
	} {
		l, last := leftover{limit: outgrown}, 0.0
		for _, rest := range c.rests {
			last = rest
			l.look(uint64(rest*(1<<30)), func() uint64 { return uint64(min(c.without, last) * (1 << 30)) })
		}
		if l.leaving != c.leaves {
			t.Errorf("%s: leaving is %t", c.name, l.leaving)
		}
	}
}

// kept is what runs of keep leave behind. It is no memory of Go's: what the race detector
// notes of that would count as well, and the process end too soon.
var kept [][]byte

func keep(_ context.Context, n int) (int, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return 0, err
	}
	for i := 0; i < n; i += 4096 {
		b[i] = 1
	}
	kept = append(kept, b)
	return len(kept), nil
}

// A process whose runs keep more and more gives the rest of its queue back and ends, but
// those that live on a value which is here.
func TestOutgrownProcessEnds(t *testing.T) {
	const piece, limit = 4 << 20, 32 << 20
	debug.FreeOSMemory() // what other tests left behind does not count
	t.Cleanup(func() {
		for _, b := range kept {
			if err := unix.Munmap(b); err != nil {
				t.Error(err)
			}
		}
		kept = nil
	})
	reg := testRegistry()
	func1(reg, "keep", keep, "n -> m")
	a := startExecutor(t, reg, comms.Welcome{})
	a.exec.left.limit = limit // the runner reads it when a run has ended
	kind := a.kind("keep", []string{"n"}, []string{"m"})
	var runs []comms.Run
	for range 100 {
		runs = append(runs, a.run(kind, inline(t, reg, piece)))
	}
	last := a.pathOf(a.run(kind, inline(t, reg, piece)), kind) // is given back whole
	a.dispatch(append(runs, last)...)
	if err := a.wait(); err != nil {
		t.Fatal(err)
	}
	answered := map[comms.RunID]bool{}
	done := 0
	for len(a.inbox) > 0 {
		var ids []comms.RunID
		switch m := (<-a.inbox).(type) {
		case *comms.Report:
			for _, it := range m.Items {
				if it.Kind == comms.ReportFinished {
					ids, done = append(ids, it.Run), done+1
				}
			}
		case *comms.Reclaimed:
			ids = m.Runs
		}
		for _, id := range ids {
			if answered[id] {
				t.Errorf("run %d is answered twice", id)
			}
			answered[id] = true
		}
	}
	// The limit is what is kept beyond the first run, so many pieces; a sample may come 5 ms late.
	if done <= limit/piece || done > len(runs) || len(answered) != len(runs)+2 {
		t.Errorf("%d runs were done, %d of %d answered", done, len(answered), len(runs)+2)
	}
}

// What is given back when a process has to end: no run that needs a value which is here.
func TestWholeRunsAreGivenUp(t *testing.T) {
	reg := testRegistry()
	e := New(Config{Registry: reg})
	e.kinds[1] = &kind{Kind: comms.Kind{ID: 1}}
	for _, r := range []comms.Run{{ID: 1, Kind: 1}, {ID: 2, Kind: 1, Inputs: []comms.RunInput{{Data: []comms.Desc{live(9)}}}}, {ID: 3, Kind: 1}} {
		n, err := e.newEntry(&r)
		if err != nil {
			t.Fatal(err)
		}
		e.queue.push(n)
		e.live.expect(n.run)
	}
	if back, _ := e.giveUp(); !slices.Equal(back, []comms.RunID{1, 3}) {
		t.Errorf("given up: %v", back)
	}
	if r, back := e.queue.pop(); r == nil || r.ID != 2 || len(back) > 0 {
		t.Errorf("it goes on with %+v, %v", r, back)
	}
}
