//go:build linux

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
	exec "github.com/cascade-run/cascade/executor"
	"github.com/cascade-run/cascade/internal/testing/testmodule"
	"github.com/cascade-run/cascade/internal/testing/tier"
)

func TestRun(t *testing.T) {
	h := startHost(t, nil)
	j := h.submit(`
job: run
tasks:
  one: {run: one, with: {n: 21}, out: [n]}
  double: {run: double, in: {n: one.n}, out: [n2]}
outputs: [double.n2]
`)
	if got := j.ended(); got != "one finished 1\ndouble finished 1" {
		t.Errorf("got %s", got)
	}
	if b := h.bytes(j.id, j.output("double")); string(b) != "\x2a" {
		t.Errorf("output %x", b)
	}
}

func TestErrorsOfTasks(t *testing.T) {
	h := startHost(t, nil)
	j := h.submit(`
job: errors
keep_going: true
tasks:
  boom: {run: explode, with: {n: 1}, out: [n]}
  after: {run: double, in: {n: boom.n}, out: [n2]}
  unknown: {run: nosuch, out: [n]}
`)
	got := j.ended()
	for _, want := range []string{"boom failed 1 panic: ", "after skipped", "unknown failed 1 setup: "} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}

func TestExecutorKilled(t *testing.T) {
	h := startHost(t, nil)
	j := h.submit("job: crash\ntasks:\n  once: {run: crash, with: {n: 1}, out: [n]}\n")
	if got := j.ended(); got != "once finished 2" {
		t.Errorf("got %s", got)
	}
	if e := j.event("once", comms.EventRetry); e.Error == nil || e.Error.Kind != comms.ErrorCrash || e.Error.Signal != "SIGKILL" {
		t.Errorf("retry after %+v", e.Error)
	}
	j = h.submit("job: crash\ntasks:\n  always: {run: crash, with: {n: 100}, out: [n]}\n")
	if got := j.ended(); !strings.HasPrefix(got, "always failed 3 poison: ") || !strings.Contains(got, "ended by SIGKILL") {
		t.Errorf("got %s", got)
	}
}

