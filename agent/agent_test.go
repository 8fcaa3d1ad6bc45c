//go:build linux

package agent

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade/agent/internal/testmodule"
	"github.com/cascade-run/cascade/comms"
	exec "github.com/cascade-run/cascade/executor"
)

// Functions of the tests' executors, which are this binary.

type number struct{ N int }

func one(_ context.Context, p number) (int, error) { return p.N, nil }

func double(_ context.Context, n int) (int, error) { return 2 * n, nil }

func explode(_ context.Context, _ number) (int, error) { panic("boom") }

// crash kills its own process in the first N attempts.
func crash(ctx context.Context, p number) (int, error) {
	if int(exec.TaskOf(ctx).Attempt) <= p.N {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		<-ctx.Done()
	}
	return int(exec.TaskOf(ctx).Attempt), nil
}

// freeze stops its own process in the first N attempts, as a debugger would.
func freeze(ctx context.Context, p number) (int, error) {
	if int(exec.TaskOf(ctx).Attempt) <= p.N {
		if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
			return 0, err
		}
		<-ctx.Done()
	}
	return int(exec.TaskOf(ctx).Attempt), nil
}

// fill makes N numbers: 0, 1, 2, ...
func fill(ctx context.Context, p number) ([]float64, error) {
	v, err := exec.Alloc[float64](ctx, p.N)
	if err != nil {
		return nil, err
	}
	for i := range v.Data {
		v.Data[i] = float64(i)
	}
	return v.Data, nil
}

func add(_ context.Context, v []float64) (float64, error) {
	var sum float64
	for _, x := range v {
		sum += x
	}
	return sum, nil
}

// scribble writes to its input from a goroutine of its own.
func scribble(_ context.Context, v []float64) (float64, error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		v[len(v)/2] = math.Pi
	}()
	<-done
	return 0, nil
}

// explodeElsewhere panics where nobody can recover it.
func explodeElsewhere(ctx context.Context, p number) (int, error) {
	if p.N == 0 {
		var sink [64]byte
		return dive(p.N, sink), nil
	}
	go func() { panic(fmt.Sprint("boom ", p.N)) }()
	<-ctx.Done()
	return 0, ctx.Err()
}

// dive ends with the stack.
func dive(n int, room [64]byte) int {
	if n < 0 {
		return n
	}
	room[n%64]++
	if n < 0 {
		return n
	}
	return dive(n+1, room) + int(room[0])
}

// page makes 4000 bytes, which travel in messages.
func page(_ context.Context, p number) (string, error) { return strings.Repeat("x", 4000), nil }

func lengths(_ context.Context, all exec.List[string]) (int, error) {
	return len(strings.Join(all.Values(), "")), nil
}

// talk writes N lines to its log.
func talk(ctx context.Context, p number) (int, error) {
	for i := range p.N {
		if _, err := fmt.Fprintf(exec.TaskOf(ctx).Log, "line %d\n", i); err != nil {
			return 0, err
		}
	}
	return p.N, nil
}

// hoard takes N MiB of private memory and, when that is more than it is granted, waits for its end.
func hoard(ctx context.Context, p number) (int, error) {
	all := bytes.Repeat([]byte{1}, p.N<<20)
	if int64(len(all)) > exec.TaskOf(ctx).Resources.Memory {
		<-ctx.Done()
	}
	return len(all), nil
}

// shout writes N KiB to standard error of the process.
func shout(_ context.Context, p number) (int, error) {
	text := strings.Repeat("shouting", 128)
	for range p.N {
		if _, err := fmt.Fprint(os.Stderr, text); err != nil {
			return 0, err
		}
	}
	return p.N, nil
}

// nest starts a process that leaves its session and group, tells both ids through
// the FIFO named by NEST_FIFO, and waits.
func nest(ctx context.Context, _ number) (int, error) {
	script := `setsid sh -c 'echo '$PPID' $$ > "$NEST_FIFO"; exec sleep 1000' & wait`
	cmd := osexec.Command("/bin/sh", "-c", script)
	if err := cmd.Run(); err != nil {
		return 0, err
	}
	return 0, ctx.Err()
}

func register[A, X any](name string, fn func(context.Context, A) (X, error), names string) bool {
	exec.Default.Register(&exec.Func{Name: name, Call: func(ctx context.Context, in, out []any) error {
		x, err := fn(ctx, exec.As[A](in[0]))
		out[0] = x
		return err
	}}, fn, names)
	return true
}

