package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/planner"
	"github.com/cascade-run/cascade/profiles"
)

func TestMain(m *testing.M) {
	time.Local = time.UTC // pages have local times
	os.Exit(m.Run())
}

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (go test -update writes it):\n%s", path, got)
	}
}

// forecast has a generator whose elements start consumers on another host, a family
// over them, and a name that is no good in any of the formats.
const forecast = `
job: "a <\"b\"> & c"
environments: {model: {go: ./model}}
tasks:
  model: {run: "model:Step", generates: {field: "*"}, resources: {cpu: 2, memory: 1GiB}}
  post: {for: {step: "model.field[*]"}, run: "model:Post", in: {field: "model.field[${step}]"}, out: [map]}
  join: {command: [cat, "${in.maps[*]}"], in: {maps: "post[*].map"}, out: [all], stdout: all}
outputs: [join.all]
`

func parse(t testing.TB, text string) *dag.Graph {
	t.Helper()
	g, err := dag.ParseYAML("job.yaml", []byte(text), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

type fataler interface {
	Helper()
	Fatal(args ...any)
}

func rows(t fataler, g *dag.Graph, lines ...string) (all []comms.TaskRow) {
	t.Helper()
	for _, line := range lines {
		var r comms.TaskRow
		var start float64
		if _, err := fmt.Sscan(line, &r.Name, &r.State, &r.Agent, &r.Executor, &start, &r.Seconds); err != nil {
			t.Fatal(line, err)
		}
		i, ok := g.Lookup(r.Name)
		if !ok {
			t.Fatal("no task ", r.Name)
		}
		r.Index, r.Group, r.Attempt, r.CPU, r.PeakRSS, r.BytesOut = uint32(i), g.Group(i).Name, 1, r.Seconds/2, 1<<20, 1000
		r.Started = time.Unix(1_700_000_000, int64(start*1e9)).UTC().Format(time.RFC3339Nano)
		all = append(all, r)
	}
	return all
}

// The clock of host b is 10 s late: its first task seems to start before the
// generator has. b is moved so far that it starts with it.
func twoHosts(t testing.TB) *Run {
	g := parse(t, forecast)
	r, err := NewRun(g, append(rows(t, g,
		"model   done a 1 20 3",
		"post[0] done b 1 11 1",
		"post[1] failed b 2 12 2",
		"post[2] done b 1 13 1.5",
		"join    done a 1 25 0.5",
	), comms.TaskRow{Name: "never", State: "skipped"}), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestPath(t *testing.T) {
	r := twoHosts(t)
	path, err := r.Path()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "clocks of %v moved by %v\n", r.Hosts, r.Clock)
	for _, s := range path {
		fmt.Fprintf(&b, "%s on %s: waited %.1f, ran %.1f, ended at %.1f\n", s.Task.Name, s.Task.Agent, s.Waited, s.Ran, s.Task.Finish)
	}
	const want = `clocks of [a b] moved by [0 9]
model on a: waited 0.0, ran 2.0, ended at 3.0
post[2] on b: waited 0.0, ran 1.5, ended at 3.5
join on a: waited 1.5, ran 0.5, ended at 5.5
`
	if b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
}

// Waits and times of the path add up to what the run took, and no task starts before
// what it waited for, whatever the clocks of hosts say.
func TestPathAddsUp(t *testing.T) {
	g := parse(t, `
job: grid
tasks:
  a: {for: {i: "0..5"}, run: F, out: [x]}
  b: {for: {i: "0..5"}, run: F, in: {x: "a[${i}].x"}, out: [x]}
  c: {for: {i: "0..5"}, run: F, in: {x: "b[*].x", y: "a[${i}].x"}, out: [x]}
`)
	rapid.Check(t, func(rt *rapid.T) {
		skew := []float64{0, rapid.Float64Range(-5, 5).Draw(rt, "skew of b"), rapid.Float64Range(-5, 5).Draw(rt, "skew of c")}
		finish := map[string]float64{}
		var lines []string
		for k, family := range []string{"a", "b", "c"} {
			for i := range 6 {
				ready := 0.0
				switch k {
				case 1:
					ready = finish[fmt.Sprintf("a[%d]", i)]
				case 2:
					for j := range 6 {
						ready = max(ready, finish[fmt.Sprintf("b[%d]", j)])
					}
				}
				host := rapid.IntRange(0, 2).Draw(rt, "host")
				start := ready + float64(rapid.IntRange(0, 50).Draw(rt, "wait"))/10
				took := float64(rapid.IntRange(1, 50).Draw(rt, "took")) / 10
				name := fmt.Sprintf("%s[%d]", family, i)
				finish[name] = start + took
				lines = append(lines, fmt.Sprintf("%s done %c %d %.9f %.3f", name, 'a'+host, i, 100+start+skew[host], took))
			}
		}
		r, err := NewRun(g, rows(rt, g, lines...), nil)
		if err != nil {
			rt.Fatal(err)
		}
		for i := range r.Tasks {
			task := &r.Tasks[i]
			if err := r.waits(dag.TaskIndex(task.Index), func(p *Task, _ bool) {
				if task.Start < p.Finish-2*clockGrain {
					rt.Errorf("%s starts at %f, before %s ends at %f", task.Name, task.Start, p.Name, p.Finish)
				}
			}); err != nil {
				rt.Fatal(err)
			}
		}
		path, err := r.Path()
		if err != nil {
			rt.Fatal(err)
		}
		sum := 0.0
		for _, s := range path {
			sum += s.Waited + s.Ran
		}
		if d := sum - r.End(); d < -1e-6 || d > 1e-6 {
			rt.Errorf("the path takes %f, the run %f", sum, r.End())
		}
	})
}

func TestTrace(t *testing.T) {
	var b bytes.Buffer
	if err := twoHosts(t).Trace(&b); err != nil {
		t.Fatal(err)
	}
	if !json.Valid(b.Bytes()) {
		t.Error("no JSON")
	}
	golden(t, "trace.json", b.Bytes())
	if err := twoHosts(t).Trace(failing{}); !errors.Is(err, errFull) {
		t.Errorf("a full disk gives %v", err)
	}
}

var errFull = errors.New("no space left")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFull }

func TestPage(t *testing.T) {
	r := twoHosts(t)
	r.Lost = []comms.LossRow{{At: "2026-11-20T08:00:02.123456789Z", Agent: "b", Why: "connection <closed>", Then: "its 2 tasks restarted after a grace of 30 s", Running: 2, Waiting: 1},
		{At: "2026-11-20T08:01:02Z", Agent: "b", Why: "connection closed", Running: 2, Back: "2026-11-20T08:01:05Z"},
		{At: "2026-11-20T08:01:32Z", Agent: "c", Why: "process ended", Then: "its task restarted at once, and 3 other tasks restarted", Running: 1}}
	var b bytes.Buffer
	err := r.Page(&b, comms.JobRow{ID: "0190", Name: `<script>alert(1)</script>`, Phase: "failed", Tasks: 6, Submitted: "2026-11-20T08:00:00.000000001Z", Ended: "2026-11-20T08:02:00.5Z", Error: "post[1]: <b>no</b>"},
		[]comms.PlanRow{{Task: "model", Host: "a", Finish: 2, Reason: "needs <no> task"}, {Task: "nowhere", Reason: "too big"}})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "page.html", b.Bytes())
	for _, bad := range []string{"<script", "<b>no", "<no>", "http-equiv", "src=", "href="} {
		if strings.Contains(b.String(), bad) {
			t.Errorf("the page has %q", bad)
		}
	}
}

func TestDrawings(t *testing.T) {
	for _, tt := range []struct {
		file  string
		draw  func(*Drawing) ([]byte, error)
		tasks bool
	}{{"families.dot", (*Drawing).DOT, false}, {"tasks.dot", (*Drawing).DOT, true}, {"families.mmd", (*Drawing).Mermaid, false}, {"families.svg", (*Drawing).SVG, false}} {
		b := drawn(t, parse(t, circular), nil, tt.tasks, tt.draw)
		golden(t, tt.file, b)
		if strings.HasSuffix(tt.file, ".svg") {
			wellFormed(t, b)
		}
	}
	many := parse(t, "job: j\ntasks:\n  a: {for: {i: \"0..2999\"}, command: \"true\"}\n")
	d, err := Draw(many, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.SVG(); err == nil || !strings.Contains(err.Error(), "families") {
		t.Errorf("a picture of 3000 tasks gives %v", err)
	}
	drawn(t, many, nil, false, (*Drawing).SVG)
}

func drawn(t *testing.T, g *dag.Graph, calls []comms.CallRow, tasks bool, as func(*Drawing) ([]byte, error)) []byte {
	t.Helper()
	d, err := Draw(g, calls, tasks)
	if err != nil {
		t.Fatal(err)
	}
	b, err := as(d)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A plan for two hosts: its page has what moves between them, and their memory.
func TestPlanPage(t *testing.T) {
	g := parse(t, "job: two <hosts>\ntasks:\n  make: {run: F, for: {i: \"0..3\"}, out: [x], resources: {memory: 1GiB}}\n  join: {run: G, in: {x: \"make[*].x\"}, out: [y]}\noutputs: [join.y]\n")
	known := profiles.File{Profiles: []profiles.Entry{{Job: g.Name, Task: "make", Function: "F", Runs: 1, Seconds: 2, Bytes: 1e9}, {Job: g.Name, Task: "join", Function: "G", Runs: 1, Seconds: 1}}}
	c := planner.Cluster{Hosts: []planner.Host{{Name: "a", CPU: 1000, Memory: 8 << 30}, {Name: "b", CPU: 1000, Memory: 8 << 30}}, Bandwidth: 1e9, Whole: true}
	p, err := planner.Best(g, known.Snapshot(), c, planner.Effort{Evaluations: 10})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Transfers) == 0 {
		t.Fatal("nothing moves: the page shows too little")
	}
	var page bytes.Buffer
	if err := PlanPage(&page, g, p, &c); err != nil {
		t.Fatal(err)
	}
	golden(t, "plan.html", page.Bytes())
	wellFormed(t, Picture(g, p).SVG())
}

// Two families feed each other in turn.
const circular = `
job: "a <\"b\"> & c"
tasks:
  first: {run: First, out: [x]}
  ping: {for: {i: "0..2"}, run: Ping, in: {x: "first.x"}, out: [x]}
  pong: {for: {i: "0..2"}, run: Pong, in: {x: "ping[${i}].x"}, out: [y]}
  model: {run: Step, in: {y: "pong[*].y"}, generates: {field: "*"}}
  post: {for: {step: "model.field[*]"}, run: Post, in: {field: "model.field[${step}]"}, out: [map]}
  join: {command: [cat, "${in.maps[*]}"], in: {maps: "post[*].map"}, out: [all], stdout: all}
outputs: [join.all]
`

func wellFormed(t *testing.T, b []byte) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(b)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, b)
		}
	}
}