// A panic that ends the executor is the task's error, counted against its retries.
func TestPanicInAnotherGoroutine(t *testing.T) {
	h := startHost(t, nil)
	j := h.submit(`
job: panics
keep_going: true
tasks:
  once: {run: explodeElsewhere, with: {n: 7}, out: [n]}
  twice: {run: explodeElsewhere, with: {n: 8}, out: [n], retries: 1}
  deep: {run: explodeElsewhere, with: {n: 0}, out: [n]}
  one: {run: one, with: {n: 1}, out: [n]}
`)
	want := "once failed 1 panic: boom 7\ntwice failed 2 panic: boom 8\ndeep failed 1 panic: fatal error: stack overflow\none finished 1"
	if got := j.ended(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for task, frame := range map[string]string{"once": "explodeElsewhere", "deep": "dive"} {
		if e := j.event(task, comms.EventFailed).Error; !strings.HasPrefix(e.Stack, "goroutine ") || !strings.Contains(e.Stack, frame) {
			t.Errorf("%s: stack is %.300q", task, e.Stack)
		}
	}
}

// A reduction over many small outputs gets a message that is larger than most.
func TestManySmallInputs(t *testing.T) {
	if testing.Short() || raced {
		t.Skip("80 MB in one message: two seconds, and minutes under the race detector")
	}
	h := startHost(t, nil)
	const n = 20000
	j := h.submit(fmt.Sprintf(`
job: many
tasks:
  page: {for: {i: "0..%d"}, run: page, with: {n: 1}, out: [text]}
  all: {run: lengths, in: {all: "page[*].text"}, out: [n]}
outputs: [all.n]
`, n-1))
	j.drained()
	if e := j.event("all", comms.EventFinished); len(e.Outputs) != 1 {
		t.Errorf("got %+v", e)
	}
}

// A process that is stopped ends by itself never: it is found, killed, and its
// task tried again. One behind it is no attempt.
func TestExecutorFrozen(t *testing.T) {
	h := startHost(t, func(cfg *Config) { cfg.CPU, cfg.Limits.Stopped = 1000, 300*time.Millisecond })
	j := h.submit("job: frozen\ntasks:\n  once: {run: freeze, with: {n: 1}, out: [n]}\n  other: {run: one, with: {n: 1}, out: [n]}\n")
	if got := j.ended(); !strings.Contains(got, "once finished 2") || !strings.Contains(got, "other finished 1") {
		t.Errorf("got %s", got)
	}
	if e := j.event("once", comms.EventRetry); e.Error == nil || e.Error.Kind != comms.ErrorCrash || !strings.Contains(e.Error.Message, "it was stopped") {
		t.Errorf("retry after %+v", e.Error)
	}
}

// TestExecutorLinkBreaks: the link of an executor breaks while its process lives,
// and perhaps is stopped. The process ends, and its task is tried again.
func TestExecutorLinkBreaks(t *testing.T) {
	for _, stop := range []bool{false, true} {
		t.Run(fmt.Sprint("stopped ", stop), func(t *testing.T) {
			h := startHost(t, func(cfg *Config) { cfg.CPU, cfg.Limits.Stopped = 1000, time.Hour })
			pipe := filepath.Join(h.dir, "pipe")
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			j := h.submit(fmt.Sprintf("job: link\ntasks:\n  wait: {command: \"cat %s > ${out.x}\", out: [x]}\n", pipe))
			j.event("wait", comms.EventStarted)
			loop, pids := h.agent.loop, make(chan []int, 1)
			h.agent.in.Push(item{note: func() {
				var all []int
				for _, ex := range loop.executors {
					if ex.out.link == nil {
						continue
					}
					all = append(all, ex.proc.PID())
					if stop {
						if err := ex.proc.Signal(syscall.SIGSTOP); err != nil {
							t.Error(err)
						}
					}
					ex.out.link.Abort(errors.New("cut by the test"))
				}
				pids <- all
			}})
			if all := <-pids; len(all) != 1 {
				t.Fatalf("executors %v", all)
			}
			e := j.event("wait", comms.EventRetry)
			if e.Error == nil || e.Error.Kind != comms.ErrorCrash {
				t.Errorf("retry after %+v", e.Error)
			}
			if err := os.WriteFile(pipe, []byte("on"), 0); err != nil {
				t.Fatal(err)
			}
			if e := j.event("wait", comms.EventFinished); e.Attempt != 2 {
				t.Errorf("finished in attempt %d", e.Attempt)
			}
			j.drained()
		})
	}
}

// fillAndAdd runs a job that adds up n numbers, and keeps both.
func (h *host) fillAndAdd(n int) *job {
	h.t.Helper()
	j := h.submit(fmt.Sprintf(`
job: memory
tasks:
  fill: {run: fill, with: {n: %d}, out: [v]}
  add: {run: add, in: {v: fill.v}, out: [sum]}
outputs: [fill.v, add.sum]
`, n))
	if got := j.ended(); got != "fill finished 1\nadd finished 1" {
		h.t.Fatalf("got %s", got)
	}
	return j
}

func TestSharedMemory(t *testing.T) {
	h := startHost(t, nil)
	const n = 1 << 20
	j := h.fillAndAdd(n)
	d := j.output("fill")
	if d.Place.Kind != comms.PlaceSegment || d.Size != 8*n {
		t.Errorf("dataset of %d bytes at a place of kind %d", d.Size, d.Place.Kind)
	}
	if b := h.bytes(j.id, d); len(b) != 8*n || string(b[:16]) != "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xf0\x3f" {
		t.Errorf("%d bytes: %x...", len(b), b[:min(16, len(b))])
	}
	dir := h.agent.store.Dir()
	if err := h.stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("shared memory after the agent's end: %v", err)
	}
}

