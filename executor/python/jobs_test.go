//go:build linux

package python_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/executor/arrowcodec"
	"github.com/cascade-run/cascade/internal/testing/pyenv"
)

var update = flag.Bool("update", false, "write golden files")

func TestMain(m *testing.M) { cascade.RunTests(m) }

// Go's part of the mixed job.
var (
	_ = cascade.Func1x2("Wave", wave, "with -> values, at")
	_ = cascade.Func1("Place", place, "values -> at")
	_ = cascade.Func1("Norm", norm, "values -> norm")
)

var _ = cascade.Func1x2("Rows", rows, "table -> n, again")

// rows counts the rows of a table and hands it on.
func rows(_ context.Context, table arrowcodec.Table) (int64, arrowcodec.Table, error) {
	n := int64(0)
	for _, b := range table.Batches {
		n += b.NumRows()
	}
	return n, table, nil
}

type waveParams struct{ N int }

// wave makes a field, and tells where it lies.
func wave(ctx context.Context, p waveParams) (cascade.Array[float64], string, error) {
	a, err := cascade.Alloc[float64](ctx, p.N)
	if err != nil {
		return a, "", err
	}
	for i := range a.Data {
		a.Data[i] = math.Sin(float64(i) / 100)
	}
	at, err := segment(a.Data)
	return a, at, err
}

func place(_ context.Context, values cascade.Array[float64]) (string, error) {
	return segment(values.Data)
}

func norm(_ context.Context, values cascade.Array[float64]) (float64, error) {
	sum := 0.0
	for _, v := range values.Data {
		sum += v * v
	}
	return math.Sqrt(sum), nil
}

// segment tells of which file, and from which byte on, memory is a mapping.
func segment(values []float64) (string, error) {
	at := uint64(uintptr(unsafe.Pointer(&values[0])))
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(maps)) {
		var first, last, offset, inode uint64
		var mode, device, path string
		if n, _ := fmt.Sscanf(line, "%x-%x %s %x %s %d %s", &first, &last, &mode, &offset, &device, &inode, &path); n == 7 && first <= at && at < last {
			return fmt.Sprintf("%s %d", filepath.Base(path), at-first+offset), nil
		}
	}
	return "private", nil
}

// Each job file in testdata/job comes to what its golden file says: how each task
// ended, what it printed, and each output.
func TestJobs(t *testing.T) {
	pyenv.Python(t)
	c := cascadetest.Start(t)
	files, err := filepath.Glob("testdata/job/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no job files", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			same(t, filepath.Join("testdata", name+".golden"), outcome(t, c, submit(t, c, file)))
		})
	}
}

// Tensors go to other tasks as arrays and come as tensors, which each task may write to for itself.
func TestTensors(t *testing.T) {
	if os.Getenv("CASCADE_TEST_TORCH") == "" {
		t.Skip("brings 800 MB of packages: set CASCADE_TEST_TORCH=1")
	}
	pyenv.PythonVersion(t, "3.10")
	c := cascadetest.Start(t)
	same(t, "testdata/tensors.golden", outcome(t, c, submit(t, c, "testdata/torch/tensors.yaml")))
}

