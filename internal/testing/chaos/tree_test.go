//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cascade-run/cascade"
)

var treeTask cascade.Function1x1[treeSettings, float64] // it calls itself: see init

func init() { treeTask = cascade.Func1("chaos_tree", tree, "with -> sum") } //nolint:gochecknoinits // Go has no other place for a function that calls itself

type treeSettings struct {
	Depth int
	Seed  int
}

const (
	treeDepth = 3
	treeWidth = 3
	treeLines = 2 * (1 + 3 + 9 + 27) // of the tree alone: each inner task has three leaves, too
)

// tree puts a value, passes it to calls, calls itself, and adds up.
func tree(ctx context.Context, s treeSettings) (float64, error) {
	if err := Say(ctx, "start", ""); err != nil {
		return 0, err
	}
	if s.Depth == 0 {
		return float64(s.Seed), Say(ctx, "end", "")
	}
	value := cascade.Array[float64]{Shape: []int{2_000}, Data: make([]float64, 2_000)}
	for i := range value.Data {
		value.Data[i] = float64(s.Seed + i)
	}
	put, err := cascade.Put(ctx, value)
	if err != nil {
		return 0, err
	}
	var below []cascade.Future[float64]
	var leaves []cascade.Future[cascade.Array[float64]]
	for n := range treeWidth {
		below = append(below, treeTask.Go(ctx, cascade.Val(treeSettings{s.Depth - 1, 4*s.Seed + n})))
		leaves = append(leaves, leafTask.Go(ctx, put, cascade.Val(leafSettings{N: n})))
	}
	sums, err := cascade.GetAll(ctx, below)
	if err != nil {
		return 0, err
	}
	sum, err := addUp(ctx, leaves)
	for _, x := range sums {
		sum += x
	}
	return sum, errors.Join(err, Say(ctx, "end", ""))
}

const treeJob = `job: tree
tasks:
  tree: {run: chaos_tree, with: {depth: 3, seed: 1}, out: [sum]}
outputs: [tree.sum]
`

// freeze stops a process for a time that a heartbeat survives.
func freeze(t *testing.T, signal func(syscall.Signal)) {
	t.Helper()
	signal(syscall.SIGSTOP)
	time.Sleep(300 * time.Millisecond)
	signal(syscall.SIGCONT)
}

// signalTo sends signals to a process that may have ended.
func signalTo(t *testing.T, pid int) func(syscall.Signal) {
	return func(s syscall.Signal) {
		if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Error(err)
		}
	}
}

// atLine does something once, at the n-th line of the journal from now on.
func atLine(h *Host, n int, do func(Line)) (done <-chan struct{}) {
	over := make(chan struct{})
	var once sync.Once
	from := h.Journal.Len()
	h.Journal.On(func(at int, l Line) {
		if at >= from+n {
			once.Do(func() { do(l); close(over) })
		}
	})
	return over
}

// A tree of calls on two agents, whose tasks wait for each other: whatever is killed or stands still for a while in
// its middle, the sum is the same.
func TestCallTreesBroken(t *testing.T) {
	t.Parallel()
	h := New(t)
	controller := h.Controller()
	agents := []*Process{h.Agent("--cpu", "1"), h.SecondAgent("--cpu", "1")}
	start := []func(...string) *Process{h.Agent, h.SecondAgent}
	c := h.ReadyClient(2)
	want := h.Submit(c, treeJob, nil).Done().Data["tree.sum"]
	breaks := []string{"executor killed", "executor frozen", "agent killed", "agent frozen", "controller killed", "controller frozen"}
	for i := range rounds(len(breaks), 20*len(breaks)) {
		r := rand.New(rand.NewPCG(firstSeed(t)+uint64(i), 11))
		what, n, k := breaks[i%len(breaks)], 1+r.IntN(treeLines-2), r.IntN(2)
		over := atLine(h, n, func(l Line) {
			switch what {
			case "executor killed":
				signalTo(t, l.PID)(syscall.SIGKILL)
			case "executor frozen":
				freeze(t, signalTo(t, l.PID))
			case "agent killed":
				agents[k].Kill()
			case "agent frozen":
				freeze(t, agents[k].Signal)
			case "controller killed":
				controller.Kill()
			case "controller frozen":
				freeze(t, controller.Signal)
			}
		})
		j := h.Submit(c, treeJob, nil)
		<-over
		h.Journal.On(nil)
		switch what {
		case "agent killed":
			agents[k] = start[k]("--cpu", "1")
		case "controller killed":
			controller = h.Controller()
		}
		if got := j.Done().Data["tree.sum"]; !slices.Equal(got, want) {
			t.Errorf("round %d, %s at line %d: the sum is %q and not %q", i, what, n, got, want)
		}
		t.Logf("round %d: %s at line %d", i, what, n)
		if t.Failed() {
			t.Fatal(j.Story(""))
		}
		h.ReadyClient(2)
	}
}

// treeVar makes a program with sessionVar call the tree.
const treeVar = "CASCADE_CHAOS_TREE"

// treeProgram calls the tree in a session and prints the sum.
func treeProgram(s *cascade.Session) error {
	sum, err := treeTask.Go(s.Context(), cascade.Val(treeSettings{treeDepth, 1}), cascade.CallName("tree")).Get(s.Context())
	if err != nil {
		return err
	}
	fmt.Printf("sum %v.\n", sum)
	return s.Close(context.Background())
}

// The same from the program of a session: executors and the controller are killed, and the program, its agent and executors stand
// still for a while.
func TestSessionTreesBroken(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h := New(t)
	controller, agent := h.Controller(), h.Agent()
	h.ReadyClient(1)
	run := func(n int, broken func(*Process, Line)) string {
		started := make(chan *Process, 1)
		over := atLine(h, n, func(l Line) {
			if broken != nil {
				p := <-started
				broken(p, l)
			}
		})
		p := h.startWith(append(h.Env, sessionVar+"="+h.Address(), treeVar+"=1"), "program", self)
		started <- p
		<-over
		h.Journal.On(nil)
		if controller.Ended() {
			controller = h.Controller()
		}
		if code := p.Wait(); code != 0 {
			t.Fatalf("the program ended with %d:\n%s", code, p.Output())
		}
		_, sum, _ := strings.Cut(p.Output(), "sum ")
		return sum
	}
	want := run(1, nil)
	breaks := []string{"executor killed", "executor frozen", "program frozen", "agent frozen", "controller killed", "controller frozen"}
	for i := range rounds(len(breaks), 10*len(breaks)) {
		r := rand.New(rand.NewPCG(firstSeed(t)+uint64(i), 12))
		what, n := breaks[i%len(breaks)], 1+r.IntN(treeLines-2)
		got := run(n, func(p *Process, l Line) {
			switch what {
			case "executor killed":
				signalTo(t, l.PID)(syscall.SIGKILL)
			case "executor frozen":
				freeze(t, signalTo(t, l.PID))
			case "program frozen":
				freeze(t, p.Signal)
			case "agent frozen":
				freeze(t, agent.Signal)
			case "controller killed":
				controller.Kill()
			case "controller frozen":
				freeze(t, controller.Signal)
			}
		})
		if got != want || got == "" {
			t.Fatalf("round %d, %s at line %d: the sum is %q and not %q", i, what, n, got, want)
		}
	}
}
