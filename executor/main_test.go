package executor

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cascade-run/cascade/agent/postmortem"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/shm"
	"github.com/cascade-run/cascade/shm/ledger"
)

// TestMain re-executes this binary as an executor with the functions below.
func TestMain(m *testing.M) {
	if os.Getenv(EnvAddr) != "" {
		func1(Default, "scribbleElsewhere", scribbleElsewhere, "v -> n")
		func1(Default, "double", double, "n -> n2")
		func1(Default, "pid", ownPid, "n -> pid")
		func1(Default, "deaf", deaf, "n -> m")
		func1(Default, "chatty", chatty, "n -> m")
		func1(Default, "busy", busy, "n -> m")
		Main()
	}
	goleak.VerifyTestMain(m)
}

func scribbleElsewhere(_ context.Context, v []float64) (int, error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		v[7] = 1
	}()
	<-done
	return 0, nil
}

func ownPid(context.Context, int) (string, error) {
	return strconv.Itoa(os.Getpid()) + " " + os.Getenv(EnvAddr) + os.Getenv(EnvToken), nil
}

func chatty(_ context.Context, n int) (int, error) {
	fmt.Println("printed by", n)
	log.SetFlags(0)
	log.Println("logged by", n)
	if n%3 == 0 {
		return 0, errors.New("divisible")
	}
	return n, nil
}

// busy computes on its only core, without calling anybody, until its context has ended.
func busy(ctx context.Context, _ int) (int, error) {
	var ended atomic.Bool
	context.AfterFunc(ctx, func() { ended.Store(true) })
	for !ended.Load() {
	}
	return 0, context.Cause(ctx)
}

func deaf(context.Context, int) (int, error) { select {} }

// remote is a fakeAgent whose executor is a process behind a real link.
type remote struct {
	*fakeAgent
	cmd     *exec.Cmd
	link    chan *comms.Link
	l       *comms.Link
	crash   string
	ended   chan error
	control *shm.Control
}

// Up is called by the link.
func (r *remote) Up(l *comms.Link, _ comms.Identity, _ bool) { r.link <- l }

// Message is called by the link.
func (r *remote) Message(_ *comms.Link, head, _ []byte) {
	m, err := comms.Decode(head)
	if err != nil {
		r.t.Error(err)
		return
	}
	r.inbox <- m
}

// Credit is called by the link.
func (r *remote) Credit(*comms.Link) {}

// Down is called by the link.
func (r *remote) Down(*comms.Link, error) {}

func (r *remote) send(m comms.Message) {
	r.t.Helper()
	if err := r.l.Send(comms.Encode(m), nil); err != nil {
		r.t.Fatal(err)
	}
}

func startRemote(t *testing.T) (*remote, *fakeStore) {
	t.Helper()
	s := newFakeStore(t)
	r := &remote{fakeAgent: &fakeAgent{t: t, sealed: map[uint32]bool{}, inbox: make(chan comms.Message, 1000)},
		link: make(chan *comms.Link, 1), ended: make(chan error, 1)}
	dir, err := os.MkdirTemp("", "cx") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	ln, err := comms.Listen("ipc://"+filepath.Join(dir, "s"), comms.Config{Self: comms.Identity{Role: "agent", Name: "a", Incarnation: 1}, Handler: r, Pipes: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	path := s.store.ControlPath(1)
	if r.control, err = s.store.CreateControl(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.control.Close() })
	r.crash = filepath.Join(dir, "crash")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r.cmd = exec.Command(exe)
	r.cmd.Env = append(os.Environ(), EnvAddr+"="+ln.Addr(), EnvToken+"=secret", EnvCrash+"="+r.crash, EnvPipes+"=1")
	r.cmd.Stderr = os.Stderr
	if testing.Short() || !testing.Verbose() {
		r.cmd.Stderr = nil
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { r.ended <- r.cmd.Wait() }()
	t.Cleanup(func() {
		r.cmd.Process.Kill()
		r.end(t)
	})
	select {
	case r.l = <-r.link:
	case err := <-r.ended:
		t.Fatalf("executor ended: %v", err)
	}
	if h := receive[*comms.Hello](r.fakeAgent); h.Token != "secret" || int(h.PID) != r.cmd.Process.Pid || len(h.Functions) != 6 {
		t.Errorf("hello is %+v", h)
	}
	r.send(&comms.Welcome{Executor: 1, Agent: "a", ControlPage: path, InlineMax: 4096, Scratch: filepath.Join(dir, "scratch"), ShmDir: s.dir})
	return r, s
}

func (r *remote) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.ended:
		r.ended <- err
		return err
	case <-time.After(patience):
		t.Fatal("executor does not end")
		return nil
	}
}

