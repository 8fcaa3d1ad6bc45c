//go:build linux

package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/internal/testing/smallfs"
)

// gated is a job that waits for a line in the pipe gate, and goes on with five tasks.
const gated = `
job: gated
tasks:
  wait: {run: chaos_gate, with: {pipe: PIPE}, out: [sum]}
  after: {for: {i: "0..4"}, command: "cat ${in.n} > ${out.copy}; echo ${i} >> ${out.copy}", in: {n: wait.sum}, out: [copy]}
outputs: [{from: "after[*].copy", to: out/}]
`

// open lets a gate task go on.
func (h *Host) open(pipe string) {
	h.tb.Helper()
	if err := os.WriteFile(pipe, []byte("3\n"), 0); err != nil {
		h.tb.Fatal(err)
	}
}

// TestStoreDiskFull: the disk under the store is full when a task ends. Whoever
// watches is told, another submit is refused, and when there is room the job goes
// on as if nothing had been.
func TestStoreDiskFull(t *testing.T) {
	t.Parallel()
	if !smallfs.Enter(t) {
		return
	}
	state := smallfs.Tmpfs(t, t.TempDir(), 96<<20)
	h := New(t)
	h.Controller("--state", state, "--min-free", "32MiB")
	h.Agent()
	h.Write("job.yaml", strings.ReplaceAll(gated, "PIPE", h.Pipe("gate")))
	job := h.Command("submit", "job.yaml", "--wait", "--to", h.Address())
	h.Journal.Await(Started("wait", 1))
	release := smallfs.Fill(t, state, 1<<20)
	h.open(filepath.Join(h.Dir, "gate"))
	job.Await("is nearly full")
	if again := h.Command("submit", "job.yaml", "--to", h.Address()); again.Wait() != 3 || !strings.Contains(again.Output(), "nearly full") {
		t.Errorf("a submit on the full disk ended with %d: %s", again.Wait(), again.Output())
	}
	// Questions are answered by what is stored, also more than the controller answers at a time.
	asked := []*Process{}
	for range 4 {
		for _, about := range [][]string{{"ls", "tasks", "last"}, {"ls", "hosts"}, {"story", "last"}} {
			asked = append(asked, h.Command(about[0], append(about[1:], "--to", h.Address())...))
		}
	}
	for _, p := range asked {
		if p.Wait() != 0 {
			t.Errorf("on the full disk: %s", p.Output())
		}
	}
	release()
	if code := job.Wait(); code != 0 {
		t.Errorf("the job ended with %d:\n%s", code, job.Output())
	}
	// A second start can only be that of the refused job: work may begin before the
	// commit that fails. Of no job the gate starts twice.
	starts, jobs := map[string]int{}, 0
	for _, l := range h.Journal.Lines(0) {
		if l.Event != "start" {
			continue
		}
		if starts[l.Job]++; starts[l.Job] == 1 {
			jobs++
		} else {
			t.Errorf("the gate of job %s started again in attempt %d", l.Job, l.Attempt)
		}
	}
	files, err := filepath.Glob(filepath.Join(h.Dir, "out", "*"))
	if jobs < 1 || jobs > 2 || len(files) != 5 || err != nil {
		t.Errorf("the gates of %d jobs started, outputs %v, error %v", jobs, files, err)
	}
}

// spilling is a job whose outputs are three times the store and stay wanted.
const spilling = `
job: spilling
tasks:
  part: {for: {i: "0..11"}, command: "head -c 8000000 /dev/zero > ${out.bytes}; echo ${i} >> ${out.bytes}", out: [bytes]}
outputs: ["part[*].bytes"]
`

// smallDisk is a cluster whose agent has little memory, and its state folder on a disk of 256 MiB.
func smallDisk(t *testing.T) (h *Host, state string) {
	state = smallfs.Tmpfs(t, t.TempDir(), 256<<20)
	h = New(t)
	h.Controller()
	h.Agent("--state", state, "--store", "32MiB", "--min-free", "16MiB")
	return h, state
}

