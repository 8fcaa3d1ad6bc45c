package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/examples/internal/twin"
)

func TestMain(m *testing.M) { cascade.RunTests(m) }

func TestProgramEqualsJobFile(t *testing.T) {
	for _, level := range []int{500, 850} {
		code, err := graph(level)
		if err != nil {
			t.Fatal(err)
		}
		if err := twin.Differences(code, readJob(t, level)); err != nil {
			t.Error(err)
		}
	}
}

func readJob(t *testing.T, level int) *dag.Graph {
	t.Helper()
	return twin.Read(t, "job.yaml", fmt.Sprint("level=", level))
}

// The program, run by a local cluster with executor processes, gives the report
// that Python computed; at 850 hPa five cities lie above the level.
func TestProgram(t *testing.T) {
	for level, above := range map[int]int{500: 0, 850: 5} {
		t.Run(fmt.Sprint(level), func(t *testing.T) {
			g, err := graph(level)
			if err != nil {
				t.Fatal(err)
			}
			runAndCheck(t, g, level, above)
		})
	}
}

// The job file, whose functions are built as an environment, gives it too.
func TestJobFile(t *testing.T) {
	if testing.Short() {
		t.Skip("builds an executor with the go command")
	}
	runAndCheck(t, readJob(t, 850), 850, 5)
}

func runAndCheck(t *testing.T, g *dag.Graph, level, above int) {
	t.Helper()
	job := twin.Run(t, g)
	failed, err := cascade.Rows[comms.TaskRow](t.Context(), job.Cluster.Client, comms.QueryTasks, job.ID(), "failed")
	if err != nil {
		t.Fatal(err)
	}
	if len(failed) != above {
		t.Errorf("%d tasks failed, want %d", len(failed), above)
	}
	for _, r := range failed {
		if r.Group != "assess" || !strings.Contains(r.Error, "the level is below the ground") {
			t.Errorf("%s failed: %s", r.Name, r.Error)
		}
	}
	if len(job.Files) != 51 {
		t.Errorf("%d files; want the report and a series of each of 50 cities", len(job.Files))
	}
	twin.SameFiles(t, filepath.Join(job.Dir, "out/report.txt"), fmt.Sprintf("testdata/report-%d.txt", level))
	first, err := os.ReadFile(filepath.Join(job.Dir, "out/cities/series-0.csv"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(first), "\n")
	if len(lines) != 1+4*10+1 || lines[0] != "time,member,celsius" || !strings.HasPrefix(lines[40], "2017-01-02T12:00Z,9,") {
		t.Errorf("the series of a city has %d lines:\n%s", len(lines), first)
	}
}

// The golden reports are what derive/golden.py computes.
func TestGolden(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	dir := t.TempDir()
	if out, err := exec.Command(python, "derive/golden.py", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"report-850.txt", "report-500.txt"} {
		twin.SameFiles(t, filepath.Join(dir, name), filepath.Join("testdata", name))
	}
}
