//go:build linux

package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/testing/netlab"
)

var (
	killsFor  = flag.Duration("kills", 20*time.Second, "how long TestKills breaks things")
	killsCSV  = flag.String("kills.csv", "", "file for tasks a second over time, and what was broken when")
	killsPlot = flag.String("kills.svg", "", "file for a plot of that")
)

// The cluster of TestKills: a controller and an agent on the first host, an agent
// on each other one, all links between hosts by TLS.
type cluster struct {
	*Host
	lab        *netlab.Lab
	silence    string
	token      string
	controller *Process
	agents     [4]*Process
	rnd        *rand.Rand
	began      time.Time
	note       func(what string)
}

const (
	killsPort    = 7420
	killsSilence = "1s" // so that with the grace of 2 s some who are cut off or frozen are given up, and some are not
)

// TestKills runs one job after another on four hosts while agents, controllers,
// executors and whole hosts are killed, links cut and hosts frozen, at random. Each
// result must be, byte for byte, that of the same job before anything was broken.
//
//	go test ./internal/testing/chaos -run TestKills -v -kills 30m -timeout 45m -kills.csv kills.csv -kills.svg kills.svg
func TestKills(t *testing.T) {
	needsHosts(t)
	lab := newLab(t, netlab.Config{Hosts: 4})
	seed := firstSeed(t)
	c := &cluster{Host: New(t), lab: lab, silence: killsSilence, rnd: rand.New(rand.NewPCG(seed, 4))}
	c.found()
	c.startController().Await("ipc://")
	for i := range c.agents {
		c.startAgent(i).Await("controller is there")
	}
	client := c.ReadyClient(len(c.agents))
	w := &waves{h: c.Host, client: client, want: map[int]map[string][]byte{}}
	for v := range variants {
		w.want[v] = w.run(t.Context(), v, func(uint64) {})
	}
	t.Logf("seed %d: %d variants of the job have run undisturbed", seed, variants)

	c.began = time.Now()
	rates := newRates(c.began)
	c.note = func(what string) {
		t.Logf("%7.2f s: %s", time.Since(c.began).Seconds(), what)
		rates.event(what)
	}
	stop := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() { rates.sample(stop, w.done.Load) })
	var jobs atomic.Uint64
	for k := range 2 {
		all.Go(func() {
			for v := k; ; v += 2 {
				select {
				case <-stop:
					return
				default:
				}
				w.same(v % variants)
				jobs.Add(1)
			}
		})
	}
	for time.Since(c.began) < *killsFor && !t.Failed() {
		c.breakSomething()
	}
	close(stop)
	all.Wait()
	t.Logf("%d jobs, %d tasks, %d breaks in %v", jobs.Load(), w.done.Load(), rates.breaks(), time.Since(c.began).Round(time.Second))
	if err := rates.write(*killsCSV, *killsPlot); err != nil {
		t.Error(err)
	}
}

