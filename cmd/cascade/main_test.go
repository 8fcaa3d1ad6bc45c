package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"go.uber.org/goleak"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/benchmarks/perf"
	testoutput "github.com/cascade-run/cascade/internal/testing/output"
)

// asCommand makes the test binary the command itself, for tests that kill it.
const asCommand = "CASCADE_TEST_AS_COMMAND"

type mainOr struct{ m *testing.M }

func (t mainOr) Run() int {
	if os.Getenv(asCommand) != "" {
		main()
	}
	return t.m.Run()
}

func TestMain(m *testing.M) {
	if perf.InExecutor(os.Getenv) { // as main does: tests behind those of cascade perf have its functions, too
		perf.Register()
	}
	cascade.RunTests(mainOr{m})
}

// Functions that the jobs of the scripts call: the test binary is their executor.
var (
	_ = cascade.Func1("Ramp", ramp, "with -> values")
	_ = cascade.Gen1("Parts", parts, "with -> part")
	_ = cascade.Func1("Sum", sum, "values -> sum")
	_ = cascade.Func1("Panics", panics, "values -> sum")
	_ = cascade.Func1("Stats", stats, "values -> stats")
	_ = cascade.Func1("Refuses", refuses, "values -> sum")
	_ = cascade.Func1x2("Years", years, "with -> this, next")

	twiceTask  = cascade.Func1("Twice", twice, "n -> m")
	pausedTask = cascade.Func2("Paused", paused, "up, onward -> n")
	totalTask  = cascade.Func2("Total", totalOf, "values, more -> sum")
	brokenTask = cascade.Func1("Broken", broken, "n -> m")
	fanTask    = cascade.Func1("Fan", fan, "n -> sum")
	_          = cascade.Func0("Calls", calls, "-> sum")

	errNoData = cascade.RegisterError("nodata", errors.New("no data for this date"))
)

func twice(_ context.Context, n int) (int, error) {
	fmt.Println("twice", n)
	return 2 * n, nil
}

func totalOf(_ context.Context, values cascade.List[int], more int) (sum int, err error) {
	for _, v := range values.All() {
		sum += v
	}
	return sum + more, nil
}

func broken(_ context.Context, n int) (int, error) {
	return 0, fmt.Errorf("number %d: %w", n, errNoData)
}

// paused says by one named pipe that it runs, and ends when it is told so by another.
func paused(_ context.Context, up, onward string) (int, error) {
	if err := os.WriteFile(up, []byte("up\n"), 0o600); err != nil {
		return 0, err
	}
	_, err := os.ReadFile(onward)
	return 1, err
}

// fan calls others one by one, so that they end in one order.
func fan(ctx context.Context, n int) (int, error) {
	fmt.Println("fans out")
	a := twiceTask.Go(ctx, cascade.Val(n))
	if _, err := a.Get(ctx); err != nil {
		return 0, err
	}
	b := twiceTask.Go(ctx, a)
	if _, err := b.Get(ctx); err != nil {
		return 0, err
	}
	more, err := cascade.Put(ctx, 100)
	if err != nil {
		return 0, err
	}
	return totalTask.Go(ctx, cascade.Futures(a, b), more).Get(ctx)
}

// calls has fan called, and a function that fails.
func calls(ctx context.Context) (int, error) {
	sum, err := fanTask.Go(ctx, cascade.Val(1), cascade.CallName("first")).Get(ctx)
	if err != nil {
		return 0, err
	}
	if _, err := brokenTask.Go(ctx, cascade.Val(7)).Get(ctx); !errors.Is(err, errNoData) {
		return 0, fmt.Errorf("the broken function gives: %w", err)
	}
	return sum, nil
}

// session runs calls as a program does: in a session of this name.
func (h *host) session(name string) (err error) {
	ctx := h.t.Context()
	cluster, err := cascade.Local(ctx, cascade.WithState(h.state), cascade.WithCPU(2))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	s, err := cluster.Session(ctx, cascade.WithSessionName(name))
	if err != nil {
		return err
	}
	_, err = calls(s.Context())
	return errors.Join(err, s.Close(ctx))
}