func (r *remote) begin(function string, in string, d comms.Desc, out string) (*comms.Kind, *comms.Run) {
	k := &comms.Kind{ID: 1, Group: function, Function: function, Inputs: []comms.KindIn{{Name: in}}, Outputs: []comms.KindOut{{Name: out}}, Resources: comms.Resources{CPU: 1000}}
	r.send(k)
	run := &comms.Run{ID: 5, Kind: 1, Attempt: 2, Inputs: []comms.RunInput{{Data: []comms.Desc{d}}}}
	r.send(&comms.Dispatch{Runs: []comms.Run{*run}})
	return k, run
}

func TestProcessRunsAndStops(t *testing.T) {
	r, _ := startRemote(t)
	reg := &Registry{}
	r.begin("pid", "n", inline(t, reg, 1), "pid")
	got := decoded[string](t, reg, r.items(1)[0].Outputs[0])
	if want := strconv.Itoa(r.cmd.Process.Pid) + " "; got != want {
		t.Errorf("the function saw %q, want %q: what makes a process an executor must not be inherited", got, want)
	}
	r.send(&comms.Stop{})
	if err := r.end(t); err != nil {
		t.Errorf("executor ended with %v", err)
	}
}

func TestPrintsBelongToTheirRun(t *testing.T) {
	r, _ := startRemote(t)
	k := &comms.Kind{ID: 1, Group: "chatty", Function: "chatty", Inputs: []comms.KindIn{{Name: "n"}}, Outputs: []comms.KindOut{{Name: "m"}}, Resources: comms.Resources{CPU: 1000}}
	r.send(k)
	const n = 50
	var runs []comms.Run
	for i := range n {
		runs = append(runs, comms.Run{ID: comms.RunID(i + 1), Kind: 1, Attempt: 1, Inputs: []comms.RunInput{{Data: []comms.Desc{inline(t, &Registry{}, i+1)}}}})
	}
	r.send(&comms.Dispatch{Runs: runs})
	logs := map[comms.RunID]string{}
	for ended := 0; ended < n; {
		switch m := (<-r.inbox).(type) {
		case *comms.Log:
			logs[m.Run] += string(m.Text)
		case *comms.Report:
			for _, it := range m.Items {
				if it.Kind == comms.ReportStarted {
					continue
				}
				ended++
				// The order of two streams is not kept, that within each is.
				printed, logged := fmt.Sprintf("printed by %d\n", it.Run), fmt.Sprintf("logged by %d\n", it.Run)
				right := func(s string) bool { return s == printed+logged || s == logged+printed }
				if !right(logs[it.Run]) {
					t.Errorf("log of run %d is %q", it.Run, logs[it.Run])
				}
				if it.Error != nil && !right(string(it.Error.LogTail)) {
					t.Errorf("tail of run %d is %q", it.Run, it.Error.LogTail)
				}
			}
		}
	}
}

func TestWriteInAnotherGoroutineIsAttributed(t *testing.T) {
	r, s := startRemote(t)
	d := inline(t, &Registry{}, ramp(1000))
	path := s.store.Path(ledger.File, 77)
	if err := os.WriteFile(path, d.Place.Bytes, 0o444); err != nil {
		t.Fatal(err)
	}
	r.send(&comms.Segment{ID: 77, Path: path, Size: d.Size})
	d.Place = comms.Place{Kind: comms.PlaceSegment, Segment: 77}
	kind, run := r.begin("scribbleElsewhere", "v", d, "n")
	if r.end(t) == nil {
		t.Fatal("the executor survived")
	}
	text, err := os.ReadFile(r.crash)
	if err != nil {
		t.Fatal(err)
	}
	crash, ok := shm.ParseCrash(text)
	if !ok {
		t.Fatalf("crash output says nothing:\n%s", text)
	}
	where, ok := r.control.Find(crash.Addr)
	if !ok || where.Name != "f77" || where.Offset != 56 || where.Lease {
		t.Errorf("address %x is %+v, %t", crash.Addr, where, ok)
	}
	if name, ok := postmortem.Input(kind, run, 77, uint64(where.Offset)); !ok || name != "v" {
		t.Errorf("blamed %q, %t", name, ok)
	}
	if step, _ := r.control.Last(); step.Run != 5 || step.Attempt != 2 {
		t.Errorf("step is %+v", step)
	}
}

