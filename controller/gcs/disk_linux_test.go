package gcs

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/testing/smallfs"
)

// writerOptions say how a child process writes to a store, see writeForever.
type writerOptions struct {
	Dir     string
	Sync    bool
	MinFree uint64
	Reserve uint64
	Text    int // bytes of random text in each event
	InHand  int // commits that are not acknowledged, at most
}

func (w writerOptions) store() Options {
	o := small(w.Dir)
	o.Sync, o.MinFree, o.Reserve, o.poll = w.Sync, w.MinFree, w.Reserve, 10*time.Millisecond
	return o
}

const (
	writerVar  = "GCS_TEST_WRITER"
	writerJobs = 3
)

// writeForever is a process that commits batch after batch and tells each
// acknowledgement, in order of batches of one job: "acked JOB NUMBER".
func writeForever(text string) {
	var w writerOptions
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		fmt.Println("error", err)
		return
	}
	say := make(chan string, 1024)
	o := w.store()
	o.OnPause = func(paused bool, _ uint64) { say <- fmt.Sprint("paused ", paused) }
	s, err := Open(o)
	if err != nil {
		fmt.Println("error", err)
		return
	}
	go func() {
		for line := range say {
			if _, err := os.Stdout.WriteString(line + "\n"); err != nil {
				os.Exit(1)
			}
		}
	}()
	hand := make(chan struct{}, w.InHand)
	for job := range uint64(writerJobs) {
		row := &records.Job{ID: jobID(job)}
		if err := wait(func(d func(error)) { s.Create(row, &comms.Submit{Job: row.ID}, []byte("graph"), d) }); err != nil {
			fmt.Println("error", err)
			return
		}
	}
	random := rand.NewChaCha8([32]byte{})
	noise := make([]byte, w.Text)
	for n := uint64(0); ; n++ {
		for job := range uint64(writerJobs) {
			_, _ = random.Read(noise) // never fails
			e := comms.Event{Kind: comms.EventFinished, Task: dag.TaskIndex(n), Attempt: 1, Cause: comms.Cause{Text: string(noise)}}
			hand <- struct{}{}
			s.Commit(records.Commit{Job: jobID(job), Agent: "a", Seen: records.Seen{UpTo: n},
				Batch: &records.Batch{Number: n, First: n, Events: []comms.Event{e}}}, func(err error) {
				if err != nil {
					say <- fmt.Sprintf("error job %d batch %d: %v", job, n, err)
				} else {
					say <- fmt.Sprintf("acked %d %d", job, n)
				}
				<-hand
			})
		}
	}
}

// writer is a process of writeForever, seen from its parent.
type writer struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
	acked [writerJobs]int64 // number of the last batch, -1 none
	died  strings.Builder   // what it wrote to standard error
}

func startWriter(t *testing.T, o writerOptions) *writer {
	t.Helper()
	text, err := json.Marshal(o)
	must(t, err)
	w := &writer{t: t, cmd: exec.Command(os.Args[0])}
	for i := range w.acked {
		w.acked[i] = -1
	}
	w.cmd.Env = append(os.Environ(), writerVar+"="+string(text))
	w.cmd.Stderr = &w.died
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := w.cmd.StdoutPipe()
	must(t, err)
	must(t, w.cmd.Start())
	w.lines = bufio.NewScanner(out)
	late := time.AfterFunc(10*time.Minute, func() { _ = w.cmd.Process.Kill() }) // keeps a failing test from hanging
	t.Cleanup(func() { late.Stop() })
	return w
}

// until reads what the writer says until ok. It returns false when the writer has ended.
func (w *writer) until(ok func(line string) bool) bool {
	w.t.Helper()
	for w.lines.Scan() {
		line := w.lines.Text()
		var job int
		var n int64
		if _, err := fmt.Sscanf(line, "acked %d %d", &job, &n); err == nil {
			if n != w.acked[job]+1 {
				w.t.Fatalf("%s after %d", line, w.acked[job])
			}
			w.acked[job] = n
		}
		if strings.HasPrefix(line, "error") {
			w.t.Fatalf("the writer says: %s", line)
		}
		if ok(line) {
			return true
		}
	}
	return false
}

// ackedMore waits for so many further acknowledgements.
func (w *writer) ackedMore(n int) bool {
	w.t.Helper()
	return w.until(func(line string) bool {
		if strings.HasPrefix(line, "acked") {
			n--
		}
		return n == 0
	})
}

// end kills the writer, and takes what it had said before.
func (w *writer) end() {
	w.t.Helper()
	_ = w.cmd.Process.Kill() // it may be dead
	w.until(func(string) bool { return false })
	_ = w.cmd.Wait() // the signal is no news
}

// compare opens the store and requires every acknowledged batch, with no hole before it.
func (w *writer) compare(o Options) {
	w.t.Helper()
	s := open(w.t, o)
	for job, acked := range w.acked {
		if there := w.stored(s, job); there <= acked {
			w.t.Errorf("job %d: %d batches are there, %d were acknowledged", job, there, acked+1)
		}
	}
	w.t.Logf("batches acknowledged: %v", w.acked)
}