// holding opens a session that keeps references until the test, or letGo, ends them.
func (h *host) holding(name string) error {
	ctx := context.WithoutCancel(h.t.Context())
	cluster, err := cascade.Local(ctx, cascade.WithState(h.state), cascade.WithCPU(2))
	if err != nil {
		return err
	}
	h.t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			h.t.Error(err)
		}
	})
	s, err := cluster.Session(ctx, cascade.WithSessionName(name))
	if err != nil {
		return err
	}
	h.t.Cleanup(func() {
		if err := s.Close(ctx); err != nil {
			h.t.Error(err)
		}
	})
	small := twiceTask.Go(s.Context(), cascade.Val(4), cascade.CallName(hostileName))
	if _, err := small.Get(s.Context()); err != nil {
		return err
	}
	large, err := cascade.Put(s.Context(), cascade.Array[float64]{Data: make([]float64, 1<<17), Shape: []int{1 << 17}})
	if err != nil {
		return err
	}
	list, err := cascade.Put(s.Context(), []cascade.Future[int]{small, small})
	if err != nil {
		return err
	}
	last := twiceTask.Go(s.Context(), cascade.Val(1)) // behind it the agent knows of the values
	kept := []interface{ Release() }{small, large, list, last}
	h.letGo = func() error { // the agent hears of it before the call
		for _, f := range kept {
			f.Release()
		}
		last := twiceTask.Go(s.Context(), cascade.Val(1))
		kept = []interface{ Release() }{last}
		_, err := last.Get(s.Context())
		return err
	}
	_, err = last.Get(s.Context())
	return err
}

type rampSettings struct{ N int }

func ramp(ctx context.Context, s rampSettings) (cascade.Array[float64], error) {
	a, err := cascade.Alloc[float64](ctx, s.N)
	for i := range a.Data {
		a.Data[i] = float64(i)
	}
	return a, err
}

// parts yields the numbers below N, each as an array of one.
func parts(_ context.Context, s rampSettings) iter.Seq2[cascade.Array[float64], error] {
	return func(yield func(cascade.Array[float64], error) bool) {
		for i := range s.N {
			if !yield(cascade.Array[float64]{Data: []float64{float64(i)}, Shape: []int{1}}, nil) {
				return
			}
		}
	}
}

func sum(_ context.Context, a cascade.Array[float64]) (total float64, err error) {
	for _, v := range a.Data {
		total += v
	}
	return total, nil
}

type statsOf struct {
	Count int            `msgpack:"count"`
	Mean  float64        `msgpack:"mean"`
	Signs map[string]int `msgpack:"signs"`
}

func stats(_ context.Context, a cascade.Array[float64]) (statsOf, error) {
	s := statsOf{Count: len(a.Data), Signs: map[string]int{"plus": 0, "zero": 0, "minus": 0}}
	for _, v := range a.Data {
		s.Mean += v / float64(len(a.Data))
		if v == 0 {
			s.Signs["zero"]++
		} else {
			s.Signs["plus"]++
		}
	}
	return s, nil
}

// years are the beginnings of year N and of the next. JSON has no year 10000.
func years(_ context.Context, s rampSettings) (this, next time.Time, err error) {
	this = time.Date(s.N, 1, 1, 0, 0, 0, 0, time.UTC)
	return this, this.AddDate(1, 0, 0), nil
}

func panics(_ context.Context, a cascade.Array[float64]) (float64, error) {
	return a.Data[len(a.Data)], nil
}

func refuses(_ context.Context, a cascade.Array[float64]) (float64, error) {
	fmt.Println("looked at", len(a.Data), "values")
	return 0, fmt.Errorf("2026-02-30: %w", errNoData)
}

// host is a user's folder and state for one test.
type host struct {
	t       *testing.T
	source  string // the package's folder
	dir     string
	state   string
	environ []string
	letGo   func() error // of holding
}

