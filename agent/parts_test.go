//go:build linux

package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zeebo/blake3"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/testing/testmodule"
)

// write makes files below a new folder.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	testmodule.Add(t, dir, files)
	return dir
}

func TestDetect(t *testing.T) {
	const meminfo = "MemTotal:       16000000 kB\nMemFree: 1 kB\n"
	for _, c := range []struct {
		name   string
		files  map[string]string
		cpu    int64
		memory int64
	}{
		{"no cgroup", map[string]string{"meminfo": meminfo}, 8000, 16000000 << 10},
		{"v2, the parent is tighter", map[string]string{
			"meminfo": meminfo, "self": "0::/a/b\n",
			"cg/a/b/cpu.max": "max 100000\n", "cg/a/cpu.max": "150000 100000\n",
			"cg/a/b/memory.max": "max\n", "cg/a/memory.high": "1073741824\n",
		}, 1500, 1 << 30},
		{"v1", map[string]string{
			"meminfo": meminfo, "self": "4:memory:/m\n3:cpu,cpuacct:/c\n",
			"cg/cpu/c/cpu.cfs_quota_us": "50000\n", "cg/cpu/c/cpu.cfs_period_us": "100000\n",
			"cg/memory/m/memory.limit_in_bytes": "536870912\n",
		}, 500, 512 << 20},
		{"v1 without quota", map[string]string{
			"meminfo": meminfo, "self": "3:cpu,cpuacct:/\n",
			"cg/cpu/cpu.cfs_quota_us": "-1\n", "cg/cpu/cpu.cfs_period_us": "100000\n",
		}, 8000, 16000000 << 10},
		{"in a container the path is not visible", map[string]string{
			"meminfo": meminfo, "self": "0::/../../elsewhere\n", "cg/cpu.max": "20000 10000\n",
		}, 2000, 16000000 << 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := write(t, c.files)
			cg, self := filepath.Join(dir, "cg"), filepath.Join(dir, "self")
			if got := cpuQuota(cg, self, 8000); got != c.cpu {
				t.Errorf("cpu %d, want %d", got, c.cpu)
			}
			if got, err := memoryTotal(cg, self, filepath.Join(dir, "meminfo")); got != c.memory || err != nil {
				t.Errorf("memory %d, %v; want %d", got, err, c.memory)
			}
		})
	}
}

func TestConfigMistakes(t *testing.T) {
	_, err := New(Config{Name: "a b", CPU: -1, Memory: 1, Store: 1, Silence: 100 * time.Millisecond})
	want := []string{`agent name "a b"`, "controller's address is missing", "state folder is missing", "negative amount -1", "a silence of 100ms"}
	for _, w := range want {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("error %v; want %q in it", err, w)
		}
	}
}

