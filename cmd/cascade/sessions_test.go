package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	testoutput "github.com/cascade-run/cascade/internal/testing/output"
)

// gate is a job whose task tells when it runs and goes on when it is told: both
// through named pipes, so that no test has to guess how long something takes.
type gate struct {
	t          *testing.T
	name       string
	file       string
	up, onward string
}

func (h *host) gate(name string) *gate {
	g := &gate{t: h.t, name: name, file: name + ".yaml", up: filepath.Join(h.dir, name+".up"), onward: filepath.Join(h.dir, name+".on")}
	for _, pipe := range []string{g.up, g.onward} {
		if err := unix.Mkfifo(pipe, 0o600); err != nil {
			h.t.Fatal(err)
		}
	}
	h.write(g.file, fmt.Sprintf(`job: %s
tasks:
  wait: {command: "echo up > %s; read x < %s; echo $x", out: [word], stdout: word}
outputs:
  - {from: wait.word, to: %s.txt}
`, name, g.up, g.onward, name))
	return g
}

func (h *host) write(name, text string) {
	if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// runs waits until the task runs.
func (g *gate) runs() {
	g.t.Helper()
	heard(g.t, g.up)
}

// heard waits until a task writes to a pipe.
func heard(t *testing.T, pipe string) {
	t.Helper()
	f, err := os.OpenFile(pipe, os.O_RDWR|unix.O_NONBLOCK, 0) // opened for both, so that opening waits for nobody
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.SetReadDeadline(time.Now().Add(deadline)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 16)
	n, err := f.Read(b)
	if err != nil || string(b[:n]) != "up\n" {
		t.Fatalf("the task said %q, %v", b[:n], err)
	}
}

// open lets the task go on.
func (g *gate) open(word string) {
	if err := os.WriteFile(g.onward, []byte(word+"\n"), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

func (g *gate) result(want string) {
	if b, err := os.ReadFile(g.name + ".txt"); err != nil || string(b) != want+"\n" {
		g.t.Errorf("the output of %s is %q, %v", g.name, b, err)
	}
}

func (h *host) expect(c *call, want ...string) {
	h.t.Helper()
	got := c.wait()
	rest := got
	for _, w := range want {
		_, after, found := strings.Cut(rest, w)
		if !found {
			h.t.Fatalf("want %q in\n%s", w, got)
		}
		rest = after
	}
}

// A second run joins the first; the first ends only when both jobs have.
func TestRunsJoin(t *testing.T) {
	h := newHost(t)
	one, two := h.gate("one"), h.gate("two")
	first := h.start("", "run", one.file, "--cpu", "2")
	one.runs()
	second := h.start("", "run", two.file)
	two.runs()
	h.expect(h.start("", "ls", "hosts"), "local  ready  2")
	h.expect(h.start("", "status"), "two  running", "one  running")
	one.open("a")
	await(t, &first.err, "waiting for job two")
	one.result("a")
	two.open("b")
	h.expect(second, "job two done")
	h.expect(first, "job one done", "waiting for job two", "job two (JOB) done")
	two.result("b")
}

// A job whose tasks find no core is told of the jobs that have them.
func TestCoresAreTaken(t *testing.T) {
	h := newHost(t)
	one, two := h.gate("one"), h.gate("two")
	first := h.start("", "run", one.file, "--cpu", "1")
	one.runs()
	second := h.start("", "run", two.file)
	await(t, &second.err, "waits for a core: the only one is taken by 1 task of job one\n")
	one.open("a")
	two.runs()
	two.open("b")
	h.expect(second, "job two done")
	h.expect(first, "job one done")
}

func TestHoldAndRelease(t *testing.T) {
	h := newHost(t)
	one, two := h.gate("one"), h.gate("two")
	first := h.start("", "run", one.file, "--cpu", "2")
	one.runs()
	second := h.start("", "run", two.file, "--hold")
	await(t, &second.err, "held: cascade release")
	h.expect(h.start("", "explain", "two", "wait"), "wait: waiting", "held: cascade release JOB starts it")
	h.expect(h.start("", "release", "two"), "released job two (JOB)")
	two.runs()
	h.expect(h.start("", "cancel", "two"), "job two (JOB) is being cancelled")
	h.expect(second, "exit 4", "job two (JOB) was cancelled")
	one.open("a")
	h.expect(first, "job one done")
}

func TestInterruptCancels(t *testing.T) {
	h := newHost(t)
	one := h.gate("one")
	c := h.start("", "run", one.file)
	one.runs()
	await(t, &c.err, "job one (")
	c.interrupts <- os.Interrupt
	h.expect(c, "exit 4", "cancelling job JOB; interrupt again to end at once", "wait: 0/1 done, 1 cancelled", "job one (JOB) was cancelled",
		"kept: finished outputs; with retain: true in the job file all results", "go on  cascade rerun JOB  #", "after fixing: cascade run one.yaml --resume  #")
	h.expect(h.start("", "ls", "jobs"), "one  cancelled")
}

func TestSecondInterruptEnds(t *testing.T) {
	h := newHost(t)
	up := filepath.Join(h.dir, "up")
	if err := unix.Mkfifo(up, 0o600); err != nil {
		t.Fatal(err)
	}
	h.write("stubborn.yaml", fmt.Sprintf(`job: stubborn
tasks:
  a: {command: "trap '' TERM INT; echo up > %s; sleep 300; : > ${out.y}", out: [y]}
`, up))
	c := h.start("", "run", "stubborn.yaml")
	heard(t, up)
	await(t, &c.err, "job stubborn (")
	// Both at once: soon after the first the task is killed, and then there is nothing to end.
	c.interrupts <- os.Interrupt
	c.interrupts <- os.Interrupt
	h.expect(c, "exit 4", "interrupt again to end at once", "ended at once by the second interrupt")
}

// A job whose command was killed goes on with the next run, which waits for it
// and copies its outputs.
func TestRunGoesOnAfterKill(t *testing.T) {
	h := newHost(t)
	one := h.gate("one")
	killed := h.process("run", one.file)
	one.runs()
	killed.kill()

	const sentence = "cut off: no run is under way here; `cascade run` goes on with it"
	h.expect(h.start("", "ls", "jobs"), "one  cut off", "2> no run is under way here; `cascade run` goes on with 1 job")
	h.expect(h.start("", "ls", "jobs", "--json"), `"phase":"running"`, `"cut_off":"`+sentence)
	h.expect(h.start("", "status", "one"), "one (JOB) cut off: 0/1 done", sentence)
	h.expect(h.start("", "status", "one", "--json"), `"running":0`, `"cut_off":"`+sentence)
	h.expect(h.start("", "status", "--watch"), "exit 3", sentence)
	h.expect(h.start("", "logs", "one", "--follow"), "exit 3", "2> cascade: "+sentence)
	if rows := h.start("", "ls", "tasks", "one", "--json").wait(); strings.Contains(rows, "running") { // whether its start was stored is chance
		t.Errorf("a task of a job that is cut off runs:\n%s", rows)
	}
	h.expect(h.start("", "ls", "hosts"), "local  away")
	h.write("other.yaml", "job: other\ntasks:\n  a: {command: echo hi, out: [y], stdout: y}\n")
	c := h.start("", "run", "other.yaml", "--cpu", "2")
	one.runs()
	await(t, &c.err, "waiting for job one")
	one.open("again")
	h.expect(c, "job other done", "going on with job one (JOB), which was cut off", "waiting for job one", "job one (JOB) done, 1 output copied")
	one.result("again")
}

// The same command again after a kill goes on with the job, and does not run it twice;
// a job that is another by now is run beside it.
func TestRunAgainAfterKill(t *testing.T) {
	h := newHost(t)
	one := h.gate("one")
	killed := h.process("run", one.file)
	one.runs()
	killed.kill()

	c := h.start("", "run", one.file)
	one.runs()
	one.open("again")
	h.expect(c, "job one done", "going on with job one (JOB), which was cut off", "it is the job that was to run: it is not submitted again")
	one.result("again")
	if rows := h.start("", "ls", "jobs", "--json").wait(); strings.Count(rows, `"name":"one"`) != 1 {
		t.Errorf("jobs after the second run:\n%s", rows)
	}

	killed = h.process("run", one.file)
	one.runs()
	killed.kill()
	other := h.gate("other") // both may run at once
	h.edit(one.file, one.up, other.up)
	h.edit(one.file, one.onward, other.onward)
	c = h.start("", "run", one.file, "--cpu", "2")
	one.runs()
	other.runs()
	one.open("first")
	other.open("second")
	h.expect(c, "job one done", "going on with job one", "job one (JOB) done, 1 output copied")
}

// A job that this host is too small for now is left, and told so; with what it
// needs it goes on.
func TestRunLeavesWhatDoesNotFit(t *testing.T) {
	h := newHost(t)
	big := h.gate("big")
	h.edit(big.file, "stdout: word}", "stdout: word, resources: {licence: 2}}")
	h.expect(h.start("", "run", big.file), "exit 2", "task wait: no host has enough: it needs licence 2 (no host has any; --resource says how much one has)")
	held := h.process("run", big.file, "--resource", "licence=2", "--hold")
	await(t, held.log, "held: cascade release")
	held.kill()
	h.expect(h.start("", "status", "big", "--watch"), "exit 3", "big (JOB) held:", "held: no run is under way here; `cascade release` and then `cascade run` go on with it")
	h.expect(h.start("", "release", "big"))

	h.write("other.yaml", "job: other\ntasks:\n  a: {command: echo hi, out: [y], stdout: y}\n")
	h.expect(h.start("", "run", "other.yaml"), "job other done", "going on with job big",
		"job big (JOB) is left: this host cannot run it: task wait: no host has enough: it needs licence 2 (no host has any; --resource says how much one has) (cascade cancel JOB ends it)")
	c := h.start("", "run", "other.yaml", "--resource", "licence=2")
	big.runs()
	big.open("done")
	h.expect(c, "job other done", "job big (JOB) done")
	h.expect(h.start("", "rerun", "big", "wait"), "exit 2",
		"job big (JOB) is left: this host cannot run it: task wait: no host has enough: it needs licence 2 (no host has any; --resource says how much one has) (cascade cancel JOB ends it)")
}

// process is the command as a process of its own.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	log *testoutput.Buffer
}

func (h *host) process(args ...string) *process {
	self, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	p := &process{h.t, exec.Command(self, args...), &testoutput.Buffer{}}
	p.cmd.Env = append(os.Environ(), asCommand+"=1", "CASCADE_STATE="+h.state)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	return p
}

func (p *process) kill() {
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		p.t.Fatal(err)
	}
	_ = p.cmd.Wait() // it says that it was killed
}

func (h *host) edit(name, old, text string) {
	b, err := os.ReadFile(filepath.Join(h.dir, name))
	if err != nil || !strings.Contains(string(b), old) {
		h.t.Fatalf("edit %s: %q, %v", name, b, err)
	}
	h.write(name, strings.Replace(string(b), old, text, 1))
}

// Controller and agent as processes of their own, submit and what can be asked.
func TestSeparateProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("builds two programs")
	}
	h := newHost(t)
	wd, err := filepath.Abs(h.source)
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", bin, "../cascade-controller", "../cascade-agent", "../cascade-executor")
	build.Dir = wd
	if b, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	sockets := filepath.Join(h.state, "run")
	if err := os.Mkdir(sockets, 0o700); err != nil {
		t.Fatal(err)
	}
	address := "ipc://" + filepath.Join(sockets, "controller.sock")
	h.daemon("controller.sock", bin+"/cascade-controller", "--state", filepath.Join(h.state, "controller"), "--listen", address)
	h.write("big.yaml", "job: big\ntasks:\n  a: {command: echo hi, out: [y], stdout: y, resources: {licence: 1}}\n")
	early := h.start("", "run", "big.yaml", "--to", address)
	await(t, &early.err, "waits: no agent has joined the controller")
	h.expect(h.start("", "plan", "big", "--to", address), "no agent is connected: this plan is for the agents of before, and is not in use")
	h.expect(h.start("", "explain", "big", "a", "--to", address), "a: ", "waits", "no agent has joined the controller")
	h.daemon("controller is there", bin+"/cascade-agent", "--state", filepath.Join(h.state, "agent"), "--controller", address, "--name", "a1", "--runtime", sockets)

	await(t, &early.err, "waits: task a: no host has enough: it needs licence 1 (no host has any; --resource says how much one has)")
	h.expect(h.start("", "status", "big", "--to", address), "big (JOB) queued", "waits: task a")
	h.expect(h.start("", "status", "big", "--json", "--to", address), `"waits":"task a`)
	h.expect(h.start("", "cancel", "big", "--to", address))
	h.expect(early, "exit 4")

	one := h.gate("one")
	c := h.start("", "run", one.file, "--to", address)
	one.runs()
	h.expect(h.start("", "ls", "hosts", "--to", address), "a1  ready")
	one.open("far")
	h.expect(c, "job one done")
	one.result("far")
	h.expect(h.start("", "get", "last", "wait", "--to", address), "far")

	two := h.gate("two")
	h.expect(h.start("", "submit", two.file, "--to", address), "JOB")
	two.runs()
	h.expect(h.start("", "cancel", "two", "--to", address))
	h.expect(h.start("", "status", "two", "--watch", "--to", address), "two (JOB) cancelled")
}

