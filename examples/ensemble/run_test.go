package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"image/png"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/agent/runtimeenv"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/examples/ensemble/fields"
	"github.com/cascade-run/cascade/examples/internal/twin"
	"github.com/cascade-run/cascade/internal/testing/pyenv"
)

func TestMain(m *testing.M) { cascade.RunTests(m) }

// The program, run by a local cluster with executor processes, gives the golden numbers.
func TestProgramGivesGoldenNumbers(t *testing.T) {
	for _, field := range []string{"t", "z"} {
		t.Run(field, func(t *testing.T) {
			g, err := graph(field, 4)
			if err != nil {
				t.Fatal(err)
			}
			runAndCheck(t, g, field)
		})
	}
}

// The job file, whose functions are built as an environment, gives them too.
func TestJobFileGivesGoldenNumbers(t *testing.T) {
	if testing.Short() {
		t.Skip("builds an executor with the go command")
	}
	runAndCheck(t, twin.Read(t, "job.yaml"), "t")
}

// Go and Python in one graph, in environments whose packages exclude each other,
// give the same numbers.
func TestPythonJobFileGivesGoldenNumbers(t *testing.T) {
	pyenv.Python(t)
	runAndCheck(t, twin.Read(t, "job-python.yaml"), "t")
}

// The same graph, built and run by a program in Python.
func TestPythonProgramGivesGoldenNumbers(t *testing.T) {
	pyenv.Python(t)
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	envs := runtimeenv.New(filepath.Join(cache, "cascade-test")) // that of needs: this is there
	defer envs.Close()
	python, err := envs.Prepare(t.Context(), dag.Environment{Python: &dag.Python{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	bin, dir := t.TempDir(), t.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin, "../../cmd/cascade-controller", "../../cmd/cascade-agent").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), python.Command[0], "program.py", filepath.Join(dir, "out"))
	cmd.Env = slices.Concat(os.Environ(), python.Env, []string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH")})
	if out, err := cmd.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "10 files in "+filepath.Join(dir, "out")+"\n") {
		t.Fatalf("%v\n%s", err, out)
	}
	checkFiles(t, dir, readGolden(t), "t")
}

// So they do from the file that all numbers come from, where it is at hand.
func TestPythonJobFileReadsTheSource(t *testing.T) {
	pyenv.Python(t)
	dir := os.Getenv("CASCADE_TEST_DATA")
	if dir == "" {
		t.Skip("CASCADE_TEST_DATA names no folder with era5-levels-members.grib")
	}
	runAndCheck(t, twin.Read(t, "job-python.yaml", "file="+filepath.Join(dir, "era5-levels-members.grib")), "t")
}

func runAndCheck(t *testing.T, g *dag.Graph, field string) {
	t.Helper()
	job := twin.Run(t, g)
	if len(job.Files) != 10 {
		t.Errorf("files %v, want 2 tables and 8 maps", job.Files)
	}
	meta, err := fields.ReadMeta("data/era5-ensemble.json")
	if err != nil {
		t.Fatal(err)
	}
	want := readGolden(t)
	checkStatistics(t.Context(), t, job.Job, meta, want, field)
	checkFiles(t, job.Dir, want, field)
}

type golden struct {
	Points     [][2]int
	Statistics []struct {
		Time                      time.Time
		Level                     int
		Field                     string
		Mean, Spread, Probability struct {
			AreaMean float64 `json:"area_mean"`
			Max      float64
			Points   []float64
		}
	}
	Steps []struct {
		Level           int
		Field           string
		From, To        string
		MeanChange      float64 `json:"mean_change"`
		MeanChangeRMS   float64 `json:"mean_change_rms"`
		SpreadChange    float64 `json:"spread_change"`
		SpreadChangeRMS float64 `json:"spread_change_rms"`
	}
}