// TestSpillDiskFull: memory and the disk for spilled data are full together. The
// job ends with an error that names the cause, nothing hangs, and the same job
// goes through when there is room.
func TestSpillDiskFull(t *testing.T) {
	t.Parallel()
	if !smallfs.Enter(t) {
		return
	}
	h, state := smallDisk(t)
	release := smallfs.Fill(t, state, 8<<20)
	h.Write("job.yaml", spilling)
	full := h.Command("submit", "job.yaml", "--wait", "--to", h.Address())
	if code := full.Wait(); code != 1 || !strings.Contains(full.Output(), "the disk is nearly full: 8 MiB are free in "+state) {
		t.Errorf("with memory and disk full the job ended with %d:\n%s", code, full.Output())
	}
	release()
	for try := 1; ; try++ { // the agent looks for room now and then
		again := h.Command("submit", "job.yaml", "--wait", "--to", h.Address())
		if code := again.Wait(); code == 0 {
			return
		} else if code != 1 || try == 100 {
			t.Fatalf("with room the job ended with %d:\n%s", code, again.Output())
		}
	}
}

// TestDiskFullOfValues: a program puts more values than memory and the disk have room for. One is refused with an error that
// names the cause; when it has dropped the others, and when there is room, it goes on.
func TestDiskFullOfValues(t *testing.T) {
	t.Parallel()
	if !smallfs.Enter(t) {
		return
	}
	h, state := smallDisk(t)
	s, err := h.ReadyClient(1).Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	part := cascade.Array[float64]{Shape: []int{1 << 20}, Data: make([]float64, 1<<20)}
	fill := func() error { // 96 MiB, all at once
		var all []cascade.Future[cascade.Array[float64]]
		defer func() {
			for _, v := range all {
				cascade.Release(v)
			}
		}()
		for i := range 12 {
			part.Data[0] = float64(i)
			v, err := cascade.Put(s.Context(), part)
			if err != nil {
				return err
			}
			all = append(all, v)
		}
		for i, v := range all {
			half := leafTask.Go(s.Context(), v, cascade.Val(leafSettings{}))
			a, err := half.Get(s.Context())
			if err != nil {
				return err
			}
			if want := float64(i) / 2; a.Data[0] != want {
				return fmt.Errorf("value %d reads %v and not %v", i, a.Data[0], want)
			}
			cascade.Release(half) // or the store is full of what is read
		}
		return nil
	}
	release := smallfs.Fill(t, state, 8<<20)
	for range 2 {
		if err := fill(); err == nil || !strings.Contains(err.Error(), "the disk is nearly full: 8 MiB are free in "+state) {
			t.Errorf("with memory and disk full: %v", err)
		}
		if n, err := treeTask.Go(s.Context(), cascade.Val(treeSettings{Seed: 3})).Get(s.Context()); err != nil || n != 3 {
			t.Errorf("a small call: %v, %v", n, err)
		}
	}
	release()
	for began := time.Now(); ; { // the agent looks for room now and then
		if err := fill(); err == nil {
			break
		} else if time.Since(began) > patience {
			t.Fatalf("with room: %v", err)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestStateAndSpillOnOneDisk: what memory has no room for goes to the disk of the store. It leaves there
// what the store needs to end the job: well, or with a sentence that names the disk.
func TestStateAndSpillOnOneDisk(t *testing.T) {
	t.Parallel()
	if !smallfs.Enter(t) {
		return
	}
	for _, c := range []struct {
		parts int // of 16 MiB; 64 MiB are in memory, and some 150 MiB may go to the disk
		fails bool
	}{{parts: 9}, {parts: 20, fails: true}} {
		t.Run(fmt.Sprint(c.parts), func(t *testing.T) {
			state := smallfs.Tmpfs(t, t.TempDir(), 700<<20)
			h := New(t)
			h.Write("job.yaml", fmt.Sprintf(`
job: onedisk
tasks:
  part: {for: {i: "1..%[1]d"}, command: "head -c 16777000 /dev/zero > ${out.bytes}", out: [bytes]}
  size: {for: {i: "1..%[1]d"}, command: "wc -c < ${in.bytes} > ${out.n}", in: {bytes: "part[${i}].bytes"}, out: [n]}
  again: {for: {i: "1..%[1]d"}, command: "wc -c < ${in.bytes} > ${out.n}", in: {bytes: "part[${i}].bytes", all: "size[*].n"}, out: [n]}
outputs: ["again[*].n"]
`, c.parts))
			run := h.start("cascade run", Program(t, "cascade"), "run", "job.yaml", "--cpu", "2", "--memory", "1GiB", "--store", "64MiB", "--state", state)
			code, said := run.Wait(), run.Output()
			switch {
			case !c.fails && code != 0:
				t.Errorf("the run ended with %d:\n%s", code, said)
			case c.fails && (code != 1 || !strings.Contains(said, "the disk is nearly full: ") || !strings.Contains(said, "--state")):
				t.Errorf("the run ended with %d:\n%s", code, said)
			}
			if strings.Contains(said, "submits are refused") {
				t.Errorf("the store had no room:\n%s", said)
			}
		})
	}
}

// TestOutputFolderFull: outputs do not fit where the job file wants them. The
// command says which and how to get them later, leaves no half file, and `get`
// delivers when there is room.
func TestOutputFolderFull(t *testing.T) {
	t.Parallel()
	if !smallfs.Enter(t) {
		return
	}
	out := smallfs.Tmpfs(t, t.TempDir(), 4<<20)
	h := New(t)
	h.Write("job.yaml", `
job: outputs
tasks:
  large: {command: "head -c 8000000 /dev/zero > ${out.bytes}", out: [bytes]}
outputs: [{from: large.bytes, to: `+out+`/bytes}]
`)
	run := h.Run("job.yaml")
	if code := run.Wait(); code != 3 || !strings.Contains(run.Output(), "no space left on device") || !strings.Contains(run.Output(), "cascade get") {
		t.Errorf("the run ended with %d:\n%s", code, run.Output())
	}
	if left, err := os.ReadDir(out); err != nil || len(left) != 0 {
		t.Errorf("left in the full folder: %v, %v", left, err)
	}
	got := filepath.Join(h.Dir, "got")
	get := h.Command("get", "last", "large.bytes", "-o", got)
	if code := get.Wait(); code != 0 {
		t.Fatalf("get ended with %d:\n%s", code, get.Output())
	}
	if st, err := os.Stat(got); err != nil || st.Size() != 8_000_000 {
		t.Errorf("got %v, %v", st, err)
	}
}

// TestReadOnlyState: nothing can be written to the state folder.
func TestReadOnlyState(t *testing.T) {
	t.Parallel()
	if !smallfs.Enter(t) {
		return
	}
	h := New(t)
	smallfs.ReadOnly(t, h.State)
	h.Write("job.yaml", "job: x\ntasks:\n  a: {command: [\"true\"]}\n")
	run := h.Run("job.yaml")
	if code := run.Wait(); code != 3 || !strings.Contains(run.Output(), "read-only file system") || !strings.Contains(run.Output(), h.State) {
		t.Errorf("the run ended with %d:\n%s", code, run.Output())
	}
}

// TestSmallSharedMemory: /dev/shm is too small for any store, and, in the second
// part, smaller than the store that was asked for.
func TestSmallSharedMemory(t *testing.T) {
	t.Parallel()
	if !smallfs.Enter(t) {
		return
	}
	smallfs.Tmpfs(t, "/dev/shm", 24<<20)
	h := New(t)
	h.Write("job.yaml", spilling)
	for _, args := range [][]string{{}, {"--store", "1GiB"}} {
		run := h.start("cascade run", Program(t, "cascade"), append([]string{"run", "job.yaml", "--cpu", "2", "--memory", "1GiB"}, args...)...)
		code := run.Wait()
		if len(args) == 0 && (code != 3 || !strings.Contains(run.Output(), "mount -o remount,size=")) {
			t.Errorf("without a size the run ended with %d:\n%s", code, run.Output())
		}
		if len(args) > 0 && (code == 0 || !strings.Contains(run.Output(), "/dev/shm") || !strings.Contains(run.Output(), "remount")) {
			t.Errorf("%v: the run ended with %d:\n%s", args, code, run.Output())
		}
	}
}