// Two families are never hard to tell apart, and none looks as what has failed does.
func TestColours(t *testing.T) {
	rgb := func(text string) (c [3]int) {
		if _, err := fmt.Sscanf(text, "#%02x%02x%02x", &c[0], &c[1], &c[2]); err != nil {
			t.Fatal(text, err)
		}
		return c
	}
	far := func(a, b [3]int) int {
		sum := 0
		for i := range a {
			sum += max(a[i]-b[i], b[i]-a[i])
		}
		return sum
	}
	for i := range 12 {
		c := rgb(colourOf(i))
		if c[0]+c[1]+c[2] > 600 {
			t.Errorf("colour %d, %v, is lost on white", i, c)
		}
		if d := far(c, rgb(failedColour)); d < 100 {
			t.Errorf("colour %d, %v, looks like that of failures", i, c)
		}
		for k := range i {
			if d := far(c, rgb(colourOf(k))); d < 40 {
				t.Errorf("colours %d and %d, %v and %v, look alike", k, i, rgb(colourOf(k)), c)
			}
		}
	}
}

// A legend says what colours stand for; failures are red and stay apart from others.
func TestLegend(t *testing.T) {
	c := Chart{Rows: []string{"a"}, Classes: []string{"late", "unused", "early"}, Bars: []Bar{
		{Start: 0, Finish: 0.001, Class: "early"}, {Start: 0.001, Finish: 0.002, Class: "early", Failed: true}, {Start: 1, Finish: 100, Class: "late"}, {Start: 100, Finish: 101, Class: "b<"}}}
	svg := string(c.SVG())
	for text, n := range map[string]int{">failed</text>": 1, ">late</text>": 1, ">early</text>": 1, ">b&lt;</text>": 1, "unused": 0,
		failedColour: 2, colourOf(0): 2, colourOf(2): 2, colourOf(3): 2} {
		if got := strings.Count(svg, text); got != n {
			t.Errorf("%s is there %d times, want %d:\n%s", text, got, n, svg)
		}
	}
	for i := range 100 {
		c.Bars = append(c.Bars, Bar{Start: 101, Finish: 102, Class: fmt.Sprintf("family%02d", i)})
	}
	svg = string(c.SVG())
	wellFormed(t, []byte(svg))
	if !strings.Contains(svg, ">and 64 more</text>") {
		t.Error("the legend has no end")
	}
}

