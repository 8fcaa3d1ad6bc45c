//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
)

func TestExplainEnvironment(t *testing.T) {
	rows := []comms.EnvironmentRow{
		{Name: "ready", State: "ready", Agent: "h1"},
		{Name: "fields", State: "building", Agent: "h2"},
		{Name: "reader", State: "building", Agent: "h1", Error: "the index cannot be reached\nconnection refused"},
		{Name: "reader", State: "building", Agent: "h2"},
	}
	for _, c := range []struct{ name, agent, want string }{
		{"", "", ""},
		{"ready", "", ""},
		{"unused", "", ""},
		{"fields", "", "environment fields is being built on agent h2"},
		{"fields", "h2", "environment fields is being built on agent h2"},
		{"fields", "h1", ""},
		{"reader", "", "environment reader is being built on agent h1, which waits: the index cannot be reached; environment reader is being built on agent h2"},
		{"reader", "h2", "environment reader is being built on agent h2"},
	} {
		x := explanation{Agent: c.agent}
		if x.environment(c.name, rows); x.Building != c.want {
			t.Errorf("%q on %q: %q, want %q", c.name, c.agent, x.Building, c.want)
		}
	}
}

// A task that has waited while its environment was built says so; one that did not wait
// for so long, or found it built, does not.
func TestExplainBuilt(t *testing.T) {
	rows := []comms.EnvironmentRow{
		{Name: "py", State: "ready", Agent: "h1", Seconds: 3.91},
		{Name: "py", State: "ready", Agent: "h2", Seconds: 0.0008},
		{Name: "go", State: "failed", Agent: "h1", Seconds: 2},
	}
	for _, c := range []struct {
		name, agent string
		place       float64
		want        string
	}{
		{"py", "h1", 3.97, "py, which agent h1 built in 3.91s"},
		{"py", "h1", 0.2, ""},
		{"py", "h2", 3.97, ""},
		{"py", "h3", 3.97, ""},
		{"go", "h1", 3.97, ""},
		{"", "h1", 3.97, ""},
	} {
		x := explanation{Agent: c.agent, Place: c.place}
		if x.environment(c.name, rows); x.Built != c.want {
			t.Errorf("%q on %q after %v s: %q, want %q", c.name, c.agent, c.place, x.Built, c.want)
		}
	}
}

// licences is a plugin whose environment is made when somebody writes to the pipe.
const licences = `#!/bin/sh
export LC_ALL=C
case $(tr -d '\000') in
*do?describe*) printf '\000\000\000\033\203\250protocol\001\250priority\062\244done\303' ;;
*do?key*) printf '\000\000\000\015\202\243key\241k\244done\303' ;;
*do?create*)
	printf '\000\000\000\017\201\244tell\250licences'
	read -r _ < "$XDG_CONFIG_HOME/pipe"
	printf '\000\000\000\007\201\244done\303'
	;;
*) printf '\000\000\000\007\201\244done\303' ;;
esac
`

const waits = `job: waits
environments: {slow: {plugins: {licences: {}}}}
tasks:
  t: {command: ["true"], environment: slow}
  bad: {command: ["false"], out: [x], stdout: x, keep_going: true}
  never: {command: "cat ${in.x}", in: {x: bad.x}, environment: slow, keep_going: true}
`