// Values go from one version of CPython to the next, through all of them, in one job.
func TestVersionsMeet(t *testing.T) {
	pyenv.Python(t)
	var file strings.Builder
	file.WriteString("job: versions\nenvironments:\n")
	versions := []string{"3.10", "3.11", "3.12", "3.13"}
	for i, v := range versions {
		pyenv.PythonVersion(t, v)
		fmt.Fprintf(&file, "  v%d: {python: {version: %q}, py_modules: [./versions.py]}\n", i, v)
	}
	file.WriteString("tasks:\n")
	for i := range versions {
		in := ""
		if i > 0 {
			in = fmt.Sprintf("in: {met: t%[1]d.met, values: t%[1]d.values}, ", i-1)
		}
		fmt.Fprintf(&file, "  t%[1]d: {run: \"v%[1]d:versions.meet\", %[2]sout: [met, values]}\n", i, in)
	}
	file.WriteString("  told: {run: \"v0:versions.tell\", in: {met: t3.met, values: t3.values}, out: [text]}\noutputs: [told.text]\n")
	const want = "told.text = 3.10 meets 3.10 3.11 3.12 3.13: 4999950000.0 in d, read-only\n"
	c := cascadetest.Start(t)
	if got := outcome(t, c, submitText(t, c, "testdata/job", []byte(file.String()))); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// PYTHONPATH of a job names folders that are looked into, too. What has the names of modules
// that the executor itself needs does not get into its way; commands find the folders as well.
func TestPythonPath(t *testing.T) {
	pyenv.Python(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"own/extra.py": "value = 7\n", "own/steps.py": "value = 'hidden by py_modules'\n", "code/steps.py": "import extra\ndef take(): return extra.value\n",
		"own/cascade.py": "raise ImportError('hidden')\n", "own/msgpack.py": "raise ImportError('hidden')\n", "own/zmq.py": "raise ImportError('hidden')\n",
		"own/selectors.py": "raise ImportError('hidden')\n", "code/mmap.py": "raise ImportError('hidden')\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text := fmt.Sprintf(`
job: path
environments:
  e: {python: {}, py_modules: [./code], env: {PYTHONPATH: %q}}
tasks:
  function: {run: "e:steps.take", out: [n]}
  command: {command: "python -c 'import sys, extra, steps; sys.stdout.write(str(steps.take()))' > ${out.n}", environment: e, out: [n]}
outputs: [function.n, command.n]
`, filepath.Join(dir, "own"))
	c := cascadetest.Start(t)
	const want = "command.n = 7\nfunction.n = 7\n"
	if got := outcome(t, c, submitText(t, c, dir, []byte(text))); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// same compares with a golden file, or writes it.
func same(t *testing.T, golden, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func submit(t *testing.T, c *cascade.Cluster, file string) *cascade.Job {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return submitText(t, c, filepath.Dir(file), text)
}

// submitText submits what a job file in a folder would say.
func submitText(t *testing.T, c *cascade.Cluster, folder string, text []byte) *cascade.Job {
	t.Helper()
	dir, err := filepath.Abs(folder)
	if err != nil {
		t.Fatal(err)
	}
	g, err := dag.ParseYAML("job.yaml", text, dag.Override{}, dag.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return cascadetest.SubmitGraph(t, c, g, cascade.WithDir(dir))
}

// outcome is a job's end as text.
func outcome(t *testing.T, c *cascade.Cluster, j *cascade.Job) string {
	t.Helper()
	if _, err := j.Wait(t.Context()); err != nil && !strings.Contains(err.Error(), "task ") && !strings.Contains(err.Error(), "was cancelled") {
		t.Fatal(err)
	}
	rows, err := cascade.Rows[comms.TaskRow](t.Context(), c.Client, comms.QueryTasks, j.ID(), "")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	slices.SortFunc(rows, func(x, y comms.TaskRow) int { return strings.Compare(x.Name, y.Name) })
	for _, r := range rows {
		if r.State != "done" {
			fmt.Fprintf(&b, "%s %s: %s\n", r.Name, r.State, clean(r.Error))
			continue
		}
		if d := r.Device; d != nil {
			fmt.Fprintf(&b, "%s had values on a device: %+v\n", r.Name, *d)
		}
		log := logOf(t, j, r.Name)
		for r.Name == "talk" && !strings.Contains(log, "from a child") { // the agent reads it, perhaps behind the task's end
			log = logOf(t, j, r.Name)
		}
		if log != "" {
			lines := strings.Split(strings.TrimRight(lineNumbers.ReplaceAllString(log, `", in`), "\n"), "\n")
			lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, `  File "/`) }) // of Python itself
			slices.Sort(lines)                                                                                       // those of a child come on another way
			fmt.Fprintf(&b, "%s printed\n  %s\n", r.Name, strings.Join(lines, "\n  "))
		}
	}
	located, err := j.Locate(t.Context())
	if err != nil && !strings.Contains(err.Error(), "not") {
		t.Fatal(err)
	}
	data := map[string]string{}
	for _, d := range located {
		var raw bytes.Buffer
		if err := j.Fetch(t.Context(), d, &raw); err != nil {
			t.Fatal(err)
		}
		data[d.Name] = text(t, d.Desc, raw.Bytes())
	}
	for _, name := range slices.Sorted(maps.Keys(data)) {
		fmt.Fprintf(&b, "%s = %s\n", name, data[name])
	}
	return b.String()
}

// logOf is what a task has written up to now.
func logOf(t *testing.T, j *cascade.Job, task string) string {
	t.Helper()
	var log strings.Builder
	if _, err := j.Log(t.Context(), task, 0, &log); err != nil {
		t.Fatal(err)
	}
	return log.String()
}

var lineNumbers = regexp.MustCompile(`", line \d+ in`)

var amounts = regexp.MustCompile(`[0-9.]+[KMG]iB of private memory`)

// clean takes out of an error what differs from run to run.
func clean(text string) string {
	return strings.ReplaceAll(amounts.ReplaceAllString(text, "too much private memory"), "\n", "\n  ")
}

// text is a dataset for people.
func text(t *testing.T, d comms.Desc, raw []byte) string {
	t.Helper()
	switch d.Codec {
	case "raw":
		return strings.ReplaceAll(string(raw), "\n", "\n  ")
	case "msgpack":
		var v any
		if err := msgpack.Unmarshal(raw, &v); err != nil {
			t.Fatal(err)
		}
		out, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	return fmt.Sprintf("%s %s %v of %d bytes", d.Codec, d.DType, d.Shape, d.Size)
}