// newHost makes the test's folder the working folder, and checks at the end that
// nothing is left: goroutines, sockets, shared memory.
func newHost(t *testing.T) *host {
	source, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, source: source, dir: t.TempDir(), state: t.TempDir()}
	run := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", run)
	t.Chdir(h.dir)
	running := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		goleak.VerifyNone(t, running)
		if left, _ := filepath.Glob(run + "/cascade/*"); len(left) > 0 {
			t.Errorf("sockets are left: %s", left)
		}
		name := fnv.New32a()
		name.Write([]byte(filepath.Join(h.state, "agent")))
		if left, _ := filepath.Glob(fmt.Sprintf("/dev/shm/cascade-*-%08x*", name.Sum32())); len(left) > 0 {
			t.Errorf("shared memory is left: %s", left)
		}
	})
	return h
}

// call is one run of the command.
type call struct {
	host       *host
	app        *app
	args       []string
	interrupts chan os.Signal
	out, err   testoutput.Buffer
	code       chan int
}

// deadline is how long a test waits for what is to come at once, on a host that does much else.
const deadline = 5 * time.Minute

// await waits until the text was written.
func await(t testing.TB, b *testoutput.Buffer, text string) {
	t.Helper()
	late := time.NewTimer(deadline)
	defer late.Stop()
	for {
		have, more := b.Next()
		if strings.Contains(have, text) {
			return
		}
		select {
		case <-more:
		case <-late.C:
			t.Fatalf("want %q in what the command writes:\n%s", text, have)
		}
	}
}

func (h *host) start(in string, args ...string) *call { return h.prepare(in, args...).run() }

// prepare is start for who changes something of the command before it runs.
func (h *host) prepare(in string, args ...string) *call {
	c := &call{host: h, args: args, interrupts: make(chan os.Signal, 2), code: make(chan int, 1)}
	c.app = &app{in: strings.NewReader(in), out: &c.out, err: &c.err, interrupts: c.interrupts, unheeded: func() {},
		environ: append(h.environ, "CASCADE_STATE="+h.state), calm: time.Hour, tab: time.Minute} // what it prints is the same on a slow host
	return c
}

func (c *call) run() *call {
	go func() { c.code <- c.app.run(c.host.t.Context(), c.args) }()
	return c
}

// wait returns what the command printed and its exit code, as a transcript.
func (c *call) wait() string {
	code := <-c.code
	var b strings.Builder
	if code != exitOK {
		fmt.Fprintf(&b, "exit %d\n", code)
	}
	b.WriteString(c.out.String())
	for line := range strings.Lines(c.err.String()) {
		b.WriteString("2> " + line)
	}
	return c.host.plain(b.String())
}

// varying is what differs between two runs of one job.
var varying = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\d+ events, the same`), "N events, the same"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`), "JOB"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`), "TIME"},
	{regexp.MustCompile(`\d\d:\d\d:\d\d\.\d{3}`), "TIME"},
	{regexp.MustCompile(`\b\d{1,2}:\d\d[AP]M\b`), "TIME"},
	{regexp.MustCompile(`"(\w*seconds|cpu|peak_memory|executor)":[-+.e\d]+`), `"$1":N`},
	{regexp.MustCompile(`\b[\d.]+(us|ms|s)\b`), "DURATION"},
	{regexp.MustCompile(`\b[\d.]+ s\b`), "DURATION"},
	{regexp.MustCompile(`[\d.]+ on average`), "N on average"},
	{regexp.MustCompile(`mean parallelism [\d.]+`), "mean parallelism N"},
	// Of equal tasks of a family any may have taken longest.
	{regexp.MustCompile(`(?m)(critical path  DURATION: .*)\[\d+\]`), "$1[N]"},
	{regexp.MustCompile(`(?m)^(  here: .*), [\d.]+[KMG]?i?B at its peak`), "$1, SIZE at its peak"}, // of what was measured on this host
	{regexp.MustCompile(`executor \d+`), "executor N"},
	{regexp.MustCompile(`goroutine \d+`), "goroutine N"},
	{regexp.MustCompile(`x:[0-9a-f]{32}`), "x:HASH"},
	{regexp.MustCompile(`0x[0-9a-f]+\??`), "0xN"},
	{regexp.MustCompile(`\S+/(main_test\.go):\d+`), "$1:N"},
	{regexp.MustCompile(`(cascade |"version":")` + regexp.QuoteMeta(cascade.Version())), "${1}VERSION"},
	{regexp.MustCompile(`go1[.0-9]*("?, ?(?:"platform":")?)` + runtime.GOOS + "/" + runtime.GOARCH), "GO${1}PLATFORM"},
	// A task whose start was told before has the run as its cause, a fast one what made it ready.
	{regexp.MustCompile(`"what":"finished","cause":"[^"]*"`), `"what":"finished","cause":"CAUSE"`},
	{regexp.MustCompile(`(?m)(\S) {2,}`), "$1  "},
	{regexp.MustCompile(`(?m) +$`), ""},
}

