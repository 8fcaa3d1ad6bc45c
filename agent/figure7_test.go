//go:build linux

package agent

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cascade-run/cascade/agent/core"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	exec "github.com/cascade-run/cascade/executor"
)

var update = flag.Bool("update", false, "write golden files anew")

// plus adds numbers one by one.
func plus(ctx context.Context, a, b []float64) ([]float64, error) {
	c, err := exec.Alloc[float64](ctx, len(a))
	if err != nil {
		return nil, err
	}
	for i := range a {
		c.Data[i] = a[i] + b[i]
	}
	return c.Data, nil
}

// drive has its two inputs added where the resource far is, and returns the last of the sums.
func drive(ctx context.Context, _, _ []float64) (float64, error) {
	var args []any
	for _, name := range []string{"a", "b"} {
		f, err := exec.InputFuture(ctx, name)
		if err != nil {
			return 0, err
		}
		args = append(args, f)
	}
	fn, ok := exec.Default.Lookup("plus")
	if !ok {
		return 0, fmt.Errorf("no function plus")
	}
	c, err := fn.Go(ctx, exec.CallOptions{Resources: dag.Resources{Custom: map[string]int64{"far": 1000}}}, args...).Output(0).Get(ctx)
	if err != nil {
		return 0, err
	}
	all := exec.As[[]float64](c)
	return all[len(all)-1], nil
}

func register2[A, B, X any](name string, fn func(context.Context, A, B) (X, error), names string) bool {
	exec.Default.Register(&exec.Func{Name: name, Call: func(ctx context.Context, in, out []any) error {
		x, err := fn(ctx, exec.As[A](in[0]), exec.As[B](in[1]))
		out[0] = x
		return err
	}}, fn, names)
	return true
}

var _ = register2("plus", plus, "a, b -> c") && register2("drive", drive, "a, b -> last")

// recording is what the cores of two agents hear and say, from the first call to the end of its
// caller: messages, and transfers of datasets. What tells the controller of the past is left out.
type recording struct {
	mu      sync.Mutex
	on      bool
	parts   [2][]string       // of the figure
	counts  [2]map[string]int // messages, by who sent them to whom
	job     comms.JobID
	drivers map[string]bool // executors, by agent and number
	waits   chan struct{}   // closed when the driver waits
	met     chan struct{}   // closed when the host knows of the owner
	over    chan struct{}   // closed when the driver has ended
}

// figureNames are the names in the figure.
var figureNames = map[string]string{"host-a": "N1", "host-b": "N2"}

func (r *recording) watch(agent string) func(core.Event, []core.Action) {
	return func(ev core.Event, out []core.Action) {
		r.mu.Lock()
		defer r.mu.Unlock()
		me := figureNames[agent]
		switch ev := ev.(type) {
		case core.FromExecutor:
			if _, calls := ev.Msg.(*comms.Calls); calls {
				r.on, r.drivers[fmt.Sprint(me, ev.Executor)] = true, true
			}
			r.message(r.executor(me, ev.Executor), me, ev.Msg)
			r.note(me, ev)
		case core.FromController:
			r.message("controller", me, ev.Msg)
			if _, ok := ev.Msg.(*comms.Meet); ok {
				close(r.met)
			}
		}
		for _, a := range out {
			switch a := a.(type) {
			case core.ToExecutor:
				r.message(me, r.executor(me, a.Executor), a.Msg)
			case core.ToPeer:
				r.message(me, figureNames[a.Agent], a.Msg)
			case core.ToController:
				r.message(me, "controller", a.Msg)
			case core.Pull:
				r.transfer(figureNames[a.From[0]], me, a)
			}
		}
	}
}

// note closes the channels of what has happened.
func (r *recording) note(me string, ev core.FromExecutor) {
	switch m := ev.Msg.(type) {
	case *comms.CallWait:
		if m.Wait == 1 {
			close(r.waits)
		}
	case *comms.Report:
		finished := func(it comms.ReportItem) bool { return it.Kind == comms.ReportFinished }
		if r.drivers[fmt.Sprint(me, ev.Executor)] && slices.ContainsFunc(m.Items, finished) {
			r.on = false
			close(r.over)
		}
	}
}

func (r *recording) executor(agent string, n comms.ExecutorID) string {
	if r.drivers[fmt.Sprint(agent, n)] {
		return "driver"
	}
	return "worker"
}

func (r *recording) add(part int, from, to, format string, args ...any) {
	r.parts[part] = append(r.parts[part], fmt.Sprintf("%-10s -> %-10s  %s", from, to, fmt.Sprintf(format, args...)))
	if r.counts[part] == nil {
		r.counts[part] = map[string]int{}
	}
	r.counts[part][from+" -> "+to]++
}

// transfer notes that an agent fetches a dataset.
func (r *recording) transfer(from, to string, a core.Pull) {
	if !r.on {
		return
	}
	part, name := 1, "c"
	if a.Data.Job == r.job {
		part, name = 0, string(rune('a'+a.Data.Task))
	}
	r.add(part, from, to, "the %d bytes of %s, from memory to memory", a.Size, name)
}