func TestTicks(t *testing.T) {
	for _, tt := range []struct {
		end  float64
		want string
	}{
		{0, "0"}, {4.49, "0 500ms 1s 1.5s 2s 2.5s 3s 3.5s 4s"}, {10, "0 1s 2s 3s 4s 5s 6s 7s 8s 9s 10s"}, {0.0123, "0 2ms 4ms 6ms 8ms 10ms 12ms"},
		{0.000007, "0 1us 2us 3us 4us 5us 6us 7us"}, {95, "0 10s 20s 30s 40s 50s 1m 1m10s 1m20s 1m30s"}, {250, "0 30s 1m 1m30s 2m 2m30s 3m 3m30s 4m"},
		{7200, "0 30m 1h 1h30m 2h"}, {400_000, "0 12h 1d 1d12h 2d 2d12h 3d 3d12h 4d 4d12h"},
	} {
		var got []string
		for _, at := range ticks(tt.end) {
			got = append(got, tickText(at))
		}
		if text := strings.Join(got, " "); text != tt.want {
			t.Errorf("up to %v: %s, want %s", tt.end, text, tt.want)
		}
	}
}

// Bars of a row never lie on each other, all of them are drawn or joined, and the
// picture does not grow with the bars.
func TestChart(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := Chart{Title: "<&\">", Rows: []string{"x<y", "z"}, Areas: []Area{{Name: "<&>", Limit: 3, Over: levels([]Level{{At: 2, Bytes: 4}, {At: 999, Bytes: -4}, {At: 2, Bytes: 1}})}}}
		for range rapid.IntRange(0, 300).Draw(rt, "bars") {
			start := float64(rapid.IntRange(0, 1000).Draw(rt, "start"))
			c.Bars = append(c.Bars, Bar{Row: rapid.IntRange(0, 1).Draw(rt, "row"), Start: start, Finish: start + float64(rapid.IntRange(0, 30).Draw(rt, "took"))/10,
				Class: rapid.SampledFrom([]string{"a", "b<"}).Draw(rt, "class"), Text: "<&>"})
		}
		lanes, _ := c.lanes()
		for i, a := range c.Bars {
			for k, b := range c.Bars[:i] {
				if a.Row == b.Row && lanes[i] == lanes[k] && a.Start < b.Finish-1e-9 && b.Start < a.Finish-1e-9 {
					rt.Errorf("bars %d and %d lie on each other", i, k)
				}
			}
		}
		n := 0
		for _, b := range joined(c.Bars, lanes, 2) {
			n += b.n
		}
		if n != len(c.Bars) {
			rt.Errorf("%d of %d bars are drawn", n, len(c.Bars))
		}
		wellFormed(t, c.SVG())
	})
	big := Chart{Rows: []string{"host"}}
	for i := range 100_000 {
		big.Bars = append(big.Bars, Bar{Start: float64(i), Finish: float64(i) + 0.9, Class: "a"})
	}
	if n := len(big.SVG()); n > 1<<20 {
		t.Errorf("a picture of 100,000 bars has %d bytes", n)
	}
}