// A task that waits for its environment says so, as long as that is so.
func TestExplainBuilding(t *testing.T) {
	h := newHost(t)
	settings := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", settings)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	plugins, pipe := filepath.Join(settings, "cascade", "plugins"), filepath.Join(settings, "pipe")
	for _, err := range []error{
		os.MkdirAll(plugins, 0o700), syscall.Mkfifo(pipe, 0o600),
		os.WriteFile(filepath.Join(plugins, "licences"), []byte(licences), 0o700),
		os.WriteFile("job.yaml", []byte(waits), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	run := h.start("", "run", "job.yaml", "--cpu", "2")
	await(t, &run.err, "building environment slow (licences), which waits: licences")
	await(t, &run.err, "never: 0/1 done, 1 skipped")
	h.expect(h.start("", "status", "last"), "never  0/1 done, 1 skipped", "building environment slow, which waits: licences")
	explained := h.start("", "explain", "last", "t").wait()
	skipped := h.start("", "explain", "last", "never").wait()
	if err := os.WriteFile(pipe, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	const want = `t: waiting
  waits for  environment slow is being built on agent local, which waits: licences
  planned  on local at DURATION: needs no task, starts at once
`
	if explained != want {
		t.Errorf("explained is\n%swant\n%s", explained, want)
	}
	if !strings.Contains(skipped, "never: skipped\n") || !strings.Contains(skipped, "needed  bad (failed on local)\n") || strings.Contains(skipped, "planned") || strings.Contains(skipped, "slow") {
		t.Errorf("a skipped task is explained as\n%s", skipped)
	}
	if code := <-run.code; code != exitOK {
		t.Errorf("the run ends with %d:\n%s", code, run.err.String())
	}
	if told := run.err.String(); strings.Contains(told, "WRN") {
		t.Errorf("what the environment waits for is told by the agent's log, too:\n%s", told)
	}
	if after := h.start("", "explain", "last", "t").wait(); after == explained {
		t.Errorf("afterwards: %s", after)
	}
}

// What became of the attempt before, from the story of a task.
func TestExplainBefore(t *testing.T) {
	row := func(second, what string, attempt uint32, cause, detail string) *comms.StoryRow {
		return &comms.StoryRow{At: "2026-11-20T08:00:" + second + "Z", What: what, Attempt: attempt, Cause: cause, Detail: detail}
	}
	started := row("01", "started", 1, "the job was assigned", "executor 7")
	gone := row("32", "starts over", 0, "lost with agent node2", "")
	gone.Lost = []string{"node2"}
	for _, c := range []struct {
		name string
		rows []*comms.StoryRow
		want string // behind "before"
	}{
		{"nothing", []*comms.StoryRow{started, row("02", "finished", 1, "the run", "1 s")}, ""},
		{"an error", []*comms.StoryRow{started, row("02", "retried", 1, "the run", "executor 7; 1 s; exit: 1")},
			"attempt 1 ended without result at 08:00:02: executor 7; 1 s; exit: 1"},
		{"the end of its executor", []*comms.StoryRow{started, row("02", "retried", 1, "executor 7: its executor died before it could report", "")},
			"attempt 1 ended without result at 08:00:02: executor 7: its executor died before it could report"},
		{"its gang", []*comms.StoryRow{started, row("02", "retried", 1, "a[1] ended: its gang starts over", "executor 7; 1 s")},
			"attempt 1 ended without result at 08:00:02: a[1] ended: its gang starts over; executor 7; 1 s"},
		{"its gang, when it was done", []*comms.StoryRow{started, row("02", "finished", 1, "the run", "1 s"), row("03", "retried", 1, "a[1] ended: its gang starts over", "")},
			"attempt 1 was done, and was repeated from 08:00:03 on: a[1] ended: its gang starts over"},
		{"a gang on several hosts, by this member", []*comms.StoryRow{started, row("02", "retried", 1, "the run", "exit: 1"), row("03", "gang starts over", 2, "t ended: its gang starts over", "exit: 1")},
			"attempt 1 ended without result at 08:00:03: exit: 1"},
		{"what it made is gone", []*comms.StoryRow{started, row("02", "finished", 1, "the run", "1 s"), row("03", "retried", 1, "t.o: this dataset is gone and is needed again", ""), row("04", "started", 2, "the job was assigned", "")},
			"attempt 1 was done, and was repeated from 08:00:03 on: t.o: this dataset is gone and is needed again"},
		{"its host is lost", []*comms.StoryRow{started, row("02", "agent lost", 0, "connection closed", "its task restarts"), gone},
			"attempt 1 was lost with agent node2; it was given out again at 08:00:32"},
		{"its host is lost, when it was done", []*comms.StoryRow{started, row("02", "finished", 1, "the run", "1 s"), gone},
			"attempt 1 was done, and was repeated from 08:00:32 on: its outputs were lost with agent node2"},
		{"the second of three", []*comms.StoryRow{started, row("02", "retried", 1, "the run", "exit: 1"), row("03", "started", 2, "", ""), row("04", "retried", 2, "the run", "exit: 2")},
			"attempt 2 ended without result at 08:00:04: exit: 2"},
	} {
		told, err := readPast(func(yield func(*comms.StoryRow, error) bool) {
			for _, r := range c.rows {
				if !yield(r, nil) {
					return
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if b := told.before; b != nil {
			b.At = strings.TrimSuffix(strings.TrimPrefix(b.At, "2026-11-20T"), "Z") // which is no time, and printed as it is
			got = b.text(2, false)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// What the start of a task waited for, whatever happened before and since.
func TestExplainStart(t *testing.T) {
	at := func(second string) string { return "2026-11-20T08:00:" + second + "Z" }
	row := func(name, state, second string, attempt uint32) comms.TaskRow {
		r := comms.TaskRow{Name: name, State: state, Agent: "h1", Attempt: attempt, Seconds: 2}
		if second != "" {
			r.Started = at(second)
		}
		return r
	}
	for _, c := range []struct {
		name      string
		before    *restart
		producers []comms.TaskRow
		want      string
	}{
		{"no input", nil, nil, "without waiting for a task"},
		{"one input", nil, []comms.TaskRow{row("a", "done", "05", 1)}, "3.00s after its last input, a, which ended on h1 at"},
		{"a generator that goes on", nil, []comms.TaskRow{row("a", "done", "09", 1)}, "when a ran on h1: it needs elements, not its end"},
		{"results of an earlier job", nil, []comms.TaskRow{row("a", "done", "", 0)}, "when its inputs were there"},
		{"an input that runs again", nil, []comms.TaskRow{row("a", "running", "11", 2)}, "when its inputs were there; a ran again since"},
		{"an input that is to run again", nil, []comms.TaskRow{row("a", "waiting", "", 2), row("b", "done", "05", 1)}, "3.00s after its last input, b, which ended on h1 at"},
		{"an attempt before", &restart{At: at("09")}, []comms.TaskRow{row("a", "done", "05", 1)}, "1.00s after that"},
		{"an attempt before, in the same second", &restart{At: at("05.123")}, []comms.TaskRow{row("a", "done", "03.12", 1)}, "4.88s after that"},
		{"an input after that, in the same second", &restart{At: at("05.12")}, []comms.TaskRow{row("a", "done", "03.123", 2)}, "4.88s after its last input, a, which ended on h1 at"},
		{"an input after that", &restart{At: at("05")}, []comms.TaskRow{row("a", "done", "06", 2)}, "2.00s after its last input, a, which ended on h1 at"},
	} {
		x := explanation{State: "done", Started: at("10"), Before: c.before}
		x.inputs(c.producers)
		if got := x.start(); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// A task of an agent whose link is broken runs as far as is known, and that is said.
func TestSilent(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 0, 12, 0, time.UTC)
	of := silent([]comms.AgentRow{
		{Name: "h1", State: "ready", Seen: "2026-11-20T08:00:12Z"},
		{Name: "h2", State: "away", Seen: "2026-11-20T08:00:00Z"},
		{Name: "h3", State: "away", Seen: "2026-11-20T08:00:13Z"}, // by another clock
		{Name: "h4", State: "away"},
	}, now)
	for agent, want := range map[string]string{"h1": "running", "h2": "running, not heard of for 12.00s", "h3": "running, not heard of for 1.0ms", "h4": "running"} {
		row := comms.TaskRow{Agent: agent, State: "running"}
		if unheard(&row, of); row.State != want {
			t.Errorf("%s: %s, want %s", agent, row.State, want)
		}
	}
	var out strings.Builder
	(&app{out: &out}).printExplanation(&explanation{Task: "t", State: "running", Agent: "h2", Executor: 3, Attempt: 1, Started: "2026-11-20T08:00:00Z", Silent: 12})
	if !strings.Contains(out.String(), "agent h2, which was not heard of for 12.00s; executor 3, attempt 1, since") {
		t.Errorf("it is explained as %s", out.String())
	}
}

// What a tool said of an environment that it could not make is printed, its last lines.
func TestExplainError(t *testing.T) {
	var out strings.Builder
	said := "setup: environment \"sci\": uv pip install: exit status 1\n" + strings.Repeat("line\n", 20) + "cause: no such package\n"
	(&app{out: &out}).printExplanation(&explanation{Task: "t", State: "failed", Error: said})
	want := "t: failed\n  error          setup: environment \"sci\": uv pip install: exit status 1\n" + strings.Repeat("    line\n", errorLines-1) + "    cause: no such package\n"
	if out.String() != want {
		t.Errorf("it is explained as\n%s, want\n%s", out.String(), want)
	}
}

// A plan without an agent to follow it is not printed as one that is followed.
func TestExplainWithoutAgents(t *testing.T) {
	plan := &comms.PlanRow{Task: "t", Host: "h1", Start: 2, Finish: 3, Reason: "needs a"}
	for _, c := range []struct {
		name string
		x    explanation
		want string
	}{
		{"that waits", explanation{State: "waiting", Plan: plan}, "planned        on h1 at 2.00s: needs a"},
		{"that runs, without agents", explanation{State: "running", Started: "2026-11-20T08:00:00Z", Plan: plan, NoAgent: true}, "plan now       no agent is there; with those that were: on h1 at 2.00s: needs a"},
		{"that waits, without agents", explanation{State: "waiting", Plan: plan, NoAgent: true}, "planned        no agent is there; with those that were: on h1 at 2.00s: needs a"},
	} {
		var out strings.Builder
		if (&app{out: &out}).printExplanation(&c.x); !strings.Contains(out.String(), "  "+c.want+"\n") {
			t.Errorf("one %s is explained as\n%swant %s", c.name, out.String(), c.want)
		}
	}
}
