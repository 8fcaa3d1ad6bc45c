//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/internal/testing/netlab"
)

var _ = cascade.Func1("chaos_hop", hop, "x -> sum")

// hop says when it begins, by the clock that all processes of the machine share: the test may read it late.
func hop(ctx context.Context, x float64) (float64, error) {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	return x + 1, errors.Join(err, Say(ctx, "start", strconv.FormatInt(now.Nano(), 10)))
}

// hopped returns when a task has begun.
func hopped(t *testing.T, l Line) time.Duration {
	t.Helper()
	n, err := strconv.ParseInt(l.Note, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(n)
}

// A chain whose steps lie on two hosts by turns, over links with a delay. Once it has begun the
// controller's link is cut: all steps run all the same, so that none waits for an answer of
// the controller, and each waits for what the step before it made to come from the other host.
func TestChainOverDelayedLinks(t *testing.T) {
	needsHosts(t)
	const (
		delay = 20 * time.Millisecond
		steps = 20
	)
	lab := newLab(t, netlab.Config{Hosts: 3, Delay: delay})
	h, _, _ := startOn(t, lab, "1m")
	job := &strings.Builder{}
	fmt.Fprintf(job, "job: chain\nparams: {first: \"\"}\ntasks:\n  s0: {run: chaos_gate, with: {pipe: \"${params.first}\"}, out: [sum], resources: {at_a1: 1}}\n")
	for i := 1; i <= steps; i++ {
		fmt.Fprintf(job, "  s%d: {run: chaos_hop, in: {x: s%d.sum}, out: [sum], resources: {at_a%d: 1}}\n", i, i-1, i%2+1)
	}
	fmt.Fprintf(job, "  there: {run: chaos_number, with: {n: 1, work: 0}, out: [sum], resources: {at_a2: 1}}\noutputs: [s%d.sum, there.sum]\n", steps)
	first := h.Pipe("first")
	j := h.Submit(h.ReadyClient(2), job.String(), nil, "first="+first)
	h.Journal.AwaitFrom(j.Begun, Started("s0", 1))
	h.Journal.AwaitFrom(j.Begun, Started("there", 1)) // both agents have their part of the job
	if err := lab.Host(0).Cut(); err != nil {
		t.Fatal(err)
	}
	openGate(t, first)
	last := hopped(t, h.Journal.AwaitFrom(j.Begun, Started(fmt.Sprintf("s%d", steps), 1)))
	if err := lab.Host(0).Mend(); err != nil {
		t.Fatal(err)
	}
	took := last - hopped(t, h.Journal.AwaitFrom(j.Begun, Started("s1", 1)))
	t.Logf("%d steps from host to host over links of %v, without the controller: %v", steps-1, delay, took)
	if took < (steps-1)*delay {
		t.Errorf("%d steps from host to host took %v: less than the links", steps-1, took)
	}
	got := j.Done()
	for i := range steps + 1 {
		name := fmt.Sprintf("s%d", i)
		if on, n := got.Tasks[name].Agent, got.Starts(name); on != fmt.Sprintf("a%d", i%2+1) || n != 1 {
			t.Errorf("%s ran on %s, %d times: want once, on a%d", name, on, n, i%2+1)
		}
	}
}
