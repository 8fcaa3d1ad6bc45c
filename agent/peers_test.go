//go:build linux

package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// startPair starts two agents that can run fragments of one job.
func startPair(t testing.TB, change func(*Config)) [2]*host {
	t.Helper()
	var hosts [2]*host
	for i, name := range []string{"host-a", "host-b"} {
		hosts[i] = startHost(t, func(cfg *Config) {
			cfg.Name = name
			if change != nil {
				change(cfg)
			}
		})
	}
	return hosts
}

// spread gives each agent the tasks for which on says its number.
func spread(hosts [2]*host, yaml string, on func(name string) int) [2]*job {
	t := hosts[0].t
	t.Helper()
	whole := hosts[0].prepare(yaml)
	var run [2][]comms.Range
	for i := range whole.graph.NumTasks() {
		k := dag.TaskIndex(i)
		at := on(whole.graph.TaskName(k))
		run[at] = append(run[at], comms.Range{First: k, Last: k})
	}
	var jobs [2]*job
	for i, h := range hosts {
		jobs[i] = &job{h, whole.id, whole.graph}
		other := hosts[1-i].agent
		h.ctrl.send(&comms.Assign{Job: whole.id, Epoch: 1, Graph: whole.graph.Encode(), Dir: h.dir, Run: run[i],
			Peers: []comms.Assignment{{Agent: other.cfg.Name, Incarnation: other.self.Incarnation, Addresses: strings.Split(other.Addr(), ","), Run: run[1-i]}}})
	}
	return jobs
}

// TestChainOverTwoAgents: no message of a controller lies between two steps, and
// what was fetched for a step is freed on both sides.
func TestChainOverTwoAgents(t *testing.T) {
	hosts := startPair(t, nil)
	var yaml strings.Builder
	yaml.WriteString("job: chain\ntasks:\n  t0: {run: one, with: {n: 1}, out: [n]}\n  t1: {run: double, in: {n: t0.n}, out: [n2]}\n")
	for i := 2; i <= 20; i++ {
		fmt.Fprintf(&yaml, "  t%d: {run: double, in: {n: t%d.n2}, out: [n2]}\n", i, i-1)
	}
	yaml.WriteString("outputs: [t20.n2]\n")
	jobs := spread(hosts, yaml.String(), func(name string) int {
		var n int
		fmt.Sscanf(name, "t%d", &n)
		return n % 2
	})
	for _, j := range jobs {
		if got := j.ended(); strings.Contains(got, "skipped") || strings.Contains(got, "failed") {
			t.Fatalf("on %s: %s", j.host.agent.cfg.Name, got)
		}
	}
	if got := hosts[0].bytes(jobs[0].id, jobs[0].output("t20")); string(got) != string(hosts[0].expect(1<<20)) {
		t.Errorf("t20 is %x", got)
	}
}

// expect returns the bytes of a result of the function one.
func (h *host) expect(n int) []byte {
	h.t.Helper()
	j := h.submit(fmt.Sprintf("job: expected\ntasks: {t: {run: one, with: {n: %d}, out: [n]}}\noutputs: [t.n]\n", n))
	return h.bytes(j.id, j.output("t"))
}

// TestLargeDatasetsBetweenAgents: arrays come from memory and from spill files of
// an agent that has room for a few of them only, to one that has not much more.
func TestLargeDatasetsBetweenAgents(t *testing.T) {
	for _, listen := range []string{"", "tcp://127.0.0.1:0"} {
		t.Run("listen "+listen, func(t *testing.T) { largeDatasets(t, listen) })
	}
}

func largeDatasets(t *testing.T, listen string) {
	hosts := startPair(t, func(cfg *Config) { cfg.Store, cfg.Listen, cfg.InsecureTestNetwork = 20<<20, listen, listen != "" })
	const n, arrays = 1 << 19, 8
	jobs := spread(hosts, fmt.Sprintf(`
job: arrays
tasks:
  fill: {for: {i: "1..%d"}, run: fill, with: {n: %d}, out: [v]}
  add: {for: {i: "1..%d"}, run: add, in: {v: "fill[${i}].v"}, out: [sum]}
outputs: ["add[*].sum"]
`, arrays, n, arrays), func(name string) int {
		if strings.HasPrefix(name, "fill") {
			return 0
		}
		return 1
	})
	if got, want := jobs[1].ended(), "add[1] finished 1"; !strings.Contains(got, want) || strings.Contains(got, "failed") {
		t.Fatalf("host-b: %s", got)
	}
	hosts[1].measured("host-a", n*8) // of one array at least: what is given up for want of memory is not measured
	jobs[0].drained()
	hosts[1].shows("cascade_agent_fetched_bytes_total", "", n*8*arrays)
	hosts[1].shows("cascade_agent_fetches_total", "done", arrays)
	hosts[0].shows("cascade_agent_served_bytes_total", "", n*8*(arrays-1)) // of the last one it may not have heard that all has left
	alone := hosts[0].fillAndAdd(n)
	want := string(hosts[0].bytes(alone.id, alone.output("add")))
	for i := range arrays {
		if got := string(hosts[1].bytes(jobs[1].id, jobs[1].output(fmt.Sprintf("add[%d]", i+1)))); got != want {
			t.Errorf("sum %d is %x, want %x", i+1, got, want)
		}
	}
}