// stored counts a job's batches, and requires that the agent's number moved with them.
func (w *writer) stored(s *Store, job int) int64 {
	w.t.Helper()
	next := uint64(0)
	for b, err := range s.Batches(jobID(uint64(job))) {
		must(w.t, err)
		if b.Number != next {
			w.t.Fatalf("job %d: batch %d where %d should be", job, b.Number, next)
		}
		next++
	}
	d, err := s.Load(jobID(uint64(job)))
	if errors.Is(err, ErrNotFound) && next == 0 {
		return 0
	}
	if must(w.t, err); next > 0 && d.Seen["a"].UpTo+1 < next {
		w.t.Errorf("job %d: %d batches are there, the agent's number is %d", job, next, d.Seen["a"].UpTo)
	}
	return int64(next)
}

// onDisks runs a test on a small tmpfs and on a small ext4.
func onDisks(t *testing.T, size int64, test func(t *testing.T, dir string)) {
	if testing.Short() {
		test(t, smallfs.Tmpfs(t, t.TempDir(), size))
		return
	}
	t.Run("tmpfs", func(t *testing.T) { test(t, smallfs.Tmpfs(t, t.TempDir(), size)) })
	t.Run("ext4", func(t *testing.T) { test(t, smallfs.Ext4(t, t.TempDir(), size).Dir) })
}

// TestDiskFills: the store grows until its disk is nearly full, another program
// takes the rest, and some time later gives space back.
func TestDiskFills(t *testing.T) {
	if !smallfs.Enter(t) {
		return
	}
	onDisks(t, 320<<20, func(t *testing.T, dir string) {
		old := smallfs.Fill(t, dir, 160<<20)
		o := writerOptions{Dir: dir, MinFree: 96 << 20, Reserve: 8 << 20, Text: 16 << 10, InHand: 64}
		w := startWriter(t, o)
		defer w.end()
		if !w.until(func(line string) bool { return line == "paused true" }) {
			t.Fatalf("the writer died before the disk was full: %s", w.died.String())
		}
		rest := smallfs.Fill(t, dir, 0)
		var locked *LockedError
		if _, err := Open(o.store()); !errors.As(err, &locked) {
			t.Errorf("the store is open in another process, and a second one says %v", err)
		}
		rest()
		old()
		if !w.ackedMore(100) {
			t.Fatalf("the writer died: %s", w.died.String())
		}
		w.end()
		w.compare(small(dir))
	})
}

// TestNoReserve shows what the reserve is for: without it a full disk ends the
// process in the middle of a write. Also then nothing that was acknowledged is lost.
func TestNoReserve(t *testing.T) {
	if !smallfs.Enter(t) {
		return
	}
	onDisks(t, 160<<20, func(t *testing.T, dir string) {
		release := smallfs.Fill(t, dir, 48<<20)
		w := startWriter(t, writerOptions{Dir: dir, MinFree: 1, Reserve: 1, Text: 16 << 10, InHand: 64})
		w.until(func(string) bool { return false })
		err := w.cmd.Wait()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || !strings.Contains(w.died.String(), "SIGBUS") {
			t.Fatalf("the writer ended with %v, not by a SIGBUS: %.2000s", err, w.died.String())
		}
		if _, err := Open(Options{Dir: dir}); !errors.Is(err, ErrNoSpace) {
			t.Errorf("open on the full disk: %v", err)
		}
		release()
		w.compare(small(dir))
	})
}

// TestPowerLoss cuts the disk off while batches are being committed. With Sync
// everything acknowledged before is there afterwards. Without, something is missing:
// that shows that the cut is one.
func TestPowerLoss(t *testing.T) {
	if !smallfs.Enter(t) {
		return
	}
	for _, sync := range []bool{true, false} {
		t.Run(fmt.Sprint("sync ", sync), func(t *testing.T) {
			im := smallfs.Ext4(t, t.TempDir(), 256<<20)
			// Memtables are full after about 1,500 batches: also their rotation is cut off now and then.
			w := startWriter(t, writerOptions{Dir: im.Dir, Sync: sync, MinFree: 1, Reserve: 1, Text: 12 << 10, InHand: 16})
			most := 2000
			if testing.Short() {
				most = 200
			}
			if !w.ackedMore(1 + rand.N(most)) {
				t.Fatalf("the writer died: %s", w.died.String())
			}
			im.Cut(w.cmd.Process.Pid)
			w.end()
			im.Restart()
			if sync {
				w.compare(small(im.Dir))
				return
			}
			s := open(t, small(im.Dir))
			for job, acked := range w.acked {
				if w.stored(s, job) <= acked {
					return
				}
			}
			t.Errorf("nothing was lost without syncs: the cut does nothing")
		})
	}
}
