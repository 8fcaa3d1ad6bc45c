//go:build linux

package main

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMain lets the test's program be its own worker.
func TestMain(m *testing.M) {
	if slices.Contains(os.Args, "-worker") {
		if err := serve(); err != nil {
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	os.Exit(m.Run())
}

// The measurements run, small, and every receiver gets the bytes that were sent.
// Heartbeats need more time than such transfers take.
func TestMeasurements(t *testing.T) {
	if testing.Short() {
		t.Skip("starts dozens of processes")
	}
	required := os.Getenv("CASCADE_REQUIRE_NETLAB") != ""
	if _, err := exec.LookPath("iperf3"); err != nil && !required {
		t.Skip(err)
	}
	o := options{rounds: 1, times: 1, bytes: 4 << 20, large: 8 << 20, rate: 1_000_000_000}
	err := o.run([]string{"unshaped", "broadcast", "memory"})
	forbidden := errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EROFS)
	if forbidden && !required {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}