func TestBrokenLinkEndsTheProcess(t *testing.T) {
	for _, function := range []string{"", "deaf"} {
		r, _ := startRemote(t)
		if function != "" {
			r.begin(function, "n", inline(t, &Registry{}, 1), "m")
			if it := receive[*comms.Report](r.fakeAgent).Items[0]; it.Kind != comms.ReportStarted {
				t.Errorf("reported %+v, want started", it)
			}
		}
		r.l.Abort(os.ErrClosed)
		if r.end(t) == nil {
			t.Errorf("executor of %q ended without an error", function)
		}
	}
}

// The executor of a function that keeps the only core hears what the agent says, also
// when short runs before it let the runtime's monitor sleep (comms, lookout).
func TestBusyFunctionIsInterrupted(t *testing.T) {
	r, _ := startRemote(t)
	r.begin("double", "n", inline(t, &Registry{}, 1), "n2")
	r.items(1)
	in := []comms.RunInput{{Data: []comms.Desc{inline(t, &Registry{}, 1)}}}
	for i := range 200 {
		r.send(&comms.Dispatch{Runs: []comms.Run{{ID: comms.RunID(10 + i), Kind: 1, Attempt: 1, Inputs: in}}})
		r.items(1)
	}
	time.Sleep(100 * time.Millisecond) // a rest, after which no timer is set
	r.send(&comms.Kind{ID: 2, Group: "busy", Function: "busy", Inputs: []comms.KindIn{{Name: "n"}}, Outputs: []comms.KindOut{{Name: "m"}}, Resources: comms.Resources{CPU: 1000}})
	r.send(&comms.Dispatch{Runs: []comms.Run{{ID: 1000, Kind: 2, Attempt: 1, Inputs: in}}})
	if it := receive[*comms.Report](r.fakeAgent).Items[0]; it.Kind != comms.ReportStarted || it.Run != 1000 {
		t.Fatalf("reported %+v, want started", it)
	}
	r.send(&comms.Cancel{Run: 1000, Why: comms.ErrorCancelled, Text: "enough"})
	if it := r.items(1)[0]; it.Error == nil || it.Error.Kind != comms.ErrorCancelled {
		t.Errorf("reported %+v", it)
	}
}

func TestSIGTERMEndsCommandsToo(t *testing.T) {
	r, _ := startRemote(t)
	dir := t.TempDir()
	r.send(&comms.Kind{ID: 2, Group: "sleep", Command: words(t, "sh", "-c", "trap 'echo interrupted > mark' INT; kill -INT $$; echo $$ > pid; sleep 1000"), Dir: dir, Resources: comms.Resources{CPU: 1000}})
	r.send(&comms.Dispatch{Runs: []comms.Run{{ID: 6, Kind: 2, Attempt: 1}}})
	pid := waitForPid(t, filepath.Join(dir, "pid"))
	if _, err := os.Stat(filepath.Join(dir, "mark")); err != nil {
		t.Errorf("the command cannot catch SIGINT: %v", err)
	}
	if err := r.cmd.Process.Signal(syscall.SIGINT); err != nil { // a terminal's: not ours to obey
		t.Fatal(err)
	}
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	// That is no error of the task: it is tried again.
	if it := r.items(1)[0]; it.Error == nil || it.Error.Kind != comms.ErrorCrash || !strings.Contains(it.Error.Message, "terminated") {
		t.Errorf("reported %+v", it.Error)
	}
	if err := r.end(t); err == nil || !strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("executor ended with %v", err)
	}
	if alive(t, pid) {
		t.Errorf("command %d lives on", pid)
	}
}