func TestStateNumbersGrow(t *testing.T) {
	dir := t.TempDir()
	s, first, err := openState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := openState(dir); err == nil || !strings.Contains(err.Error(), "another agent uses it") {
		t.Errorf("a second agent: %v", err)
	}
	used := first.Executor + 2*executorBlock
	if err := s.reserve(used); err != nil {
		t.Fatal(err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	s, second, err := openState(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if second.Incarnation <= first.Incarnation || second.Executor != used {
		t.Errorf("from %+v with executor %d to %+v", first, used, second)
	}
}

// The child that a killed agent was just starting holds its lock for a moment: the next agent waits for that.
func TestStateIsAwaited(t *testing.T) {
	dir := t.TempDir()
	held, err := lockState(dir)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(lockPatience/20, func() {
		if err := held.Close(); err != nil {
			t.Error(err)
		}
	})
	s, _, err := openState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}

// After a kill the next incarnation goes on with the next executor number, and
// after a power loss, which may take what was not synced, above all that were used.
func TestStateNumbersAfterKill(t *testing.T) {
	for _, c := range []struct {
		name string
		lose func(last string) error
		want comms.ExecutorID
	}{
		{"kill", func(string) error { return nil }, 3},
		{"another boot", func(last string) error { return os.WriteFile(last, []byte("another-boot 2\n"), 0o600) }, executorBlock},
		{"lost", os.Remove, executorBlock},
		{"torn", func(last string) error { return os.Truncate(last, 20) }, executorBlock},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			s, _, err := openState(dir)
			if err != nil {
				t.Fatal(err)
			}
			for id := range comms.ExecutorID(3) {
				if err := s.reserve(id + 1); err != nil {
					t.Fatal(err)
				}
			}
			s.last.Close()
			s.lock.Close() // what a kill does
			if err := c.lose(filepath.Join(dir, "executor.last")); err != nil {
				t.Fatal(err)
			}
			s, second, err := openState(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer s.close()
			if second.Executor != c.want {
				t.Errorf("it goes on after %d, want %d", second.Executor, c.want)
			}
		})
	}
}

func TestTaskLogLeavesRoomOnTheDisk(t *testing.T) {
	logs := newTaskLogs(t.TempDir(), Limits{TaskLog: 1 << 20, Backlog: 1 << 20}, 100<<20)
	defer logs.close()
	free := uint64(0)
	logs.free = func(string) (uint64, error) { return free, nil }
	for _, step := range []struct {
		free uint64
		text string
	}{{200 << 20, "first\n"}, {90 << 20, "left out"}, {80 << 20, "left out"}, {200 << 20, "last\n"}, {10 << 20, "left out"}} {
		free = step.free
		if err := logs.append(comms.JobID{1}, "task", "", []byte(step.text)); err != nil {
			t.Fatal(err)
		}
	}
	text, _, err := logs.read(comms.JobID{1}, "task", 0, 1<<10)
	want := "first\n\n[cascade: text is missing here: only 90 MiB of the disk are free, and 100 MiB stay free for the ends of jobs]\nlast\n" +
		"\n[cascade: text is missing here: only 10 MiB of the disk are free, and 100 MiB stay free for the ends of jobs]\n"
	if err != nil || string(text) != want {
		t.Errorf("the log says %q, %v", text, err)
	}
}

// TestLogOfCalledTasks reads from the log of a task what those wrote that it has called.
func TestLogOfCalledTasks(t *testing.T) {
	dir, job := t.TempDir(), comms.JobID{1}
	var logs *taskLogs
	open := func() { logs = newTaskLogs(dir, Limits{TaskLog: 1 << 10, Backlog: 1 << 20}, 0) }
	put := func(called, text string) {
		t.Helper()
		if err := logs.append(job, "a[x/y]", called, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	open()
	put("", "begins\n")
	put("a[x/y]/0", "first\n")
	put("a[x/y]/1", "second\n")
	put("a[x/y]/0/7", "inner\n")
	put("a[x/y]/0", "first again\n")
	logs.close()
	index, err := os.OpenFile(logs.index(logName{job, "a[x/y]"}), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := index.WriteString("900 \"a[x/y]/1\"\n12"); err != nil { // the power fails: the text is lost, and the next line cut
		t.Fatal(err)
	}
	if err := index.Close(); err != nil {
		t.Fatal(err)
	}
	open()
	defer func() { logs.close() }()
	put("", "goes on\n")
	put("a[x/y]/10", "tenth\n")
	for _, c := range []struct {
		task         string
		offset, most uint64
		want         string
	}{
		{"a[x/y]", 0, 100, "begins\nfirst\nsecond\ninner\nfirst again\ngoes on\ntenth\n/52"},
		{"a[x/y]/0", 0, 100, "first\ninner\nfirst again\n/24"},
		{"a[x/y]/0", 3, 5, "st\nin/24"},
		{"a[x/y]/0", 24, 5, "/24"},
		{"a[x/y]/0/7", 0, 100, "inner\n/6"},
		{"a[x/y]/1", 0, 100, "second\n/7"},
		{"a[x/y]/10", 0, 100, "tenth\n/6"},
		{"a[x/y]/2", 0, 100, "/0"},
		{"b/2", 0, 100, "/0"},
	} {
		text, total, err := logs.read(job, c.task, c.offset, c.most)
		if got := fmt.Sprintf("%s/%d", text, total); got != c.want || err != nil {
			t.Errorf("%s from %d, %d bytes: %q, %v; want %q", c.task, c.offset, c.most, got, err, c.want)
		}
	}
}

// TestLogOfCalledTasksOnFullDisk loses a part of a line of the index: the next one stands by itself.
func TestLogOfCalledTasksOnFullDisk(t *testing.T) {
	logs, job := newTaskLogs(t.TempDir(), Limits{TaskLog: 1 << 10, Backlog: 1 << 20}, 0), comms.JobID{1}
	defer logs.close()
	put := func(called, text string) error { return logs.append(job, "a", called, []byte(text)) }
	if err := errors.Join(put("", "begins\n"), put("a/0", "first\n")); err != nil {
		t.Fatal(err)
	}
	log := logs.open[logName{job, "a"}]
	index, full := log.index, filepath.Join(t.TempDir(), "full")
	if err := os.WriteFile(full, nil, 0o400); err != nil {
		t.Fatal(err)
	}
	refuses, err := os.Open(full) // for reading alone
	if err != nil {
		t.Fatal(err)
	}
	defer refuses.Close()
	log.index = refuses
	if put("a/1", "lost\n") == nil {
		t.Error("text was taken whose place in the index is not written")
	}
	if log.index = index; log.sure {
		t.Error("the end of the index counts as known")
	}
	if _, err := index.WriteString("1"); err != nil { // what the disk took of the line
		t.Fatal(err)
	}
	if err := put("a/1", "second\n"); err != nil {
		t.Fatal(err)
	}
	for task, want := range map[string]string{"a/0": "first\n", "a/1": "second\n"} {
		if text, _, err := logs.read(job, task, 0, 100); err != nil || string(text) != want {
			t.Errorf("the log of %s says %q, %v; want %q", task, text, err, want)
		}
	}
}

// TestForgottenLogs leaves nothing of the logs of jobs that were forgotten.
func TestForgottenLogs(t *testing.T) {
	logs := newTaskLogs(t.TempDir(), Limits{TaskLog: 1 << 10, Backlog: 1 << 20}, 0)
	defer logs.close()
	for n := range 3 * openLogs {
		job := comms.JobID{1, byte(n), byte(n >> 8)}
		if err := errors.Join(logs.append(job, "a", "a/0", []byte("text\n")), logs.forget(job)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(logs.open) + len(logs.recent) + len(logs.short); n != 0 {
		t.Errorf("%d entries are left", n)
	}
}

func TestTaskLog(t *testing.T) {
	logs := newTaskLogs(t.TempDir(), Limits{TaskLog: 20, Backlog: 1 << 20}, 0)
	defer logs.close()
	job, other := comms.JobID{1}, comms.JobID{2}
	put := func(job comms.JobID, task, text string) {
		t.Helper()
		if err := logs.append(job, task, "", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	get := func(job comms.JobID, task string, offset, most uint64) string {
		t.Helper()
		text, total, err := logs.read(job, task, offset, most)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%s/%d", text, total)
	}
	long := strings.Repeat("x/", 300)
	put(job, "spread[0,../..]", "hello ")
	put(job, "spread[0,../..]", "world\n")
	put(job, long, "long")
	put(other, "flood", strings.Repeat("f", 100))
	put(other, "flood", "more")
	for _, c := range []struct{ got, want string }{
		{get(job, "spread[0,../..]", 0, 100), "hello world\n/12"},
		{get(job, "spread[0,../..]", 6, 3), "wor/12"},
		{get(job, "spread[0,../..]", 12, 3), "/12"},
		{get(job, long, 0, 100), "long/4"},
		{get(job, "silent", 0, 100), "/0"},
		{get(other, "flood", 0, 100), strings.Repeat("f", 20) + "\n[cascade: the log is cut here: it reached 20 bytes]\n/73"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
	if err := logs.forget(job); err != nil {
		t.Fatal(err)
	}
	if got := get(job, long, 0, 100); got != "/0" {
		t.Errorf("after forget %q", got)
	}
}

func TestGraphInPieces(t *testing.T) {
	graph, err := dag.ParseYAML("job.yaml", []byte("job: pieces\ntasks:\n  a: {run: A, out: [x]}\n"), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	data := graph.Encode()
	sum := blake3.Sum256(data)
	hash := comms.Hash(append([]byte{comms.HashBLAKE3}, sum[:]...))
	total := uint64(len(data))
	type piece struct {
		hash         comms.Hash
		total        uint64
		from, to, at int
	}
	for _, c := range []struct {
		name   string
		pieces []piece
		err    string // of the last piece, or of the Assign
	}{
		{"in order", []piece{{hash, total, 0, 10, 0}, {hash, total, 10, len(data), 10}}, ""},
		{"with second copies", []piece{{hash, total, 0, 10, 0}, {hash, total, 0, 10, 0}, {hash, total, 5, 20, 5}, {hash, total, 10, len(data), 10}, {hash, total, 0, 10, 0}}, ""},
		{"not whole", []piece{{hash, total, 0, 10, 0}}, "names a graph that it has not sent"},
		{"a hole", []piece{{hash, total, 0, 10, 0}, {hash, total, 20, 30, 20}}, "does not follow"},
		{"too long", []piece{{hash, 10, 0, 20, 0}}, "does not follow"},
		{"another size", []piece{{hash, total, 0, 10, 0}, {hash, total + 1, 10, 20, 10}}, "does not follow"},
		{"other bytes", []piece{{hash, 20, 0, 20, 0}}, "have another hash"},
		{"huge", []piece{{hash, 1 << 40, 0, 20, 0}}, "at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var g graphs
			var err error
			for _, p := range c.pieces {
				if err = g.add(&comms.Blob{Hash: p.hash, Total: p.total, Offset: uint64(p.at)}, data[p.from:p.to]); err != nil {
					break
				}
			}
			if err == nil {
				var got *dag.Graph
				if got, err = g.of(&comms.Assign{GraphHash: hash}); err == nil && got.Name != "pieces" {
					t.Errorf("graph %q", got.Name)
				}
			}
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
	var g graphs
	if _, err := g.of(&comms.Assign{Graph: data[:10]}); err == nil || strings.Count(err.Error(), "decode graph: ") != 1 {
		t.Errorf("of a broken graph: %v", err)
	}
	for i := range byte(20) {
		if err := g.add(&comms.Blob{Hash: comms.Hash([]byte{comms.HashBLAKE3, i}), Total: 10}, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if len(g.parts) > maxBlobs || len(g.order) > maxBlobs {
		t.Errorf("%d blobs are kept", len(g.parts))
	}
}

func TestGrowthOfARun(t *testing.T) {
	var g growth
	for i, c := range []struct {
		run        comms.RunID
		used, want int64
	}{
		{0, 10, 10}, // the process starts
		{1, 15, 5},
		{1, 40, 30},
		{2, 45, 5},  // the heap that run 1 left is not run 2's
		{2, 12, 0},  // it was given back,
		{2, 50, 38}, // and what grows again is run 2's
		{3, 50, 0},
	} {
		if got := g.sample(c.run, c.used); got != c.want {
			t.Errorf("sample %d: %d, want %d", i, got, c.want)
		}
	}
}

func TestOldLogsExpire(t *testing.T) {
	logs := newTaskLogs(t.TempDir(), Limits{TaskLog: 1 << 20, Backlog: 1 << 20}, 0)
	defer logs.close()
	start := time.Now()
	for _, name := range []string{"a", "b"} {
		for job := range byte(2) {
			if err := logs.append(comms.JobID{job}, name, "", []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
	}
	old := start.Add(-2 * time.Hour)
	for _, n := range []logName{{comms.JobID{0}, "a"}, {comms.JobID{0}, "b"}, {comms.JobID{1}, "a"}} {
		if err := os.Chtimes(logs.path(n), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := logs.expire(start.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(logs.dir, "*", "*"))
	if err != nil || len(left) != 2 || !strings.Contains(left[0], comms.JobID{1}.String()) {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestManyLogsFewFiles(t *testing.T) {
	logs := newTaskLogs(t.TempDir(), Limits{TaskLog: 1 << 20, Backlog: 1 << 20}, 0)
	defer logs.close()
	for range 3 {
		for i := range 2 * openLogs {
			if err := logs.append(comms.JobID{}, fmt.Sprint(i), "", []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(logs.open) > openLogs || len(logs.recent) > 2*openLogs {
		t.Errorf("%d files are open, %d are listed", len(logs.open), len(logs.recent))
	}
	if text, _, err := logs.read(comms.JobID{}, "0", 0, 10); string(text) != "xxx" || err != nil {
		t.Errorf("read %q, %v", text, err)
	}
}