func (h *host) plain(s string) string {
	wd, err := os.Getwd()
	if err != nil {
		h.t.Fatal(err)
	}
	s = strings.NewReplacer(h.dir, "DIR", wd, "DIR", h.state, "STATE").Replace(s)
	for _, v := range varying {
		s = v.pattern.ReplaceAllString(s, v.with)
	}
	return s
}

// Scripts are transcripts of a user's session: files that they write, and
// commands with what they print. "last" and "only" choose among the lines, where
// their number depends on how fast the job is; "columns" has the first of a table; "sorted" has the lines of groups that
// run side by side, and end in any order, by their names. Rewrite them with -rewrite.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		path, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		h := newHost(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "file":
				var name string
				d.ScanArgs(t, "name", &name)
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(d.Input+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				return ""
			case "cat":
				b, err := os.ReadFile(d.CmdArgs[0].Key)
				if err != nil {
					return err.Error()
				}
				return string(b)
			case "session": // a program that calls
				var name string
				d.ScanArgs(t, "name", &name)
				if err := h.session(name); err != nil {
					t.Fatal(err)
				}
				return ""
			case "holding": // a session, until letting-go
				var name string
				d.ScanArgs(t, "name", &name)
				if err := h.holding(name); err != nil {
					t.Fatal(err)
				}
				return ""
			case "letting-go":
				if err := h.letGo(); err != nil {
					t.Fatal(err)
				}
				return ""
			case "cascade":
				line, in, _ := strings.Cut(d.Input, "\n")
				args := strings.Fields(line)
				h.environ = []string{"XDG_CONFIG_HOME=" + h.dir}
				if place, ok := d.Arg("place"); ok {
					h.environ = append(h.environ, "CASCADE_PARAM_PLACE="+place.Vals[0])
				}
				c := h.start(in, args...)
				text := c.wait()
				checkJSON(t, args, c.out.String())
				return shown(d, text)
			}
			t.Fatalf("unknown directive %q", d.Cmd)
			return ""
		})
	})
}

// groups are lines of progress that follow each other.
var groups = regexp.MustCompile(`(?m)(^2>  DURATION  .*\n)+`)

// shown picks the lines that are the same in each run.
func shown(d *datadriven.TestData, text string) string {
	if d.HasArg("sorted") {
		text = groups.ReplaceAllStringFunc(text, func(all string) string {
			return strings.Join(slices.Sorted(strings.Lines(all)), "")
		})
	}
	lines := strings.SplitAfter(text, "\n")
	if only, ok := d.Arg("only"); ok {
		lines = slices.DeleteFunc(lines, func(l string) bool { return !strings.Contains(l, only.Vals[0]) })
	}
	if columns, ok := d.Arg("columns"); ok { // the first of a table
		n, err := strconv.Atoi(columns.Vals[0])
		if err != nil {
			return err.Error()
		}
		for i, l := range lines {
			cells := strings.Split(strings.TrimSuffix(l, "\n"), "  ")
			lines[i] = strings.Join(cells[:min(n, len(cells))], "  ") + "\n"
		}
		lines = slices.DeleteFunc(lines, func(l string) bool { return l == "\n" })
	}
	if d.HasArg("last") {
		lines = lines[max(len(lines)-2, 0):]
	}
	return strings.Join(lines, "")
}

// checkJSON verifies that every line of what --json prints is an object.
func checkJSON(t *testing.T, args []string, out string) {
	if !strings.Contains(strings.Join(args, " "), "--json") {
		return
	}
	for line := range strings.Lines(out) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Errorf("%v printed %q: %v", args, line, err)
		}
	}
}
