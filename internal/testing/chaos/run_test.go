//go:build linux

package chaos

import (
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// words is a job of commands only, as `cascade run` takes it: every task says in
// the journal when it starts and ends. The last one waits until somebody has the gate open for writing.
const words = `job: words
params: {gate: /dev/null}
tasks:
  make:
    for: {i: "1..6"}
    command: "echo start $CASCADE_TASK $CASCADE_ATTEMPT > $CHAOS_JOURNAL; seq 1 400 | awk '{print $1*${i}}'; echo end $CASCADE_TASK $CASCADE_ATTEMPT > $CHAOS_JOURNAL"
    out: [list]
    stdout: list
  turn:
    for: {i: "1..6"}
    command: "echo start $CASCADE_TASK $CASCADE_ATTEMPT > $CHAOS_JOURNAL; sort -rn ${in.list}; echo end $CASCADE_TASK $CASCADE_ATTEMPT > $CHAOS_JOURNAL"
    in: {list: "make[${i}].list"}
    out: [list]
    stdout: list
  all:
    command: "echo start $CASCADE_TASK $CASCADE_ATTEMPT > $CHAOS_JOURNAL; : < ${params.gate}; cat ${in.lists[*]}; echo end $CASCADE_TASK $CASCADE_ATTEMPT > $CHAOS_JOURNAL"
    in: {lists: "turn[*].list"}
    out: [list]
    stdout: list
outputs:
  - {from: all.list, to: all.txt}
`

const wordsLines = 2 * 13

// wordsUndisturbed is what words writes to all.txt when nothing breaks.
func wordsUndisturbed(t *testing.T) string {
	t.Helper()
	var want string
	t.Run("undisturbed", func(t *testing.T) {
		h := New(t)
		h.Write("words.yaml", words)
		if p := h.Run("words.yaml"); p.Wait() != 0 {
			t.Fatal(p.Output())
		}
		want = h.Read("all.txt")
		if n := strings.Count(want, "\n"); n != 2400 || h.Journal.Len() != wordsLines {
			t.Fatalf("%d lines of output, %d in the journal", n, h.Journal.Len())
		}
	})
	return want
}

// `cascade run`, which has controller and agent in it, is killed at the n-th line
// of the journal. The next run on the same state finishes the job, and starts
// nothing that the dead one had stored as done.
func TestRunKilled(t *testing.T) {
	t.Parallel()
	want := wordsUndisturbed(t)
	for i := range rounds(2, 60) {
		r := rand.New(rand.NewPCG(firstSeed(t)+uint64(i), 2))
		h := New(t)
		h.Write("words.yaml", words)
		h.Write("nothing.yaml", "job: nothing\ntasks:\n  a: {command: \"true\"}\n")
		gate, open := held(h) // or it may have ended when the test gets to killing it
		first := h.Run("words.yaml", "-p", gate)
		killAt(h, 1+r.IntN(wordsLines-2), nil, first)
		stored := doneTasks(h)
		lines := h.Journal.Len()
		open()
		second := h.Run("nothing.yaml")
		if code := second.Wait(); code != 0 || !strings.Contains(second.Output(), "going on with job words") {
			t.Fatalf("round %d: the next run ended with %d:\n%s", i, code, second.Output())
		}
		if got := h.Read("all.txt"); got != want {
			t.Fatalf("round %d: the output differs from the undisturbed run at byte %d", i, difference([]byte(got), []byte(want)))
		}
		again := 0
		for _, l := range h.Journal.Lines(lines) {
			if l.Event != "start" {
				continue
			}
			if again++; stored[l.Task] {
				t.Errorf("round %d: %s was stored as done, and started again", i, l.Task)
			}
		}
		t.Logf("round %d: %d of 13 tasks were done, the next run started %d", i, len(stored), again)
	}
}

// doneTasks are those of the newest job that the store of a dead run has as done.
func doneTasks(h *Host) map[string]bool {
	h.tb.Helper()
	ls := h.Command("ls", "tasks", "last", "--json")
	if ls.Wait() != 0 {
		h.tb.Fatal(ls.Output())
	}
	done := map[string]bool{}
	for rows := json.NewDecoder(strings.NewReader(ls.Output())); ; {
		var row struct{ Name, State string }
		if err := rows.Decode(&row); errors.Is(err, io.EOF) {
			return done
		} else if err != nil {
			h.tb.Fatalf("%v:\n%s", err, ls.Output())
		}
		if row.State == "done" {
			done[row.Name] = true
		}
	}
}

// killAt kills processes at the n-th line of the journal, counted from 1, after before.
func killAt(h *Host, n int, before func(), victims ...*Process) {
	h.tb.Helper()
	<-at(h, n, func() {
		if before != nil {
			before()
		}
		for _, p := range victims {
			p.Signal(syscall.SIGKILL)
		}
	})
	h.Journal.On(nil)
	for _, p := range victims {
		p.Wait()
	}
}

// Agent, controller, or both are killed at the n-th line of the journal, and
// started again. The same numbers come out, and what was finished is not repeated.
func TestDaemonsKilled(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	h := New(t)
	controller, agent := h.Controller(), h.Agent()
	c := h.Client()
	for i := range rounds(3, 60) {
		r := rand.New(rand.NewPCG(firstSeed(t)+uint64(i), 3))
		which := []string{"agent", "controller", "both"}[i%3]
		j := h.Submit(c, mix, nil)
		at := j.Begun + 1 + r.IntN(mixLines-2)
		var known map[string]bool
		victims := map[string][]*Process{"agent": {agent}, "controller": {controller}, "both": {controller, agent}}[which]
		killAt(h, at, func() { known = j.Finished() }, victims...)
		if which != "agent" {
			controller = h.Controller()
		}
		if which == "both" {
			known = j.Stored() // what was told may not have been stored
		}
		if which != "controller" {
			agent = h.Agent()
		}
		got := j.Done()
		got.Same(t, want)
		got.Once(t, known)
		if which == "controller" {
			got.Rerun(t, nil)
		}
		t.Logf("round %d, kill of %s at line %d: %d tasks were finished, %d started again", i, which, at-j.Begun, len(known), got.Again())
		if t.Failed() {
			t.Fatalf("round %d, kill of %s at line %d\n%s\n%s", i, which, at-j.Begun, text(got.Lines), j.Story(""))
		}
	}
}

const stubborn = `job: stubborn
tasks:
  a: {command: "trap '' TERM INT; echo start a 1 > $CHAOS_JOURNAL; sleep 300 & wait; wait; : > ${out.y}", out: [y]}
`

const patient = `job: patient
tasks:
  a: {command: "trap 'echo term a 1 > $CHAOS_JOURNAL; exit 1' TERM; echo start a 1 > $CHAOS_JOURNAL; sleep 300 & wait; : > ${out.y}", out: [y]}
`

// The first interrupt cancels the job, which lets its commands end in good order.
func TestInterruptOnce(t *testing.T) {
	t.Parallel()
	h := New(t)
	h.Write("job.yaml", patient)
	p := h.Run("job.yaml")
	h.Journal.Await(Started("a", 0))
	p.Signal(syscall.SIGINT)
	if code := p.Wait(); code != 4 || !strings.Contains(p.Output(), "job patient") || !strings.Contains(p.Output(), "was cancelled") {
		t.Errorf("exit code %d, want 4:\n%s", code, p.Output())
	}
	h.Journal.Await(func(l Line) bool { return l.Event == "term" })
	if ls := h.Command("ls", "jobs"); ls.Wait() != 0 || !strings.Contains(ls.Output(), "cancelled") {
		t.Error(ls.Output())
	}
}

// The second interrupt ends everything at once, however stubborn a command is.
func TestInterruptTwice(t *testing.T) {
	t.Parallel()
	h := New(t)
	h.Write("job.yaml", stubborn)
	p := h.Run("job.yaml")
	h.Journal.Await(Started("a", 0))
	p.Signal(syscall.SIGINT)
	p.Await("interrupt again")
	p.Signal(syscall.SIGINT)
	if code := p.Wait(); code != 4 {
		t.Errorf("exit code %d, want 4:\n%s", code, p.Output())
	}
}

// A run whose cluster belongs to another run ends with code 3 when that one is
// killed, and the next run goes on with both jobs.
func TestJoinedRunLosesItsOwner(t *testing.T) {
	t.Parallel()
	h := New(t)
	gates := map[string]string{}
	for _, name := range []string{"one", "two"} {
		gates[name] = h.Pipe(name + ".gate")
		h.Write(name+".yaml", "job: "+name+`
tasks:
  a: {command: "echo start `+name+` 1 > $CHAOS_JOURNAL; read x < `+gates[name]+`; echo $x", out: [y], stdout: y}
outputs:
  - {from: a.y, to: `+name+`.txt}
`)
	}
	owner := h.Run("one.yaml")
	h.Journal.Await(Started("one", 0))
	joined := h.Run("two.yaml")
	h.Journal.Await(Started("two", 0))
	joined.Await("job two (") // its task may start before the job is promised to be kept
	before := h.Journal.Len()
	owner.Kill()
	if code := joined.Wait(); code != 3 {
		t.Errorf("the joined run ended with %d, want 3:\n%s", code, joined.Output())
	}
	h.Write("nothing.yaml", "job: nothing\ntasks:\n  a: {command: \"true\"}\n")
	next := h.Run("nothing.yaml")
	for _, name := range []string{"one", "two"} {
		h.Journal.AwaitFrom(before, Started(name, 0))
		openGate(t, gates[name])
	}
	if code := next.Wait(); code != 0 {
		t.Errorf("the next run ended with %d:\n%s", code, next.Output())
	}
	for _, name := range []string{"one", "two"} {
		if got := h.Read(name + ".txt"); got != "1\n" {
			t.Errorf("the output of %s is %q", name, got)
		}
	}
}

// A second daemon on the state of a living one is refused, and says why.
func TestSecondDaemonRefused(t *testing.T) {
	t.Parallel()
	h := New(t)
	h.Controller()
	h.Agent()
	for _, p := range []*Process{
		h.start("second controller", Program(t, "cascade-controller"), "--state", filepath.Join(h.State, "controller"), "--listen", "ipc://"+h.Sockets+"/other.sock"),
		h.start("second agent", Program(t, "cascade-agent"), "--state", filepath.Join(h.State, "agent"), "--controller", h.Address(), "--runtime", h.Sockets),
	} {
		if code := p.Wait(); code != 3 || !strings.Contains(p.Output(), "another") && !strings.Contains(p.Output(), "in use") {
			t.Errorf("%s ended with %d:\n%s", p.name, code, p.Output())
		}
	}
}
