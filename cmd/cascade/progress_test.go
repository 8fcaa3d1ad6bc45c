package main

import (
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// Who waits for a job is told which agents with jobs are not heard of.
func TestAwayNames(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 0, 10, 0, time.UTC)
	row := func(name, state, second string, jobs uint64) comms.AgentRow {
		return comms.AgentRow{Name: name, State: state, Seen: "2026-11-20T08:00:" + second + "Z", Jobs: jobs}
	}
	rows := []comms.AgentRow{row("c", "away", "04", 1), row("a", "away", "08", 2), row("b", "ready", "04", 1), row("d", "away", "04", 0)}
	got := strings.Join(awayNames(rows, now), "; ")
	if want := "agent a was not heard of for 2.00s; agent c was not heard of for 6.00s"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A group with a task for each element of an open generator is told when the
// stream has ended, not when what has come so far is done.
func TestGroupsEnd(t *testing.T) {
	g, err := dag.ParseYAML("stream.yaml", []byte(`job: stream
tasks:
  numbers: {run: Numbers, generates: {n: "*"}}
  square: {for: {i: "numbers.n[*]"}, command: "cat ${in.n} > ${out.y}", in: {n: "numbers.n[${i}]"}, out: [y]}
`), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	group := func(name string, total, running, done uint64) comms.GroupCounts {
		return comms.GroupCounts{Group: name, Total: total, Running: running, Done: done}
	}
	for _, tt := range []struct {
		name            string
		phase           comms.JobPhase
		numbers, square comms.GroupCounts
		want            [2]bool
	}{
		{"so far", comms.JobRunning, group("numbers", 1, 1, 0), group("square", 3, 0, 3), [2]bool{false, false}},
		{"stream has ended", comms.JobRunning, group("numbers", 1, 0, 1), group("square", 43, 1, 42), [2]bool{true, false}},
		{"both have", comms.JobRunning, group("numbers", 1, 0, 1), group("square", 43, 0, 43), [2]bool{true, true}},
		{"the job has", comms.JobFailed, group("numbers", 1, 0, 0), group("square", 3, 0, 3), [2]bool{false, true}},
	} {
		p := &cascade.Progress{Phase: tt.phase, Groups: []comms.GroupCounts{tt.numbers, tt.square}}
		if got := [2]bool{ended(g, p, 0), ended(g, p, 1)}; got != tt.want {
			t.Errorf("%s: ended is %v, want %v", tt.name, got, tt.want)
		}
	}
}

// What a job was said to have made again otherwise before it ran again is not told as news.
func TestDiffersIsToldOnce(t *testing.T) {
	var out strings.Builder
	a := &app{err: &out, differed: 2}
	s := a.newProgress(&dag.Graph{Name: "two"}, comms.JobID{})
	out.Reset()
	for _, tt := range []struct {
		differs uint64
		want    string
	}{{2, ""}, {3, "warning: a.x of h1 differs; 3 in all\n"}, {3, ""}} {
		s.update(&cascade.Progress{Name: "two", Differs: tt.differs, Differing: "a.x of h1 differs"})
		if got := out.String(); got != tt.want {
			t.Errorf("%d differ: %q, want %q", tt.differs, got, tt.want)
		}
		out.Reset()
	}
}

// Why nothing of a job runs is told again with each sign of life.
func TestReasonIsRepeated(t *testing.T) {
	var out strings.Builder
	a := &app{err: &out}
	s := a.newProgress(&dag.Graph{Name: "two"}, comms.JobID{})
	out.Reset()
	p := &cascade.Progress{Name: "two", Waits: "no room", Groups: []comms.GroupCounts{{Group: "train", Total: 3}}}
	for range 3 {
		s.tick(t.Context(), nil, p)
		s.quiet = time.Now().Add(-quietFor)
	}
	p.Waits = ""
	s.tick(t.Context(), nil, p)
	want := []string{"waits: no room", "two: 0/3 done; waits: no room", "two: 0/3 done; waits: no room", "two: 0/3 done"}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i := range lines {
		_, lines[i], _ = strings.Cut(strings.TrimSpace(lines[i]), "  ") // after the time
	}
	if strings.Join(lines, "|") != strings.Join(want, "|") {
		t.Errorf("it says %q, want %q", lines, want)
	}
}

// What is built is told with what it is made of, and once it is ready how long that took.
func TestBuilding(t *testing.T) {
	var out strings.Builder
	g := &dag.Graph{Environments: []dag.Environment{
		{Name: "sci", Python: &dag.Python{Pip: []string{"numpy<2", "mine @ https://me:word@host.example/mine.zip"}}},
		{Name: "plain", Python: &dag.Python{}},
		{Name: "tools", Go: "./tools", Container: &dag.Container{Image: "registry/image:1"}},
	}}
	s := (&app{err: &out, to: "there"}).newProgress(g, comms.JobID{})
	out.Reset()
	var got []string
	for _, r := range []comms.EnvironmentRow{
		{Name: "sci", Agent: "h1", State: "building"},
		{Name: "sci", Agent: "h1", State: "building", Error: "the index does not answer"},
		{Name: "tools", Agent: "h2", State: "building"},
		{Name: "plain", Agent: "h1", State: "building"},
		{Name: "sci", Agent: "h2", State: "ready", Seconds: 7}, // nobody was told that it is built
		{Name: "sci", Agent: "h1", State: "ready", Seconds: 48},
		{Name: "sci", Agent: "h1", State: "ready", Seconds: 48},
		{Name: "plain", Agent: "h1", State: "failed"}, // the task's error says it
	} {
		if text := s.building(&r); text != "" {
			got = append(got, text)
		}
	}
	want := []string{
		"building environment sci (Python with numpy<2, mine) on agent h1",
		"building environment sci (Python with numpy<2, mine) on agent h1, which waits: the index does not answer",
		"building environment tools (Go package ./tools; container registry/image:1) on agent h2",
		"building environment plain (Python) on agent h1",
	}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("it says %q, want %q", got, want)
	}
	if _, text, _ := strings.Cut(strings.TrimSpace(out.String()), "  "); text != "environment sci is ready after 48.00s; later jobs find it built" {
		t.Errorf("it says %q", out.String())
	}
	s.buildings([]comms.EnvironmentRow{{Name: "sci", Agent: "h1", State: "ready"}}) // h2 is lost, and its build of tools with it
	if len(s.built) != 1 || !s.built["sci on h1"] {
		t.Errorf("it waits for %v", s.built)
	}
}

func TestTakenText(t *testing.T) {
	g := func(cpu string) *dag.Graph {
		g, err := dag.ParseYAML("job.yaml", []byte("job: j\ntasks: {a: {command: \"true\", resources: {cpu: "+cpu+"}}, b: {command: \"true\", resources: {cpu: 2}}}\n"), dag.Override{}, dag.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	agents := []comms.AgentRow{{Name: "x", CPU: 2}, {Name: "y", CPU: 1}}
	outer := takers{"outer", 2, map[string]int64{"x": 2000}}
	more := takers{"more", 1, map[string]int64{"y": 500}}
	for _, c := range []struct {
		graph  *dag.Graph
		agents []comms.AgentRow
		others []takers
		want   string
	}{
		{g("1"), agents, []takers{outer}, ""},
		{g("1"), agents[:1], []takers{outer}, "waits for a core: all 2 are taken by 2 tasks of job outer"},
		{g("1"), agents, []takers{more, outer}, "waits for a core: all 3 are taken by 2 tasks of job outer, 1 task of job more"},
		{g("0.5"), agents, []takers{more, outer}, ""},
		{g("1"), agents[1:], []takers{more}, "waits for a core: the only one is taken by 1 task of job more"},
		{g("1"), agents, []takers{outer, more, {"a", 1, nil}, {"b", 1, nil}}, "waits for a core: all 3 are taken by 2 tasks of job outer, 1 task of job more, 2 more"},
		{g("1"), agents, nil, ""},
		{g("1"), nil, []takers{outer}, ""},
	} {
		if got := takenText(c.graph, c.agents, c.others); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// The run screen: a clock, the predicted end, families, the oldest tasks, the first failure.
func TestRunScreen(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 1, 30, 0, time.UTC)
	s := &progress{a: &app{}, now: func() time.Time { return now }, start: now.Add(-90 * time.Second),
		planned: weights{total: 100, each: map[string]float64{"read": 1, "model": 20, "post": 2}}, hosts: map[string]int{"model": 2},
		running: []comms.TaskRow{{Name: "model[2]", State: "running", Started: "2026-11-20T08:00:50Z", Attempt: 1}, {Name: "model[1]", State: "running", Started: "2026-11-20T08:01:10Z", Attempt: 2}},
		failed:  &comms.TaskRow{Name: "model[0]", State: "failed", Error: "exit: the command ended with status 3", LogTail: "one\ntwo\nthree\nfour\n"},
	}
	p := &cascade.Progress{Name: "night", Phase: comms.JobRunning, Late: "report is due at 09:00 and predicted for 09:20", Groups: []comms.GroupCounts{
		{Group: "read", Total: 4, Done: 4}, {Group: "model", Total: 4, Running: 2, Failed: 1, Ready: 1}, {Group: "post", Total: 4}}}
	lines := s.live(p, nil)
	var b strings.Builder
	for _, size := range []struct {
		width  int
		styled func(style, text string) string
	}{{100, nil}, {40, nil}, {100, func(style, text string) string { return "<" + style + ">" + text + "</>" }}} {
		d := &display{to: &b, size: func() (int, int) { return size.width, 24 }, styled: size.styled}
		if err := d.draw(lines); err != nil {
			t.Fatal(err)
		}
		b.WriteString("---\n")
	}
	golden(t, "run-screen.golden", strings.NewReplacer("\x1b[?7l", "", "\x1b[?7h", "").Replace(b.String()))
}
