//go:build linux

package main

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/benchmarks/internal/hosts"
	"github.com/cascade-run/cascade/internal/testing/tier"
)

// TestMain lets the test's program be its own worker, daemon and executor.
func TestMain(m *testing.M) {
	cascade.Main()
	hosts.Main()
	if slices.Contains(os.Args, "-worker") {
		if err := serve(); err != nil {
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	os.Exit(m.Run())
}

const required = "CASCADE_REQUIRE_NETLAB"

// skipWithoutHosts skips a test whose hosts could not be made.
func skipWithoutHosts(t *testing.T, err error) {
	t.Helper()
	forbidden := errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EROFS)
	if forbidden && os.Getenv(required) == "" {
		t.Skip(err)
	}
}

// The measurements run, small, and every receiver gets the bytes that were sent.
func TestMeasurements(t *testing.T) {
	tier.Nightly(t, "starts dozens of processes, and needs iperf3")
	if _, err := exec.LookPath("iperf3"); err != nil && os.Getenv(required) == "" {
		t.Skip(err)
	}
	o := options{rounds: 1, times: 1, bytes: 4 << 20, large: 8 << 20, rate: 1_000_000_000, connections: []int{1, 4}, delays: []time.Duration{2 * time.Millisecond}}
	err := o.run([]string{"unshaped", "delayed", "broadcast", "memory", "heartbeat"})
	skipWithoutHosts(t, err)
	if err != nil {
		t.Fatal(err)
	}
}

// Agents take a dataset into shared memory alone: none of them holds it in its own.
func TestMemoryOfAgents(t *testing.T) {
	if testing.Short() {
		t.Skip("starts daemons on two hosts")
	}
	o := options{large: 256 << 20}
	most, err := o.moveByAgents()
	skipWithoutHosts(t, err)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range most {
		if m.before == 0 || m.private-m.before > o.large/2 {
			t.Errorf("agent %d took %d bytes of its own, %d before: of %d that moved", i, m.private, m.before, o.large)
		}
	}
	if got := most[1].shared; got < o.large || got > o.large+o.large/4 {
		t.Errorf("the receiver had %d bytes of shared memory, of %d that came", got, o.large)
	}
}

// TestP99Ratios compares each round with the same round of what is compared.
func TestP99Ratios(t *testing.T) {
	even := func(d time.Duration) (r []time.Duration) { return slices.Repeat([]time.Duration{d}, 100) }
	late := append(even(time.Millisecond)[1:], 9*time.Millisecond) // one in a hundred
	got := p99Ratios([][]time.Duration{even(6 * time.Millisecond), late, {time.Millisecond}}, [][]time.Duration{even(2 * time.Millisecond), even(time.Millisecond), even(2 * time.Millisecond)})
	if want := []float64{0.5, 3, 9}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
