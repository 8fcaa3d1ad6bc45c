package main

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/sim"
)

// Each seed that fails is printed, with its reason, in order, and makes the command end with 1.
func TestSeedsThatFail(t *testing.T) {
	broken := func(seeds ...uint64) func(sim.Options) sim.Result {
		return func(o sim.Options) sim.Result {
			res := sim.Result{Seed: o.Seed, Jobs: 1, Steps: 10}
			for _, s := range seeds {
				if s == o.Seed {
					res.Err = errors.New("task 3 runs twice")
				}
			}
			return res
		}
	}
	for _, c := range []struct {
		args string
		run  func(sim.Options) sim.Result
		code int
		want []string
	}{
		{"-seeds 100", broken(), 0, []string{"100 seeds, 0 failed, 1000 steps in "}},
		{"-seeds 100 -from 50", broken(7, 140, 60), 1, []string{
			"seed 60: 1 jobs, 10 steps, 0s: FAILED: task 3 runs twice",
			"seed 140: 1 jobs, 10 steps, 0s: FAILED: task 3 runs twice",
			"100 seeds, 2 failed, 1000 steps in "}},
		{"-seed 7", broken(7), 1, []string{"seed 7: 1 jobs, 10 steps, 0s: FAILED: task 3 runs twice"}},
		{"-seed 8", broken(7), 0, []string{"seed 8: 1 jobs, 10 steps, 0s: ok"}},
		{"-no-such-flag", broken(), 2, nil},
	} {
		var out strings.Builder
		code := run(strings.Fields(c.args), &out, c.run)
		got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if code != c.code {
			t.Errorf("%s ends with %d, want %d", c.args, code, c.code)
		}
		if c.want == nil {
			continue
		}
		if len(got) != len(c.want) {
			t.Errorf("%s prints\n%s\nwant %q", c.args, out.String(), c.want)
			continue
		}
		for i, want := range c.want {
			if !strings.HasPrefix(got[i], want) {
				t.Errorf("%s prints %q, want %q", c.args, got[i], want)
			}
		}
	}
}

// A hunt prints what fails as lines that replay it.
func TestHunt(t *testing.T) {
	failing := func(o sim.Options) sim.Result { return sim.Result{Seed: o.Seed, Err: errors.New("task 3 runs twice")} }
	var out strings.Builder
	if code := run(strings.Fields("-hunt 1ms -gangs -without spread"), &out, failing); code != 1 {
		t.Errorf("ends with %d", code)
	}
	line := regexp.MustCompile(`^-seed [1-9][0-9]* -gangs -without spread # task 3 runs twice$`)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for _, l := range lines[:len(lines)-1] {
		if !line.MatchString(l) {
			t.Errorf("%q is not a line to keep", l)
		}
	}
	if last := lines[len(lines)-1]; len(lines) < 2 || !strings.HasSuffix(last, "failed") {
		t.Errorf("it ends with %q", last)
	}
}

// The real simulator, a few seeds: one of them alone tells the same again.
func TestSeedsRun(t *testing.T) {
	var all, one strings.Builder
	if code := run([]string{"-seeds", "5", "-v"}, &all, sim.Run); code != 0 {
		t.Errorf("ends with %d: %s", code, all.String())
	}
	if code := run([]string{"-seed", "3"}, &one, sim.Run); code != 0 || !strings.Contains(all.String(), one.String()) {
		t.Errorf("seed 3 says %q alone, and among others\n%s", one.String(), all.String())
	}
}
