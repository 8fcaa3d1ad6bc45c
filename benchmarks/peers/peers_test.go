package main

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade/internal/testing/pyenv"
	"github.com/cascade-run/cascade/internal/testing/tier"
)

var update = flag.Bool("update", false, "write the golden files anew")

// What happened becomes rows: medians, errors, and nothing for what was not measured.
func TestResults(t *testing.T) {
	ws := []workload{
		{name: "noop 1k", metrics: tasksPerSecond(), axis: "noop", size: 1000},
		{name: "latency", metrics: []metric{less("p50", "us", scaled("p50", 1e6)), less("p99", "us", scaled("p99", 1e6))}},
		{name: "kill", metrics: []metric{less("again", "tasks", value("again")), less("rerun", "ms", scaled("rerun", 1e3)).unless("it did not run again")}},
	}
	ok := func(w, s string, v map[string]float64) entry { return entry{workload: w, system: s, values: v} }
	noop := func(s string, took float64) entry {
		return ok("noop 1k", s, map[string]float64{"tasks": 1000, "seconds": took})
	}
	happened := []entry{
		noop("cascade-python", 0.02), noop("cascade-python", 0.01), noop("cascade-python", 0.05), noop("cascade-go", 0.001),
		noop("ray", 0.5), noop("ray-lean", 0.25), noop("dask", 0.4), noop("mpi", 0.0001),
		{workload: "noop 1k", system: "earthkit", err: "did not end in its time\nof 1m0s"}, {workload: "noop 1k", system: "hyperqueue", err: "not supported: it has no tasks"},
		ok("latency", "cascade-python", map[string]float64{"p50": 0.001, "p99": 0.002}), ok("latency", "ray", map[string]float64{"p50": 0.0005, "p99": 0.003}),
		ok("latency", "ray", map[string]float64{"p50": 0.0007, "p99": 0.005}),
		ok("kill", "cascade-go", map[string]float64{"again": 1}), ok("kill", "ray", map[string]float64{"again": 2, "rerun": 0.5}),
		{workload: "kill", system: "mpi", err: "the job is gone | all of it"}, {workload: "kill", system: "cascade-python", err: "not supported: it is nobody's"},
	}
	res := results{Measured: []measured{{"go run ./benchmarks/peers", "1 January 2026", "1m0s", "abc"}, {"go run ./benchmarks/peers -merge", "2 January 2026", "2m0s", "def"}},
		Host:   host{"a processor", 2, "24 GiB", "Linux"},
		Models: map[string]model{"ray": {Version: "1.2.2", Says: "raylet", Processes: 9, Memory: 700, CPU: 0.03}},
		Rows:   rows(ws, systems(), map[string]string{"ray": "1.2.3"}, happened)}
	res.Spent = []spent{{"overhead", "ray", 60.4}, {"overhead", "mpi", 3}, {"kill", "ray", 9}}
	res.Rows[0].Run = 1
	dir := t.TempDir()
	if err := res.write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "results.md"))
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("testdata/results.golden", got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/results.golden")
	if err != nil || string(got) != string(want) {
		t.Errorf("results.md is\n%s\n%v", got, err)
	}
	if behind := strings.Join(res.behind(), "; "); behind != "latency p50: ray is 1.67 times as good as cascade-python" {
		t.Errorf("behind: %s", behind)
	}
	var back results
	b, err := os.ReadFile(filepath.Join(dir, "results.json"))
	if err == nil {
		err = json.Unmarshal(b, &back)
	}
	if err != nil || len(back.Rows) != len(res.Rows) || back.Rows[0].Value != res.Rows[0].Value {
		t.Errorf("results.json has %d rows of %d, %v", len(back.Rows), len(res.Rows), err)
	}
	if err := res.pictures(filepath.Join(dir, "page")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"page-ratios.svg", "page-noops.svg"} {
		if s, err := os.Stat(filepath.Join(dir, name)); err != nil || s.Size() < 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Each system begins a round in its turn, and one that failed is not asked again.
func TestTurns(t *testing.T) {
	of := []system{{name: "a"}, {name: "b"}, {name: "c"}}
	var first []string
	for round := range 4 {
		order := turn(of, round)
		if len(order) != 3 {
			t.Fatalf("round %d has %d systems", round, len(order))
		}
		first = append(first, order[0].name)
	}
	if !slices.Equal(first, []string{"a", "b", "c", "a"}) {
		t.Errorf("first are %v", first)
	}
	w := workload{name: "w", full: args{"n": 1}, rounds: 2}
	b := &bench{plan: plan{workloads: []workload{w}}, happened: []entry{{workload: "w", system: "b", err: "no"}, {workload: "w", system: "a"}, {workload: "w", system: "c", took: time.Minute}}}
	for _, c := range []struct {
		system string
		round  int
		want   bool
	}{{"a", 1, true}, {"a", 2, false}, {"b", 1, false}, {"c", 1, false}} {
		if got := b.due(w, system{name: c.system}, c.round); got != c.want {
			t.Errorf("%s in round %d: %v", c.system, c.round, got)
		}
	}
	ladder := func(n float64) workload {
		return workload{name: number(n), axis: "n", size: n, limit: time.Minute}
	}
	b.workloads = []workload{ladder(1), ladder(10), ladder(100)}
	b.happened = append(b.happened, entry{workload: number(10), system: "b", err: "too long"})
	if err := b.tooLarge(ladder(100), system{name: "b"}); !errors.Is(err, errSmaller) {
		t.Errorf("the larger one after the smaller failed: %v", err)
	}
	b.happened = append(b.happened, entry{workload: number(1), system: "c", took: time.Minute}, entry{workload: number(10), system: "c", took: 6 * time.Second})
	if err := b.tooLarge(ladder(100), system{name: "c"}); err != nil {
		t.Errorf("the larger one at the pace of the one before: %v", err)
	}
	b.happened = append(b.happened, entry{workload: number(10), system: "d", took: 7 * time.Second})
	if err := b.tooLarge(ladder(100), system{name: "d"}); !errors.Is(err, errPace) {
		t.Errorf("the larger one at a pace that is too slow: %v", err)
	}
	if err := errors.Join(b.tooLarge(ladder(10), system{name: "b"}), b.tooLarge(ladder(100), system{name: "a"})); err != nil {
		t.Error(err)
	}
	fan := workload{name: "fan", after: number(10)}
	if b.tooLarge(fan, system{name: "b"}) == nil || b.tooLarge(fan, system{name: "a"}) != nil {
		t.Error("a workload is to wait for the one after which it comes")
	}
	b.short = true
	if b.due(w, system{name: "a"}, 0) {
		t.Error("a workload without a small size is part of -short")
	}
}

func TestFirstLine(t *testing.T) {
	for text, want := range map[string]string{
		" a\n  b ": "a b",
		"failed (https://index.example/simple/x/) at 3": "failed (URL) at 3",
		strings.Repeat("x", 400):                        strings.Repeat("x", 297) + "...",
	} {
		if got := firstLine(text); got != want {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestNumber(t *testing.T) {
	for x, want := range map[float64]string{0.00123: "0.00123", 1.234: "1.23", 45.67: "45.7", 123.4: "123", 1234.5: "1,234", 1234567: "1,234,567", 0: "0"} {
		if got := number(x); got != want {
			t.Errorf("%g is printed as %s, want %s", x, got, want)
		}
	}
}

// patient gives workloads as much time as they need on a busy host.
func patient(p *plan) {
	for i := range p.workloads {
		p.workloads[i].limit = 10 * time.Minute
	}
}

// Every workload of the small sizes runs on Cascade and on Dask, with right results. That of
// killed workers is left out: on a busy host the tasks may have ended before one is killed.
func TestSmoke(t *testing.T) {
	tier.Nightly(t, "runs Dask and Cascade for a minute")
	pyenv.Python(t)
	p := plan{workloads: workloads(), systems: systems(), short: true, rounds: 1, budget: time.Hour}
	if err := p.choose("cascade-go,cascade-python,dask", "noop,latency,chain,fan,merge,tree,handover,sdmi,bdg,repeat,simulation"); err != nil {
		t.Fatal(err)
	}
	patient(&p)
	res, err := measure(t.Context(), p, 2, func(text string) { t.Log(text) })
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range p.systems {
		if m := res.Models[s.name]; m.Processes < 3 || m.Memory <= 0 {
			t.Errorf("%s has %d processes of %.0f MiB", s.name, m.Processes, m.Memory)
		}
	}
	for _, r := range res.Rows {
		if r.Error != "" && !strings.HasPrefix(r.Error, "not supported: ") {
			t.Errorf("%s on %s: %s", r.Workload, r.System, r.Error)
		}
		if r.Error == "" && r.Value <= 0 {
			t.Errorf("%s on %s is %g %s", r.Workload, r.System, r.Value, r.Unit)
		}
	}
	if len(res.Rows) < len(p.systems) {
		t.Fatalf("there are %d rows", len(res.Rows))
	}
}

// All that MPI takes part in runs on two ranks, which say the same as one to the driver; its graphs of computing tasks
// exchange what the steps need.
func TestMPI(t *testing.T) {
	tier.Nightly(t, "runs MPI for half a minute")
	pyenv.Python(t)
	t.Setenv("OMPI_MCA_mpi_yield_when_idle", "1") // beside other tests ranks that wait must not take the cores from those that work
	p := plan{workloads: slices.DeleteFunc(workloads(), func(w workload) bool { return w.hosts > 0 }), systems: systems(), short: true, rounds: 1, budget: time.Hour}
	if err := p.choose("mpi", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath(p.systems[0].start[0]); err != nil {
		t.Skip(err)
	}
	patient(&p)
	for i := range p.workloads {
		if w := &p.workloads[i]; w.kind == "metg" {
			w.short = args{"pattern": w.full["pattern"], "wide": w.full["wide"], "tasks": 64} // too small to tell anything but that it ends
		}
	}
	res, err := measure(t.Context(), p, 2, func(text string) { t.Log(text) })
	if err != nil {
		t.Fatal(err)
	}
	values := 0
	for _, r := range res.Rows {
		switch {
		case r.Error == "":
			values++
		case r.cell() != "—":
			t.Errorf("%s: %s", r.Workload, r.Error)
		}
	}
	if values < 15 {
		t.Errorf("there are %d values of %d rows", values, len(res.Rows))
	}
}

// What is measured is a commit, and what differs from it, but for what this command writes.
func TestCommit(t *testing.T) {
	dir := t.TempDir()
	if got := commit(t.Context(), dir); got != "unknown" {
		t.Errorf("without git: %s", got)
	}
	git := func(words ...string) {
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b"}, words...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", words, err, out)
		}
	}
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	names := []string{"benchmarks/peers/results.json", "benchmarks/peers/results.md", "docs/benchmarks-noops.svg", "client.go"}
	for _, name := range names {
		write(name, "before")
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "all")
	for _, name := range names[:3] {
		write(name, "after")
	}
	clean := commit(t.Context(), dir)
	if len(clean) < 7 || strings.Contains(clean, "-dirty") {
		t.Errorf("with new results: %s", clean)
	}
	write("client.go", "after")
	if got := commit(t.Context(), dir); got != clean+"-dirty" {
		t.Errorf("with another program: %s", got)
	}
}

// A recording becomes tasks in an order that can run, and its bound is the longest path or the work.
func TestTrace(t *testing.T) {
	read := func(text string) (r recording) {
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := read(`{"workflow": {"specification": {"tasks": [{"id": "b", "parents": ["a"]}, {"id": "a"}, {"id": "c", "parents": ["a"]}]},
		"execution": {"tasks": [{"id": "a", "runtimeInSeconds": 2}, {"id": "b", "runtimeInSeconds": 6}, {"id": "c", "runtimeInSeconds": 2}]}}}`)
	tasks, bound, err := r.trace(1, 2)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(tasks)
	if err != nil || string(b) != "[[0.2,[]],[0.2,[0]],[0.6,[0]]]" || bound < 0.799 || bound > 0.801 {
		t.Errorf("tasks %s, bound %g, %v", b, bound, err)
	}
	if _, bound, err := r.trace(1, 1); err != nil || bound != 1 {
		t.Errorf("bound on one core %g, %v", bound, err)
	}
	for _, text := range []string{`{"workflow": {"specification": {"tasks": [{"id": "a", "parents": ["a"]}]}, "execution": {"tasks": [{"id": "a", "runtimeInSeconds": 1}]}}}`, `{}`} {
		r := read(text)
		if tasks, _, err := r.trace(1, 1); err == nil {
			t.Errorf("%s became %v", text, tasks)
		}
	}
}

// Results of some workloads replace those of an earlier run, and the others stay, in the order of the tables.
func TestMerge(t *testing.T) {
	ws := workloads()
	at := func(w, s string, v float64) row { return row{Workload: w, System: s, Value: v, Runs: []float64{v}} }
	earlier := results{Measured: []measured{{Command: "first"}, {Command: "second"}}, Models: map[string]model{"ray": {Version: "1", Processes: 9}, "mpi": {Version: "1", Processes: 2}},
		Rows: []row{at("noop 1k", "ray", 1), at("chain step", "cascade-python", 2), at("chain step", "ray", 3)}}
	earlier.Rows[2].Run = 1
	later := results{Measured: []measured{{Command: "third", Commit: "abc"}}, Models: map[string]model{"ray": {Version: "2", Processes: 10}},
		Rows: []row{at("chain step", "ray", 4), at("latency p50", "ray", 5)}}
	dir := t.TempDir()
	if none, err := readResults(dir); err != nil || len(later.after(none, ws).Rows) != 2 {
		t.Errorf("without earlier results: %v", err)
	}
	if err := earlier.write(dir); err != nil {
		t.Fatal(err)
	}
	back, err := readResults(dir)
	if err != nil {
		t.Fatal(err)
	}
	both := later.after(back, ws)
	want := []row{at("noop 1k", "ray", 1), at("latency p50", "ray", 5), at("chain step", "cascade-python", 2), at("chain step", "ray", 4)}
	want[1].Run, want[3].Run = 1, 1
	if !slices.EqualFunc(both.Rows, want, func(a, b row) bool {
		return a.Workload == b.Workload && a.System == b.System && a.Value == b.Value && a.Run == b.Run
	}) {
		t.Errorf("rows are %v", both.Rows)
	}
	if len(both.Measured) != 2 || both.Measured[0].Command != "first" || both.Measured[1] != (measured{Command: "third", Commit: "abc"}) {
		t.Errorf("runs that gave rows: %v", both.Measured)
	}
	if both.Models["ray"] != (model{Version: "2", Processes: 10}) || both.Models["mpi"] != (model{Version: "1", Processes: 2}) {
		t.Errorf("models are %v", both.Models)
	}
	if err := os.WriteFile(filepath.Join(dir, "results.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readResults(dir); err == nil {
		t.Error("half a file was read")
	}
}

// What a killed system leaves in shared memory is removed, unless it was there before, is in use, or is nobody's that we know.
func TestRemoveLeft(t *testing.T) {
	touch := func(name string) *os.File {
		f, err := os.OpenFile(filepath.Join(shmFolder, name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { os.Remove(f.Name()); f.Close() })
		return f
	}
	unique := strconv.Itoa(os.Getpid())
	earlier := touch("psm_earlier" + unique)
	before := leftovers()
	left, used, foreign := touch("sem.mp-left"+unique), touch("sCascused"+unique), touch("peers-test-"+unique)
	if err := used.Truncate(4096); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Mmap(int(used.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(at) }()
	graph := touch("sem.hdr" + unique + "-1")
	if err := removeLeft(t.TempDir(), before); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file  *os.File
		stays bool
	}{{earlier, true}, {left, false}, {graph, false}, {used, true}, {foreign, true}} {
		if _, err := os.Stat(c.file.Name()); (err == nil) != c.stays {
			t.Errorf("%s: stays is to be %v: %v", c.file.Name(), c.stays, err)
		}
	}
}

// When the time for all is over nothing begins, and the rows say so.
func TestBudget(t *testing.T) {
	w := workload{name: "w", suite: "s", full: args{"n": 1}}
	b := &bench{plan: plan{workloads: []workload{w}, systems: []system{{name: "a"}}, rounds: 3, budget: time.Minute}, say: func(string) {},
		began: time.Now().Add(-time.Hour), versions: map[string]string{}, models: map[string]model{}}
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(b.happened) != 1 || b.happened[0].err != errBudget.Error() {
		t.Errorf("happened: %v", b.happened)
	}
}