// daemon starts a program that ends with the test, and waits until it prints the
// text.
func (h *host) daemon(text, name string, args ...string) {
	c := exec.Command(name, args...)
	log := &testoutput.Buffer{}
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		if err := c.Wait(); err != nil || h.t.Failed() {
			h.t.Errorf("%s: %v\n%s", filepath.Base(name), err, log)
		}
	})
	await(h.t, log, text)
}

// What only looks at a job ends at the first interrupt; the job goes on.
func TestInterruptEndsLooking(t *testing.T) {
	h := newHost(t)
	one, two := h.gate("one"), h.gate("two")
	first := h.start("", "run", one.file, "--cpu", "2")
	one.runs()
	second := h.start("", "run", two.file, "--hold")
	await(t, &second.err, "held: cascade release")
	for _, args := range [][]string{{"status", "two", "--watch"}, {"status", "--watch", "--json"}, {"logs", "one", "--follow"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			look := h.start("", args...)
			if args[0] == "status" {
				await(t, &look.out, "held")
			}
			look.interrupts <- os.Interrupt
			if got := look.wait(); !strings.HasPrefix(got, "exit 4\n") || strings.Contains(got, "2>") {
				t.Error(got)
			}
		})
	}
	h.expect(h.start("", "release", "two"))
	two.runs()
	two.open("b")
	one.open("a")
	h.expect(second, "job two done")
	h.expect(first, "job one done")
}

// The same of the process that a user has, with real signals.
func TestSignalEndsLooking(t *testing.T) {
	h := newHost(t)
	one := h.gate("one")
	run := h.start("", "run", one.file)
	one.runs()
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		look := h.process("status", "--watch")
		await(t, look.log, "running")
		if err := look.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if err := look.cmd.Wait(); look.cmd.ProcessState.ExitCode() != exitCancelled {
			t.Errorf("%v: %v", sig, err)
		}
	}
	one.open("a")
	h.expect(run, "job one done")
}