// Files that a command leaves beside its outputs go with the attempt, however that ends.
func TestBesideTheOutput(t *testing.T) {
	h := startHost(t, nil)
	for _, c := range []struct{ name, command, want string }{
		{"small", "echo 1 > ${out.x}; echo 2 > ${out.x}.bai", "a finished 1"},
		{"large", "head -c 300000 /dev/zero > ${out.x}; echo 2 > ${out.x}.bai", "a finished 1"},
		{"withheld", "echo 1 > ${out.x}; d=$(dirname ${out.x})/d; mkdir $d; touch $d/f; chmod 0 $d", "a finished 1"},
		{"failed", "echo 2 > ${out.x}.tmp; exit 3", "a failed 1 exit: "},
		{"killed", `test "$CASCADE_ATTEMPT" = 2 || { echo 2 > ${out.x}.tmp; kill -9 $PPID; }; echo 1 > ${out.x}`, "a finished 2"},
	} {
		j := h.submit(fmt.Sprintf("job: beside\ntasks: {a: {command: %q, out: [x]}}\noutputs: [a.x]\n", c.command))
		if got := j.ended(); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
		removed := make(chan bool)
		h.agent.segmentLane.do(func() { close(removed) })
		<-removed
		left, err := os.ReadDir(h.agent.store.Dir())
		for _, e := range left {
			if info, infoErr := e.Info(); err != nil || infoErr != nil || e.IsDir() || info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s: %s is in the store: %v, %v, %v", c.name, e.Name(), info, err, infoErr)
			}
		}
	}
}

// An array of more than 4 GiB is written in place, and read without a copy.
func TestHugeArray(t *testing.T) {
	tier.Nightly(t, "4 GiB of shared memory")
	const n = 4<<30/8 + 1000
	memory, err := memoryTotal("/sys/fs/cgroup", "/proc/self/cgroup", "/proc/meminfo")
	room, _, roomErr := freeSpace(shmFolder)
	disk, _, diskErr := freeSpace(t.TempDir()) // the end keeps what can still be asked for
	if err := errors.Join(err, roomErr, diskErr); err != nil {
		t.Fatal(err)
	}
	if memory < 16<<30 || room < 6<<30 || disk < 6<<30 {
		t.Skipf("%d bytes of memory, of which %d may be shared, and %d of disk are too few", memory, room, disk)
	}
	h := startHost(t, func(c *Config) { c.Store, c.Memory = 5<<30, 8<<30 })
	j := h.fillAndAdd(n)
	for _, task := range []string{"fill", "add"} {
		e := j.event(task, comms.EventFinished)
		if e.Usage == nil || e.Usage.Copied != 0 || e.Usage.PeakRSS > 1<<30 {
			t.Errorf("%s: usage is %+v", task, e.Usage)
		}
	}
	sum, err := exec.Decode[float64](exec.Default, "msgpack", "", nil, h.bytes(j.id, j.output("add")))
	var want float64 // added up in the same order, with the same roundings
	for i := range n {
		want += float64(i)
	}
	if err != nil || sum != want {
		t.Errorf("sum is %v, want %v, %v", sum, want, err)
	}
}