// message notes a message of the figure. Those by which the driver gets the result are its part b.
func (r *recording) message(from, to string, m comms.Message) {
	if !r.on {
		return
	}
	switch m := m.(type) {
	case *comms.Calls:
		it := &m.Items[0]
		r.add(0, from, to, "Calls: %s of inputs %d and %d of the driver, which it passes on", m.Kinds[0].Function, it.Inputs[0].Input, it.Inputs[1].Input)
	case *comms.Where:
		if m.Calls > 0 {
			r.add(0, from, to, "Where: %d call that needs %s, whose inputs have %d bytes", m.Calls, m.Needs.Custom[0].Name, m.Bytes)
		}
	case *comms.Meet:
		r.add(0, from, to, "Meet: %s will grant calls", figureNames[m.Host.Agent])
	case *comms.There:
		r.add(0, from, to, "There: %d on %s", m.Hosts[0].Calls, figureNames[m.Hosts[0].Agent])
	case *comms.Grant:
		in := m.Tasks[0].Inputs
		r.add(0, from, to, "Grant %d: %s, which reads %c and %c", m.Tasks[0].Grant, m.Tasks[0].Name, 'a'+rune(in[0].Of.Task), 'a'+rune(in[1].Of.Task))
	case *comms.Dispatch:
		in := m.Runs[0].Inputs
		r.add(0, from, to, "Dispatch: %s, its inputs lie in %s and %s", m.Runs[0].Name, place(in[0].Data[0]), place(in[1].Data[0]))
	case *comms.Report:
		if it := &m.Items[0]; it.Kind == comms.ReportFinished && from == "worker" {
			r.add(0, from, to, "Report: finished, c lies in %s", place(it.Outputs[0]))
		}
	case *comms.CallWait:
		r.add(1, from, to, "CallWait %d: for %d end", m.Wait, m.N)
	case *comms.GrantReport:
		r.add(1, from, to, "GrantReport: grant %d has ended, c lies at %s", m.Items[0].Grant, figureNames[m.Items[0].Outputs[0].Place.Where])
	case *comms.CallEnds:
		if e := &m.Ends[0]; e.Read {
			r.add(1, from, to, "CallEnds: c lies in %s", place(e.Outputs[0]))
		} else {
			r.add(1, from, to, "CallEnds: call %d has ended, c lies at %s", e.Ref.Number, figureNames[e.Outputs[0].Place.Where])
		}
	case *comms.CallRead:
		r.add(1, from, to, "CallRead: c")
	case *comms.CallGo:
		r.add(1, from, to, "CallGo %d", m.Wait)
	case *comms.GrantEnd:
		r.add(1, from, to, "GrantEnd: grant %d", m.Grants[0])
	}
}

func place(d comms.Desc) string {
	if d.Place.Kind == comms.PlaceSegment {
		return "shared memory"
	}
	return fmt.Sprintf("a place of kind %d", d.Place.Kind)
}

func (r *recording) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	b.WriteString("# What two agents, a driver and a worker say, as recorded by TestFigure7 (go test -update).\n")
	for i, title := range []string{
		"a: the driver on N1 calls add(a, b). a was made on N1, b on N2; what runs add is on N2",
		"b: the driver gets c, which add returns",
	} {
		fmt.Fprintf(&b, "\n# %s\n%s\n", title, strings.Join(r.parts[i], "\n"))
		fmt.Fprintf(&b, "# %d in all:", len(r.parts[i]))
		for _, way := range slices.Sorted(maps.Keys(r.counts[i])) {
			fmt.Fprintf(&b, " %s %d,", way, r.counts[i][way])
		}
		b.WriteString("\n")
	}
	return strings.ReplaceAll(b.String(), ",\n", "\n")
}

// TestFigure7 records what figure 7 of the paper on Ray (Moritz et al., OSDI 2018) shows: a driver on one
// host has add(a, b) run, whose inputs were made on two, and gets the result.
func TestFigure7(t *testing.T) {
	r := &recording{drivers: map[string]bool{}, waits: make(chan struct{}), met: make(chan struct{}), over: make(chan struct{})}
	hosts := startPair(t, func(cfg *Config) {
		cfg.Warm, cfg.Unfused, cfg.watch = 2, true, r.watch(cfg.Name)
		if cfg.Name == "host-b" {
			cfg.Custom = []comms.Amount{{Name: "far", N: 1000}}
		}
	})
	jobs := spread(hosts, `
job: figure 7
tasks:
  a: {run: fill, with: {n: 100000}, out: [v]}
  b: {run: fill, with: {n: 100000}, out: [v]}
  driver: {run: drive, in: {a: a.v, b: b.v}, out: [last]}
outputs: [driver.last]
`, func(name string) int {
		if name == "b" {
			return 1
		}
		return 0
	})
	r.mu.Lock()
	r.job = jobs[0].id
	r.mu.Unlock()
	<-r.waits
	known := func(h *host) comms.Host {
		return comms.Host{Agent: h.agent.cfg.Name, Incarnation: h.agent.self.Incarnation, Addresses: strings.Split(h.agent.Addr(), ",")}
	}
	hosts[1].ctrl.send(&comms.Meet{Host: known(hosts[0])})
	<-r.met
	there := known(hosts[1])
	there.Calls = 1
	hosts[0].ctrl.send(&comms.There{Ask: 1, Hosts: []comms.Host{there}})
	<-r.over
	if got := jobs[0].ended(); !strings.Contains(got, "driver finished 1") {
		t.Errorf("the driver: %s", got)
	}
	e := jobs[0].event("driver", comms.EventCall)
	reads, err := comms.ReadEdges(e.Called.Reads)
	want := []comms.CallEdge{{Port: 0, From: comms.FromInput, Output: 0}, {Port: 1, From: comms.FromInput, Output: 1}}
	if e.CallText() != "driver/0 plus on host-b" || e.Executor == 0 || e.Usage == nil || err != nil || !slices.Equal(reads, want) {
		t.Errorf("the controller is told of %q on executor %d, %+v, %v", e.CallText(), e.Executor, reads, err)
	}
	const path = "testdata/figure7.txt"
	if *update {
		if err := os.WriteFile(path, []byte(r.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.String(); got != string(golden) {
		t.Errorf("the record differs (go test -update writes it):\n%s", got)
	}
}