func readGolden(t *testing.T) (g golden) {
	t.Helper()
	raw, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

// checkStatistics fetches the datasets that the job keeps.
func checkStatistics(ctx context.Context, t *testing.T, job *cascade.Job, meta *fields.Meta, want golden, field string) {
	t.Helper()
	checked := 0
	for _, w := range want.Statistics {
		if w.Field != field {
			continue
		}
		step := slices.IndexFunc(meta.Times, w.Time.Equal)
		for product, sum := range map[string]struct {
			area   float64
			points []float64
		}{
			"mean":        {w.Mean.AreaMean, w.Mean.Points},
			"spread":      {w.Spread.AreaMean, w.Spread.Points},
			"probability": {w.Probability.AreaMean, w.Probability.Points},
		} {
			name := fmt.Sprintf("%s[%d,%d].%s", product, step, w.Level, product)
			got := fetch(ctx, t, job, name)
			if !slices.Equal(got.Shape, []int{61, 120}) {
				t.Fatalf("%s has shape %v", name, got.Shape)
			}
			area, err := meta.AreaMean(got.Data)
			if err != nil {
				t.Fatal(err)
			}
			sameNumber(t, name, area, sum.area, w.Mean.Max)
			for i, p := range want.Points {
				sameNumber(t, name, got.At(p[0], p[1]), sum.points[i], w.Mean.Max)
			}
			checked++
		}
	}
	if checked != 24 {
		t.Errorf("checked %d datasets, want 24", checked)
	}
}

func fetch(ctx context.Context, t *testing.T, job *cascade.Job, name string) fields.Fields {
	t.Helper()
	located, err := job.Locate(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	if len(located) != 1 {
		t.Fatalf("%s names %d datasets", name, len(located))
	}
	var b bytes.Buffer
	if err := job.Fetch(ctx, located[0], &b); err != nil {
		t.Fatal(err)
	}
	d := located[0].Desc
	v, err := cascade.Decode[fields.Fields](d.Codec, d.DType, d.Shape, b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// checkFiles compares the tables with the golden numbers and looks at the maps.
func checkFiles(t *testing.T, dir string, want golden, field string) {
	t.Helper()
	for _, level := range []int{500, 850} {
		f, err := os.Open(filepath.Join(dir, "out", fmt.Sprintf("compare-%d.csv", level)))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		rows, err := csv.NewReader(f).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		rows = rows[1:]
		for _, w := range want.Steps {
			if w.Level != level || w.Field != field {
				continue
			}
			if len(rows) == 0 {
				t.Fatalf("%s: too few rows", f.Name())
			}
			key := []string{field, strconv.Itoa(level), w.From, w.To}
			if !slices.Equal(rows[0][:4], key) {
				t.Errorf("%s: row of %v, want %v", f.Name(), rows[0][:4], key)
			}
			for i, v := range []float64{w.MeanChange, w.MeanChangeRMS, w.SpreadChange, w.SpreadChangeRMS} {
				got, err := strconv.ParseFloat(rows[0][4+i], 64)
				if err != nil {
					t.Fatal(err)
				}
				sameNumber(t, f.Name(), got, v, 6e4)
			}
			rows = rows[1:]
		}
		if len(rows) > 0 {
			t.Errorf("%s: %d rows more than wanted", f.Name(), len(rows))
		}
		for _, product := range []string{"mean", "spread", "probability", "change"} {
			raw, err := os.ReadFile(filepath.Join(dir, "out", fmt.Sprintf("map_%s-%d.png", product, level)))
			if err != nil {
				t.Fatal(err)
			}
			if c, err := png.DecodeConfig(bytes.NewReader(raw)); err != nil || c.Width != 1100 || c.Height != 600 {
				t.Errorf("map of %s at %d: %+v, %v", product, level, c, err)
			}
		}
	}
}

// sameNumber allows for rounding, relative to the values that enter a number.
func sameNumber(t *testing.T, what string, got, want, size float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-13*size) {
		t.Errorf("%s: got %.17g, want %.17g", what, got, want)
	}
}