// A client that asks for far more than it reads is served in the end, and the agent works on meanwhile.
func TestSlowClient(t *testing.T) {
	h := startHost(t, nil)
	j := h.submit("job: slow\ntasks:\n  fill: {run: fill, with: {n: 131072}, out: [v]}\noutputs: [fill.v]\n")
	d := j.output("fill")
	const requests = 200
	got := make(chan answer) // not buffered: the link's reader waits for the test
	link, err := comms.Dial(context.Background(), h.agent.Addr(), comms.Config{
		Self:    comms.Identity{Role: "client", Name: "slow", Incarnation: 1, PID: os.Getpid()},
		Handler: answers(got), Replay: true, Inproc: h.ctrl.inproc,
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(requests) {
		m := &comms.Fetch{Req: i, Data: comms.DatasetID{Job: j.id, DatasetRef: d.Ref}}
		if err := link.Send(comms.Encode(m), nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := h.submit("job: other\ntasks:\n  one: {run: one, with: {n: 1}, out: [n]}\n").ended(); got != "one finished 1" {
		t.Errorf("other job: %s", got)
	}
	seen := map[uint64]bool{}
	for range requests {
		a := <-got
		c, ok := a.msg.(*comms.Chunk)
		if !ok || len(a.body) != 1<<20 {
			t.Fatalf("answer %T with %d bytes, error %v", a.msg, len(a.body), a.err)
		}
		seen[c.Req] = true
	}
	if len(seen) != requests {
		t.Errorf("%d requests were answered", len(seen))
	}
	if err := link.Close(); err != nil {
		t.Error(err)
	}
}

func TestWriteToInput(t *testing.T) {
	h := startHost(t, nil)
	for _, c := range []struct{ n, task, want string }{
		{"100000", "run: scribble", "scribble failed 1 wrote to input: it wrote to input v, "}, // the first attempt is the last
		{"10", "run: scribble", "scribble failed 1 wrote to input: it wrote to input \"v\", "},
		{"100000", `command: "echo 1 > ${in.v}; : > ${out.x}"`, commandThatWrites(false)},
		{"10", `command: "echo 1 > ${in.v}; : > ${out.x}"`, commandThatWrites(false)},
		{"100000", `command: "chmod 600 ${in.v}; echo 1 > ${in.v}; : > ${out.x}"`, commandThatWrites(true)},
		{"10", `command: "rm -f ${in.v}; echo 1 > ${in.v}; : > ${out.x}"`, commandThatWrites(true)},
	} {
		j := h.submit(fmt.Sprintf(`
job: scribble
tasks:
  fill: {run: fill, with: {n: %s}, out: [v]}
  scribble: {%s, in: {v: fill.v}, out: [x]}
  add: {run: add, in: {v: fill.v}, out: [sum]}
  same: {for: {i: "0..1"}, command: "cksum ${in.v} > ${out.x}", in: {v: fill.v}, out: [x]}
keep_going: true
`, c.n, c.task))
		got := j.ended()
		if !strings.Contains(got, c.want) || strings.Count(got, " finished ") < 4 {
			j.dump()
			t.Errorf("%s of %s: got %s\nwant %s", c.task, c.n, got, c.want)
		}
	}
}

// commandThatWrites is how a command fares that ends well whatever happens to its
// writing: nothing comes of it where it is hindered; else it is seen. force: it
// takes off the file's protection first, which only root's own keeps it from.
func commandThatWrites(force bool) string {
	if force && os.Geteuid() != 0 {
		return "scribble failed 1 wrote to input: "
	}
	return "scribble finished 1"
}

func TestSpill(t *testing.T) {
	h := startHost(t, func(c *Config) { c.Store = 4 << 20 })
	yaml := strings.Builder{}
	yaml.WriteString("job: spill\ntasks:\n")
	for i := range 6 { // 6 times 1 MiB, all needed at the end, one after the other
		fmt.Fprintf(&yaml, "  fill%d: {run: fill, with: {n: 131072}, out: [v]}\n", i)
	}
	for i := range 6 {
		fmt.Fprintf(&yaml, "  add%d: {run: add, in: {v: fill%d.v}, out: [sum]}\n", i, i)
	}
	yaml.WriteString("outputs: [fill0.v, fill1.v, fill2.v, fill3.v, fill4.v, fill5.v]\n")
	j := h.submit(yaml.String())
	if got := j.ended(); strings.Count(got, "finished") != 12 {
		t.Fatalf("got %s", got)
	}
	for i := range 6 {
		if b := h.bytes(j.id, j.output(fmt.Sprintf("fill%d", i))); len(b) != 1<<20 || b[8+6] != 0xf0 {
			t.Errorf("fill%d: %d bytes", i, len(b))
		}
	}
	files, err := filepath.Glob(filepath.Join(h.agent.cfg.State, "spill", "*.spill"))
	if err != nil || len(files) < 2 {
		t.Errorf("spill files %v, %v", files, err)
	}
}

func TestLogs(t *testing.T) {
	h := startHost(t, func(c *Config) { c.Limits.TaskLog = 1 << 20 })
	j := h.submit(`
job: logs
tasks:
  little: {run: talk, with: {n: 3}, out: [n]}
  much: {run: talk, with: {n: 200000}, out: [n]}
  silent: {run: one, with: {n: 3}, out: [n]}
`)
	if got := j.ended(); strings.Count(got, "finished 1") != 3 {
		t.Fatalf("got %s", got)
	}
	if got := h.log(j.id, "little"); got != "line 0\nline 1\nline 2\n" {
		t.Errorf("little: %q", got)
	}
	if got := h.log(j.id, "much"); !strings.HasPrefix(got, "line 0\n") || !strings.HasSuffix(got, "the log is cut here: it reached 1048576 bytes]\n") {
		t.Errorf("much: %d bytes, end %q", len(got), got[max(0, len(got)-100):])
	}
	if got := h.log(j.id, "silent"); got != "" {
		t.Errorf("silent: %q", got)
	}
}

// TestTooMuchMemory: a task that takes more than it was granted is ended, and tried again
// with more while the host has more; then its error says what it was tried with. What takes too
// much takes 400 MiB: more than all that tasks have, the slack of 64 MiB, and the 130 that a
// task before may have let go without the watch seeing it.
func TestTooMuchMemory(t *testing.T) {
	h := startHost(t, func(c *Config) { c.Memory = 160 << 20 })
	j := h.submit(`
job: memory
keep_going: true
tasks:
  within: {run: hoard, with: {n: 20}, out: [n], resources: {memory: 100MiB}}
  function: {run: hoard, with: {n: 400}, out: [n], resources: {memory: 100MiB}}
  command: {command: "awk 'BEGIN {s = \"x\"; while (length(s) < 8000000) s = s s; for (i = 0; i < 50; i++) a[i] = s i; system(\"sleep 1000\")}' > ${out.x}", out: [x], resources: {memory: 120MiB}}
  grows: {run: hoard, with: {n: 130}, out: [n], resources: {memory: 40MiB}}
  bounded: {run: hoard, with: {n: 400}, out: [n], resources: {memory: 100MiB, memory_max: 100MiB}}
`)
	got := strings.Split(j.ended(), "\n")
	j.dump()
	const all = `which is all that tasks have on this host: say in resources: memory what it needs$`
	for i, want := range []string{
		`^within finished \d$`,
		`^function failed \d out of memory: it used .* and was granted 160MiB.*; it was tried with 100MiB, 160MiB, ` + all,
		`^command failed \d out of memory: it used .* and was granted 160MiB.*; it was tried with 120MiB, 160MiB, ` + all,
		`^grows finished [2-9]$`,
		`^bounded failed \d out of memory: it used .* and was granted 100MiB.*; it was tried with 100MiB, its memory_max: say in resources: memory what it needs$`,
	} {
		if i >= len(got) || !regexp.MustCompile(want).MatchString(got[i]) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	// How much of its 130 MiB the watch saw before it ended the task is a matter of the moment.
	retry := j.event("grows", comms.EventRetry)
	if retry.Usage == nil || retry.Usage.PeakRSS < 40<<20 || retry.Count <= retry.Usage.PeakRSS || retry.Error == nil ||
		!regexp.MustCompile(`^it used .* and was granted 40MiB.*; tried again with \d+MiB$`).MatchString(retry.Error.Message) {
		t.Errorf("its first attempt ended with %+v, usage %+v, error %v", retry, retry.Usage, retry.Error)
	}
}

// TestGangOfTooMuch: the members of a gang take more than they were granted. They start over
// together, with more for each, and none of their retries is used up: they have none.
func TestGangOfTooMuch(t *testing.T) {
	h := startHost(t, func(c *Config) { c.Memory = 800 << 20 })
	j := h.submit(`
job: memory
tasks:
  ring: {gang: 2, run: hoard, with: {n: 130}, out: [n], resources: {memory: 40MiB}}
`)
	got := strings.Split(j.ended(), "\n")
	j.dump()
	for i := range 2 {
		if want := fmt.Sprintf(`^ring\[%d\] finished [2-9]$`, i); i >= len(got) || !regexp.MustCompile(want).MatchString(got[i]) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestNeighbourOfTooMuch: who is within its grant goes on beside who is not, in its first
// attempt. Retries are not for that.
func TestNeighbourOfTooMuch(t *testing.T) {
	h := startHost(t, nil)
	pipe := filepath.Join(h.dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	j := h.submit(fmt.Sprintf(`
job: memory
keep_going: true
tasks:
  beside: {command: "x=$(head -c 20000000 /dev/zero | tr '\\0' x); cat %[1]s > ${out.x}", out: [x], resources: {memory: 100MiB}}
  hoard: {run: hoard, with: {n: 400}, out: [n], resources: {memory: 100MiB}}
`, pipe))
	if hoard := j.event("hoard", comms.EventFinished); hoard.Attempt < 2 {
		t.Errorf("hoard finished in attempt %d, with less than it took", hoard.Attempt)
	}
	if err := os.WriteFile(pipe, []byte("on"), 0); err != nil {
		t.Fatal(err)
	}
	if e := j.event("beside", comms.EventFinished); e.Attempt != 1 {
		t.Errorf("the neighbour finished in attempt %d", e.Attempt)
	}
	j.drained()
}

func TestStderrFlood(t *testing.T) {
	h := startHost(t, nil)
	j := h.submit(`
job: flood
tasks:
  shout: {run: shout, with: {n: 20000}, out: [n]}
`)
	if got := j.ended(); got != "shout finished 1" {
		t.Errorf("got %s", got)
	}
	if err := h.stop(); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(filepath.Join(h.agent.cfg.State, "logs", j.id.String(), "shout.log"))
	if err != nil || info.Size() != 20000<<10 {
		t.Errorf("log %+v, %v", info, err)
	}
}

func TestGoEnvironment(t *testing.T) {
	module := testmodule.Make(t, map[string]string{"double/double.go": testmodule.Double, "broken/broken.go": "package broken\n\nvar x int = y\n"})
	h := startHost(t, func(c *Config) { c.Dir = module })
	j := h.submit(`
job: environment
keep_going: true
environments:
  good: {go: ./double}
  bad: {go: ./broken}
  vars: {env: {SHOUT_MODE: "loud"}}
tasks:
  double: {run: "good:double", with: {n: 21}, out: [n]}
  broken: {run: "bad:double", with: {n: 21}, out: [n]}
  again: {run: "vars:double", in: {n: double.n}, out: [n2]}
  show: {environment: vars, command: "echo $SHOUT_MODE > ${out.text}", out: [text]}
outputs: [double.n, again.n2, show.text]
`)
	got := j.ended()
	if !strings.HasPrefix(got, "double finished 1\nbroken failed 1 setup: ") || !strings.Contains(got, "undefined: y") ||
		!strings.HasSuffix(got, "\nagain finished 1\nshow finished 1") {
		t.Fatalf("got %s", got)
	}
	for task, want := range map[string]string{"double": "\x2a", "again": "\x54", "show": "loud\n"} {
		if b := h.bytes(j.id, j.output(task)); string(b) != want {
			t.Errorf("%s: %q", task, b)
		}
	}
}

func TestEnvironmentThatCannotStart(t *testing.T) {
	module := testmodule.Make(t, map[string]string{"double/double.go": testmodule.Double + "\nfunc init() { panic(\"bad table\") }\n"})
	h := startHost(t, func(c *Config) { c.Dir = module })
	j := h.submit(`
job: environment
environments:
  panics: {go: ./double}
tasks:
  double: {run: "panics:double", with: {n: 21}, out: [n]}
`)
	if got := j.ended(); !strings.HasPrefix(got, "double failed 1 setup: ") || !strings.Contains(got, "bad table") {
		t.Errorf("got %s", got)
	}
}

// A client that went without a word, before it said that its answer had come, is no
// reason for the agent to end otherwise than in good order.
func TestClientThatWent(t *testing.T) {
	h := startHost(t, nil)
	got := make(chan answer, 2)
	link, err := comms.Dial(context.Background(), "ipc://"+filepath.Join(h.agent.cfg.Runtime, "agent.sock"), comms.Config{
		Self:    comms.Identity{Role: "client", Name: "test", Incarnation: 1, PID: os.Getpid()},
		Handler: answers(got), Replay: true, AckDelay: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := link.Send(comms.Encode(&comms.Fetch{Req: 1, Log: true, Task: "t"}), nil); err != nil {
		t.Fatal(err)
	}
	if a := <-got; a.err != nil {
		t.Fatal(a.err)
	}
	link.Abort(errors.New("the client is gone"))
	<-link.Done()
	if err := h.stop(); err != nil {
		t.Errorf("the agent ends with %v", err)
	}
}