var _ = register("one", one, "with -> n") &&
	register("double", double, "n -> n2") &&
	register("explode", explode, "with -> n") &&
	register("crash", crash, "with -> n") &&
	register("page", page, "with -> text") &&
	register("lengths", lengths, "all -> n") &&
	register("explodeElsewhere", explodeElsewhere, "with -> n") &&
	register("freeze", freeze, "with -> n") &&
	register("fill", fill, "with -> v") &&
	register("add", add, "v -> sum") &&
	register("scribble", scribble, "v -> x") &&
	register("talk", talk, "with -> n") &&
	register("shout", shout, "with -> n") &&
	register("hoard", hoard, "with -> n") &&
	register("nest", nest, "with -> n")

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

func TestSharedMemory(t *testing.T) {
	h := startHost(t, nil)
	const n = 1 << 20
	j := h.submit(fmt.Sprintf(`
job: memory
tasks:
  fill: {run: fill, with: {n: %d}, out: [v]}
  add: {run: add, in: {v: fill.v}, out: [sum]}
outputs: [fill.v, add.sum]
`, n))
	if got := j.ended(); got != "fill finished 1\nadd finished 1" {
		t.Fatalf("got %s", got)
	}
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

// An array of more than 4 GiB is written in place, and read without a copy.
func TestHugeArray(t *testing.T) {
	if testing.Short() {
		t.Skip("4 GiB of shared memory")
	}
	const n = 4<<30/8 + 1000
	memory, err := memoryTotal("/sys/fs/cgroup", "/proc/self/cgroup", "/proc/meminfo")
	room, _, roomErr := freeSpace(shmFolder)
	if err := errors.Join(err, roomErr); err != nil {
		t.Fatal(err)
	}
	if memory < 16<<30 || room < 6<<30 {
		t.Skipf("%d bytes of memory, of which %d may be shared, are too few", memory, room)
	}
	h := startHost(t, func(c *Config) { c.Store, c.Memory = 5<<30, 8<<30 })
	j := h.submit(fmt.Sprintf(`
job: huge
tasks:
  fill: {run: fill, with: {n: %d}, out: [v]}
  add: {run: add, in: {v: fill.v}, out: [sum]}
outputs: [fill.v, add.sum]
`, n))
	if got := j.ended(); got != "fill finished 1\nadd finished 1" {
		t.Fatalf("got %s", got)
	}
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

func TestTooMuchMemory(t *testing.T) {
	h := startHost(t, nil)
	j := h.submit(`
job: memory
keep_going: true
tasks:
  within: {run: hoard, with: {n: 20}, out: [n], resources: {memory: 100MiB}}
  function: {run: hoard, with: {n: 400}, out: [n], resources: {memory: 100MiB}}
  command: {command: "x=$(head -c 200000000 /dev/zero | tr '\\0' x); echo $x > ${out.x}; sleep 1000", out: [x], resources: {memory: 20MiB}}
`)
	got := strings.Split(j.ended(), "\n")
	j.dump()
	for i, want := range []string{"within finished ", "function failed 1 out of memory: it used ", "command failed 1 out of memory: it used "} {
		if i >= len(got) || !strings.HasPrefix(got[i], want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestNeighbourOfTooMuch: who is within its grant goes on beside who is not, in its first attempt.
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
  hoard: {run: hoard, with: {n: 400}, out: [n], resources: {memory: 100MiB}, retries: 1}
`, pipe))
	hoard := j.event("hoard", comms.EventFailed)
	if hoard.Attempt != 2 || hoard.Error.Kind != comms.ErrorMemory || !strings.Contains(hoard.Error.Message, "it used ") {
		t.Errorf("hoard ended in attempt %d with %v; want its retry to fail too", hoard.Attempt, hoard.Error)
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

func TestOutputsOutliveTheAgent(t *testing.T) {
	state := t.TempDir()
	h := startHost(t, func(c *Config) { c.State = state })
	j := h.submit(`
job: keep
tasks:
  fill: {run: fill, with: {n: 100000}, out: [v]}
  lost: {run: fill, with: {n: 100000}, out: [v]}
  add: {run: add, in: {v: lost.v}, out: [sum]}
outputs: [fill.v]
`)
	if got := j.ended(); strings.Count(got, "finished 1") != 3 {
		t.Fatalf("got %s", got)
	}
	d := j.output("fill")
	before := h.bytes(j.id, d)
	if err := h.stop(); err != nil {
		t.Fatal(err)
	}
	h = startHost(t, func(c *Config) { c.State = state })
	c := h.ctrl
	c.await("a snapshot", func() bool { return c.known.Done })
	if len(c.known.Jobs) != 1 || c.known.Jobs[0].Job != j.id || len(c.known.Jobs[0].Datasets) != 1 || c.known.Jobs[0].Datasets[0].Ref != d.Ref {
		t.Fatalf("the next agent has %+v", c.known.Jobs)
	}
	if after := h.bytes(j.id, d); !bytes.Equal(before, after) {
		t.Errorf("%d bytes became %d other bytes", len(before), len(after))
	}
}

func TestAgentKilled(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ctrl := newFakeController(t)
	child := osexec.Command(os.Args[0])
	child.Env = append(os.Environ(), "CASCADE_TEST_AGENT="+state, "CASCADE_TEST_CONTROLLER="+ctrl.ln.Addr(), "NEST_FIFO="+fifo)
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, ctrl: ctrl, dir: dir}
	j := h.submit(`
job: nest
tasks:
  fill: {run: fill, with: {n: 10000}, out: [v]}
  large: {run: fill, with: {n: 2000000}, out: [v]}
  nest: {run: nest, with: {n: 1}, out: [n]}
outputs: [fill.v, large.v]
`)
	var small, big []byte
	for i := range 10000 {
		small = binary.LittleEndian.AppendUint64(small, math.Float64bits(float64(i)))
	}
	for i := range 2000000 {
		big = binary.LittleEndian.AppendUint64(big, math.Float64bits(float64(i)))
	}
	j.output("fill")
	j.output("large")
	text, err := os.ReadFile(fifo)
	if err != nil {
		t.Fatal(err)
	}
	watch := &deathWatch{t: t}
	for _, word := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Fatalf("ids %q", text)
		}
		watch.add(pid)
	}
	if len(watch.fds) != 2 {
		t.Fatalf("ids %q", text)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	child.Wait()
	watch.await()

	named := Agent{cfg: Config{Name: "host", State: state}}
	dir = filepath.Join(shmFolder, fmt.Sprintf("cascade-%d-%s", os.Getuid(), named.storeName()))
	for _, unsealed := range []string{"a77", "f78", "o79"} {
		if err := os.WriteFile(filepath.Join(dir, unsealed), make([]byte, 4096), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The next agent of the same state folder takes over what was sealed, and clears away all else.
	h = startHost(t, func(c *Config) { c.State = state })
	c := h.ctrl
	c.await("a snapshot", func() bool { return c.known.Done })
	if len(c.known.Jobs) != 1 || c.known.Jobs[0].Job != j.id || len(c.known.Jobs[0].Datasets) != 2 {
		t.Fatalf("the next agent has %+v", c.known.Jobs)
	}
	for i, want := range [][]byte{small, big} {
		if got := h.bytes(j.id, c.known.Jobs[0].Datasets[i]); !bytes.Equal(got, want) {
			t.Errorf("dataset %d has %d bytes and had %d others", i, len(got), len(want))
		}
	}
	c.send(&comms.Steer{Job: j.id, Action: comms.SteerForget})
	if got := h.submit("job: between\ntasks:\n  one: {run: one, with: {n: 1}, out: [n]}\n").ended(); got != "one finished 1" {
		t.Errorf("got %s", got)
	}
	left, err := os.ReadDir(h.agent.store.Dir())
	for _, e := range left {
		// Memory is kept for the next dataset. The warm executor of the new agent has the next number.
		if name := e.Name(); err != nil || (!strings.HasPrefix(name, "f") || name == "f78") && !slices.Contains([]string{"lock", "index", "alive", "a1", fmt.Sprintf("c%d", h.agent.started.Executor+1)}, name) {
			t.Errorf("left behind: %s, %v", name, err)
		}
	}
	if got := h.submit("job: again\ntasks:\n  one: {run: one, with: {n: 1}, out: [n]}\n").ended(); got != "one finished 1" {
		t.Errorf("got %s", got)
	}
}

// runAgent is the life of the agent that TestAgentKilled kills.
func runAgent(state string) error {
	a, err := New(Config{Name: "host", Controller: os.Getenv("CASCADE_TEST_CONTROLLER"), State: state, Cache: state,
		CPU: 2000, Memory: 1 << 30, Store: 64 << 20})
	if err != nil {
		return err
	}
	return errors.Join(a.Run(context.Background()), a.Close())
}

// deathWatch waits for the ends of processes that are not our children.
type deathWatch struct {
	t   *testing.T
	fds []int
}

func (w *deathWatch) add(pid int) {
	w.t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		w.t.Fatalf("process %d: %v", pid, err)
	}
	w.fds = append(w.fds, fd)
}

// await fails when a process lives on; the limit only keeps a failing test from hanging.
func (w *deathWatch) await() {
	w.t.Helper()
	for _, fd := range w.fds {
		for {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 20_000)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if n != 1 {
				w.t.Error("a process outlives the agent")
			}
			break
		}
		unix.Close(fd)
	}
}