// shows fails when the agent shows Prometheus less than that.
func (h *host) shows(name, label string, least float64) {
	h.t.Helper()
	for _, m := range h.agent.Measures() {
		if m.Name == name && m.Label[1] == label {
			if got := m.Read(); got < least {
				h.t.Errorf("%s of %s %s: %v, want %v or more", name, h.agent.cfg.Name, label, got, least)
			}
			return
		}
	}
	h.t.Errorf("no metric %s %s", name, label)
}

// measured fails when the agent told of other flows than those from one other agent,
// or not of so many bytes.
func (h *host) measured(from string, bytes uint64) {
	h.t.Helper()
	h.ctrl.mu.Lock()
	defer h.ctrl.mu.Unlock()
	for _, f := range h.ctrl.flows {
		if f.From != from || f.Nanos == 0 || f.Pieces == 0 || f.Beside > 0 || f.Others > 0 {
			h.t.Errorf("flow %+v", f)
		}
		bytes -= min(f.Bytes, bytes)
	}
	if bytes > 0 {
		h.t.Errorf("%d bytes were not measured: %+v", bytes, h.ctrl.flows)
	}
}

// TestLinkBetweenAgentsBreaks: links that end while a job runs lose nothing.
func TestLinkBetweenAgentsBreaks(t *testing.T) {
	hosts := startPair(t, nil)
	jobs := spread(hosts, `
job: waves
tasks:
  first: {for: {i: "0..63"}, run: one, with: {n: "${i}"}, out: [n]}
  second: {for: {i: "0..63"}, run: double, in: {n: "first[${i}].n"}, out: [n2]}
  third: {for: {i: "0..63"}, run: double, in: {n: "second[${i}].n2"}, out: [n2]}
outputs: ["third[*].n2"]
`, func(name string) int {
		if strings.HasPrefix(name, "second") {
			return 1
		}
		return 0
	})
	for i := range 5 {
		jobs[1].event(fmt.Sprintf("second[%d]", 3+10*i), comms.EventFinished)
		h := hosts[i%2]
		h.agent.in.Push(item{note: func() {
			for _, p := range h.agent.loop.peers {
				if p.out.link != nil {
					p.out.link.Abort(fmt.Errorf("the test ends it"))
				}
			}
		}})
	}
	for _, j := range jobs {
		if got := j.ended(); strings.Contains(got, "skipped") || strings.Contains(got, "failed") {
			t.Fatalf("on %s: %s", j.host.agent.cfg.Name, got)
		}
	}
}

// BenchmarkChainOverTwoAgents measures tasks that each need the one before, which
// ran on the other agent: two notices and two runs for two steps.
func BenchmarkChainOverTwoAgents(b *testing.B) {
	hosts := startPair(b, nil)
	even := func(name string) int {
		var n int
		fmt.Sscanf(name, "t%d", &n)
		return n % 2
	}
	chain := func(n int) string {
		var yaml strings.Builder
		yaml.WriteString("job: chain\ntasks:\n  t0: {run: one, with: {n: 1}, out: [n]}\n  t1: {run: double, in: {n: t0.n}, out: [n2]}\n")
		for i := 2; i <= n; i++ {
			fmt.Fprintf(&yaml, "  t%d: {run: double, in: {n: t%d.n2}, out: [n2]}\n", i, i-1)
		}
		return yaml.String()
	}
	for _, j := range spread(hosts, chain(10), even) {
		j.drained()
	}
	yaml := chain(b.N)
	b.ResetTimer()
	for _, j := range spread(hosts, yaml, even) {
		j.drained()
	}
}

// TestLeftPeersAreForgotten: of a link that no job needs any more nothing stays.
func TestLeftPeersAreForgotten(t *testing.T) {
	hosts := startPair(t, nil)
	jobs := spread(hosts, `
job: short
tasks:
  a: {run: one, with: {n: 1}, out: [n]}
  b: {run: double, in: {n: a.n}, out: [n2]}
outputs: [b.n2]
`, func(name string) int { return int(name[0] - 'a') })
	for _, j := range jobs {
		j.ended()
	}
	for _, j := range jobs { // now that none reads what another has
		j.host.ctrl.send(&comms.Steer{Job: j.id, Action: comms.SteerForget})
	}
	links := func(a *Agent) (n int) {
		a.peerLinks.Range(func(any, any) bool { n++; return true })
		return n
	}
	for began := time.Now(); links(hosts[0].agent)+links(hosts[1].agent) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > testPatience {
			t.Fatalf("%d and %d links are kept", links(hosts[0].agent), links(hosts[1].agent))
		}
	}
}