// newLab makes hosts that end with the test, which is skipped where that cannot be.
func newLab(t *testing.T, c netlab.Config) *netlab.Lab {
	t.Helper()
	lab, err := netlab.New(c)
	if err != nil {
		if os.Getenv("CASCADE_REQUIRE_NETLAB") != "" {
			t.Fatal(err)
		}
		t.Skipf("no hosts can be made here: %v", err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	return lab
}

// found makes the cluster's authority and a token for all agents.
func (c *cluster) found() {
	c.tb.Helper()
	state := filepath.Join(c.State, "controller")
	run := func(args ...string) string {
		p := c.Command("cluster", append(args, "--state", state)...)
		if code := p.Wait(); code != 0 {
			c.tb.Fatalf("cascade cluster %v ended with %d:\n%s", args, code, p.Output())
		}
		return p.Output()
	}
	out := run("init", "--name", "kills")
	if c.token = regexp.MustCompile(`cascade1\.[\w-]{70,}`).FindString(out); c.token == "" {
		c.tb.Fatalf("cluster init prints no token:\n%s", out)
	}
}

func (c *cluster) at(i int) string { return fmt.Sprintf("%s:%d", c.lab.Host(i).Addr(), killsPort) }

func (c *cluster) startController() *Process {
	c.Begin = c.lab.Host(0).Start
	c.controller = c.StartController("--listen", c.Address()+",tcp://"+c.at(0), "--grace", "2s", "--silence", c.silence)
	c.Begin = nil
	return c.controller
}

// startAgent starts agent i, on a port of its own: the first shares its host with the controller.
func (c *cluster) startAgent(i int) *Process {
	self, err := os.Executable()
	if err != nil {
		c.tb.Fatal(err)
	}
	n := fmt.Sprint(i + 1)
	state := "agent" + n
	if i == 0 {
		state = "agent"
	}
	c.Begin = func(cmd *exec.Cmd) error { return c.lab.Host(i).Start(cmd) }
	c.agents[i] = c.daemon("cascade-agent", []string{"--join", c.at(0), "--token", c.token, "--name", "a" + n,
		"--state", filepath.Join(c.State, state), "--runtime", filepath.Join(c.Sockets, "a"+n), "--executor", self,
		"--cpu", "2", "--memory", "1GiB", "--store", "128MiB", "--silence", c.silence})
	c.Begin = nil
	return c.agents[i]
}

// pause waits for some of the time that a break lasts.
func (c *cluster) pause(least, most time.Duration) time.Duration {
	d := least + time.Duration(c.rnd.Int64N(int64(most-least)))
	time.Sleep(d)
	return d
}

// breakSomething breaks one thing, or two at once, and mends it after a while.
func (c *cluster) breakSomething() {
	i := c.rnd.IntN(len(c.agents))
	host := c.lab.Host(i)
	must := func(err error) {
		if err != nil {
			c.tb.Error(err)
		}
	}
	killHost := func() {
		must(errors.Join(host.Freeze(), host.Kill()))
		c.agents[i].Wait()
		if i == 0 {
			c.controller.Wait()
		}
	}
	killController := func() { c.controller.Kill() }
	back := func() {
		if c.controller.Ended() {
			c.startController()
		}
		for k, a := range c.agents {
			if a.Ended() {
				c.startAgent(k)
			}
		}
	}
	const short, long = 200 * time.Millisecond, 5 * time.Second // the grace is between them
	switch c.rnd.IntN(8) {
	case 0:
		c.note(fmt.Sprintf("kill the agent on host %d", i+1))
		c.agents[i].Kill()
		c.pause(short, long)
	case 1:
		c.note(fmt.Sprintf("kill host %d", i+1))
		killHost()
		c.pause(short, long)
	case 2:
		c.note("kill the controller")
		killController()
		c.pause(short, 2*time.Second)
	case 3:
		c.note(fmt.Sprintf("kill the controller and the agent on host %d", i+1))
		killController()
		c.agents[i].Kill()
		c.pause(short, long)
	case 4:
		k := (i + 1) % len(c.agents)
		c.note(fmt.Sprintf("kill the agents on hosts %d and %d", i+1, k+1))
		c.agents[i].Kill()
		c.agents[k].Kill()
		c.pause(short, long)
	case 5:
		if all := c.Executors(); len(all) > 0 {
			c.note("kill an executor")
			_ = syscall.Kill(all[c.rnd.IntN(len(all))], syscall.SIGKILL) // it may have ended by itself
		}
	case 6:
		c.note(fmt.Sprintf("cut the link of host %d", i+1))
		must(host.Cut())
		c.pause(short, long)
		must(host.Mend())
	case 7:
		c.note(fmt.Sprintf("freeze host %d", i+1))
		must(host.Freeze())
		c.pause(short, long)
		must(host.Thaw())
	}
	back()
	c.note("all is back")
	c.pause(500*time.Millisecond, 3*time.Second)
	back() // who found no controller in time has ended
}

// variants is how many different jobs there are.
const variants = 3

// wavesJob has layers of tasks that each read two of the layer before, and the
// digest of all.
func wavesJob(variant int) string {
	const layers, width = 6, 16
	var b strings.Builder
	fmt.Fprintf(&b, "job: waves%d\ntasks:\n", variant)
	var names []string
	for l := range layers {
		for i := range width {
			in := "[]"
			if l > 0 {
				in = fmt.Sprintf("[l%d_%d.part, l%d_%d.part]", l-1, i, l-1, (i*5+variant+1)%width)
			}
			fmt.Fprintf(&b, "  l%d_%d: {run: chaos_wave, in: {parts: %s}, with: {seed: %d, size: %d, work: 20000}, out: [part]}\n",
				l, i, in, variant*1000+l*100+i, sizes[(l+i)%len(sizes)])
			names = append(names, fmt.Sprintf("l%d_%d.part", l, i))
		}
	}
	fmt.Fprintf(&b, "  all: {run: chaos_digest, in: {parts: [%s]}, out: [sum]}\noutputs: [all.sum, l%d_3.part]\n", strings.Join(names, ", "), layers-1)
	return b.String()
}

// waves runs jobs and compares what they deliver.
type waves struct {
	h      *Host
	client *cascade.Client
	want   map[int]map[string][]byte
	done   atomic.Int64 // tasks that have ended, of all jobs
}

// same runs a variant and compares its outputs.
func (w *waves) same(variant int) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	last := uint64(0)
	got := w.run(ctx, variant, func(done uint64) {
		w.done.Add(int64(done) - int64(last))
		last = done
	})
	for name, want := range w.want[variant] {
		if at := difference(got[name], want); at >= 0 && !w.h.tb.Failed() {
			w.h.tb.Errorf("variant %d: output %s of %d bytes differs from the undisturbed run from byte %d on", variant, name, len(want), at)
		}
	}
}

// run runs a job to its end and fetches its outputs; progress hears how many tasks have ended.
func (w *waves) run(ctx context.Context, variant int, progress func(done uint64)) map[string][]byte {
	tb := w.h.tb
	g, err := dag.ParseYAML("job.yaml", []byte(wavesJob(variant)), dag.Override{}, dag.Options{Dir: w.h.Dir})
	if err != nil {
		tb.Error(err)
		return nil
	}
	j, err := w.client.Submit(ctx, g, cascade.WithDir(w.h.Dir))
	if err != nil {
		tb.Errorf("submit: %v", err)
		return nil
	}
	var last *cascade.Progress
	err = j.Watch(ctx, 100*time.Millisecond, func(p *cascade.Progress) bool {
		last = p
		done := uint64(0)
		for i := range p.Groups {
			done += p.Groups[i].Done
		}
		progress(done)
		return true
	})
	if err == nil {
		err = cascade.JobResult(last)
	}
	if err != nil {
		tb.Errorf("job %s: %v", j.ID(), err)
		return nil
	}
	for {
		data, err := fetch(ctx, j)
		if err == nil {
			_ = j.Forget(ctx) // a controller that is away forgets it by its rule of retention
			return data
		}
		if ctx.Err() != nil {
			tb.Errorf("fetch the outputs of job %s: %v", j.ID(), err)
			return nil
		}
		time.Sleep(100 * time.Millisecond) // its agent is away, and comes back
	}
}
