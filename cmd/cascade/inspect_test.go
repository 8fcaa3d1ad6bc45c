package main

import (
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// Status lists the newest jobs, each on one line; --all lists all.
func TestStatusLists(t *testing.T) {
	h := newHost(t)
	cluster, err := cascade.Local(t.Context(), cascade.WithState(h.state), cascade.WithStore(64<<20))
	if err != nil {
		t.Fatal(err)
	}
	for i := range statusJobs + 2 {
		text := "job: j\ntasks:\n  a: {command: 'true'}\n"
		if i == statusJobs+1 {
			text = "job: newest\ntasks:\n  a: {command: [/no/such/program" + strings.Repeat("/of/a/long/path", 20) + "]}\n"
		}
		g, err := dag.ParseYAML("j.yaml", []byte(text), dag.Override{}, dag.Options{})
		if err != nil {
			t.Fatal(err)
		}
		j, err := cluster.Submit(t.Context(), g)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = j.Wait(t.Context()) // the newest fails
	}
	if err := cluster.Close(); err != nil {
		t.Fatal(err)
	}
	newest := h.start("", "status")
	h.expect(newest, "ID", "newest  failed", "/of/a/long", "…\nJOB  j  done", "2> these are the newest 20: --all lists all")
	if n := strings.Count(newest.out.String(), "\n"); n != 1+statusJobs {
		t.Errorf("%d lines:\n%s", n, newest.out.String())
	}
	all := h.start("", "status", "--all", "--json")
	all.wait()
	if n := strings.Count(all.out.String(), "\n"); n != 2+statusJobs {
		t.Errorf("%d lines with --all:\n%s", n, all.out.String())
	}
}

func TestOneLine(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"short", "short"},
		{"first\nsecond", "first"},
		{strings.Repeat("é", 100), strings.Repeat("é", 100)},
		{strings.Repeat("é", 101), strings.Repeat("é", 99) + "…"},
	} {
		if got := oneLine(tt.text); got != tt.want {
			t.Errorf("%q becomes %q", tt.text, got)
		}
	}
}

func TestCutOffTask(t *testing.T) {
	for _, tt := range []struct {
		alone       bool
		state, want string
	}{
		{true, "running", "cut off"},
		{true, "done", "done"},
		{false, "running", "running"},
	} {
		row := comms.TaskRow{State: tt.state}
		(&app{alone: tt.alone}).cutOffTask(&row)
		if row.State != tt.want {
			t.Errorf("%+v: the row says %q", tt, row.State)
		}
	}
}

func TestSoFar(t *testing.T) {
	const at = "2026-11-22T10:00:00.5Z"
	now := time.Date(2026, 11, 22, 10, 0, 2, 0, time.UTC)
	for _, tt := range []struct {
		row  comms.TaskRow
		want float64
	}{
		{comms.TaskRow{State: "running", Started: at}, 1.5},
		{comms.TaskRow{State: "running", Started: "2026-11-22T10:00:03Z"}, 0},
		{comms.TaskRow{State: "queued"}, 0},
		{comms.TaskRow{State: "done", Started: at, Seconds: 0.25}, 0.25},
		{comms.TaskRow{State: "cut off", Started: at}, 0},
	} {
		if soFar(&tt.row, now); tt.row.Seconds != tt.want {
			t.Errorf("%+v, want %g s", tt.row, tt.want)
		}
	}
}

// A session whose program was killed is not promised to go on; other jobs are.
func TestCutOffSession(t *testing.T) {
	for session, want := range map[bool]string{true: "the next `cascade run` ends it", false: "`cascade run` goes on with it"} {
		got, err := (&app{alone: true}).cutOff(comms.JobRunning, func() (bool, error) { return session, nil })
		if err != nil || !strings.HasSuffix(got, want) {
			t.Errorf("session %v: %q, %v", session, got, err)
		}
	}
	if got, err := (&app{}).cutOff(comms.JobRunning, nil); got != "" || err != nil {
		t.Errorf("a job that is served is cut off: %q, %v", got, err)
	}
}
