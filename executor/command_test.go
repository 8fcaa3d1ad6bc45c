package executor

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/shm/ledger"
)

// words makes a command line from job-file words.
func words(t testing.TB, line ...string) []comms.Word {
	t.Helper()
	args, err := dag.Words(line...)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]comms.Word, len(args))
	for i := range args {
		out[i].Parts = args[i]
	}
	return out
}

// sh is a kind that runs a shell script, with inputs and outputs.
func (a *fakeAgent) sh(script string, inputs, outputs []string, change ...func(*comms.Kind)) uint32 {
	change = append([]func(*comms.Kind){func(k *comms.Kind) {
		k.Function, k.Command = "", words(a.t, "sh", "-c", script)
		k.Group = "script"
	}}, change...)
	return a.kind("", inputs, outputs, change...)
}

func raw(text string) comms.Desc {
	return comms.Desc{Codec: "raw", Size: uint64(len(text)), Place: comms.Place{Kind: comms.PlaceInline, Bytes: []byte(text)}}
}

func content(s *fakeStore, d comms.Desc) string {
	if d.Place.Kind == comms.PlaceInline {
		return string(d.Place.Bytes)
	}
	return string(s.bytes(d))
}

func TestCommandReadsAndWritesFiles(t *testing.T) {
	a, s := startWithStore(t, testRegistry())
	whole := s.put(a, ledger.File, raw("whole file\n"))
	arena := s.put(a, ledger.Arena, raw("arena\n"))
	value := raw("\x92\x01\x02")
	value.Codec = "msgpack"
	value = s.put(a, ledger.File, value)
	tests := []struct {
		name    string
		kind    uint32
		inputs  []comms.Desc
		want    string
		copied  uint64
		segment bool
	}{
		{"stdin and stdout", a.sh("tr a-z A-Z", []string{"text"}, []string{"upper"}, func(k *comms.Kind) { k.Stdin, k.Stdout = "text", "upper" }),
			[]comms.Desc{raw("shout\n")}, "SHOUT\n", 6, false},
		{"paths", a.kind("", []string{"text"}, []string{"copy"}, func(k *comms.Kind) { k.Command = words(t, "cp", "${in.text}", "${out.copy}") }),
			[]comms.Desc{whole}, "whole file\n", 0, false},
		{"variables", a.sh(`cat "$CASCADE_IN_TEXT" > "$CASCADE_OUT_COPY"`, []string{"text"}, []string{"copy"}),
			[]comms.Desc{arena}, "arena\n", 6, false},
		{"a file for a later command", a.sh("echo data", nil, []string{"file"}, func(k *comms.Kind) { k.Stdout = "file"; k.Outputs[0].File = true }),
			nil, "data\n", 0, true},
		{"a large output", a.sh("head -c 100000 /dev/zero", nil, []string{"file"}, func(k *comms.Kind) { k.Stdout = "file" }),
			nil, strings.Repeat("\x00", 100000), 0, true},
		{"a value", a.sh("cat ${in.v} $CASCADE_IN_V", []string{"v"}, []string{"text"}, func(k *comms.Kind) { k.Stdout = "text" }),
			[]comms.Desc{inline(t, a.exec.reg, map[string]float64{"mean": 1.5})}, "{\"mean\":1.5}\n{\"mean\":1.5}\n", 13, false},
		{"a value with a file of its own", a.sh("cat", []string{"v"}, []string{"text"}, func(k *comms.Kind) { k.Stdin, k.Stdout = "v", "text" }),
			[]comms.Desc{value}, "[1,2]\n", 6, false},
		{"environment", a.sh(`echo $CASCADE_TASK $CASCADE_ATTEMPT $OMP_NUM_THREADS $MKL_NUM_THREADS $OPENBLAS_NUM_THREADS $COLOUR $CASCADE_IN_V_DTYPE "$CASCADE_IN_V_SHAPE" $CASCADE_EXECUTOR_TOKEN`,
			[]string{"v"}, []string{"text"}, func(k *comms.Kind) {
				k.Stdout, k.Env, k.Resources.CPU = "text", []string{"COLOUR=red"}, 2500
			}), []comms.Desc{inline(t, a.exec.reg, []float64{1, 2})}, "NAME 1 3 3 3 red f64 2\n", 16, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := a.run(tt.kind, tt.inputs...)
			a.dispatch(r)
			it := a.items(1)[0]
			if it.Error != nil {
				t.Fatalf("%v\n%s", it.Error, it.Error.LogTail)
			}
			want := strings.Replace(tt.want, "NAME", r.Name, 1)
			if got := content(s, it.Outputs[0]); got != want {
				t.Errorf("output is %q, want %q", got, want)
			}
			if it.Usage.Copied != tt.copied || it.Usage.Duration <= 0 {
				t.Errorf("usage is %+v", it.Usage)
			}
			if seg := it.Outputs[0].Place.Kind == comms.PlaceSegment; seg != tt.segment {
				t.Errorf("output is at %+v", it.Outputs[0].Place)
			}
			if tt.segment {
				path := s.store.Path(ledger.Output, ledger.SegmentID(it.Outputs[0].Place.Segment))
				if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o400 {
					t.Errorf("output file: %v, %v", fi, err)
				}
			}
		})
	}
	if left, err := filepath.Glob(filepath.Join(a.exec.welcome.Scratch, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A pickle, and msgpack that JSON cannot say, are refused before the command starts, with what to return instead.
func TestCommandReadsNoPickle(t *testing.T) {
	a, s := startWithStore(t, testRegistry())
	pickled, labelled, extension := raw("stream and buffers"), raw("labels and arrays"), raw("\xd4\x05\x00")
	pickled.Codec, labelled.Codec, extension.Codec = "pickle5", "xarray", "msgpack"
	mask, keys := pickled, raw("\x81\x92\x01\x02\x03") // {[1, 2]: 3}
	mask.DType, keys.Codec = "array of bool", "msgpack"
	for _, c := range []struct {
		d    comms.Desc
		want string
	}{
		{pickled, `input "model": fit.model is a Python object, pickled, which only Python tasks read: return text,`},
		{s.put(a, ledger.File, pickled), `input "model": fit.model is a Python object, pickled, which only Python tasks read: return text,`},
		{mask, `input "model": fit.model is a Python object, pickled (array of bool), which only Python tasks read: return x.astype("uint8") for a command`},
		{keys, `input "model": fit.model cannot be a file: write msgpack as JSON: the key [1,2] is a list (in Python a tuple)`},
		{labelled, `input "model": it is an object of xarray, which only Python tasks read: return its array`},
		{s.put(a, ledger.File, labelled), `input "model": it is an object of xarray, which only Python tasks read: return its array`},
		{extension, `input "model": fit.model cannot be a file: write msgpack as JSON: msgpack: unknown ext id=5`},
	} {
		a.dispatch(a.run(a.sh("cat", []string{"model"}, nil, func(k *comms.Kind) { k.Stdin, k.Inputs[0].From = "model", "fit.model" }), c.d))
		if e := a.items(1)[0].Error; e == nil || e.Kind != comms.ErrorInput || !strings.Contains(e.Message, c.want) {
			t.Errorf("error is %+v, want %s", e, c.want)
		}
	}
}

// A command whose words differ by task comes with the run, not with the kind.
func TestCommandDiffersByTask(t *testing.T) {
	a, s := startWithStore(t, testRegistry())
	k := a.kind("", nil, []string{"text"}, func(k *comms.Kind) { k.Stdout = "text" })
	for _, word := range []string{"one", "two"} {
		r := a.run(k)
		r.Command = words(t, "echo", word)
		a.dispatch(r)
		it := a.items(1)[0]
		if it.Error != nil {
			t.Fatal(it.Error)
		}
		if got := content(s, it.Outputs[0]); got != word+"\n" {
			t.Errorf("printed %q, want %q", got, word)
		}
	}
	a.dispatch(a.run(k)) // neither has words
	if it := a.items(1)[0]; it.Error == nil || !strings.Contains(it.Error.Message, "the command line is empty") {
		t.Errorf("without any words: %v", it.Error)
	}
}

// A list of any length is a file of paths, for placeholders and as a variable.
func TestCommandListsOfPaths(t *testing.T) {
	a, s := startWithStore(t, testRegistry())
	var long []comms.Desc
	for range 5000 { // too many for one text
		long = append(long, raw("line\n"))
	}
	for _, data := range [][]comms.Desc{long, {raw("one\n"), {}, raw("three\n")}, {}} {
		want := 0
		for _, d := range data {
			if d.Place.Kind != comms.PlaceNone {
				want++
			}
		}
		for _, text := range []string{"xargs cat < ${in.parts[@]} | wc -l", `xargs cat < "$CASCADE_IN_PARTS_FILE" | wc -l`, `wc -l < ${in.parts[@]}`} {
			r := a.run(a.sh(text, []string{"parts*"}, []string{"n"}, func(k *comms.Kind) { k.Stdout = "n" }))
			r.Inputs = []comms.RunInput{{Data: data}}
			a.dispatch(r)
			it := a.items(1)[0]
			if it.Error != nil {
				t.Fatalf("%s: %v\n%s", text, it.Error, it.Error.LogTail)
			}
			if got := strings.TrimSpace(content(s, it.Outputs[0])); got != strconv.Itoa(want) {
				t.Errorf("%s: %s lines, want %d", text, got, want)
			}
		}
	}
	// As words of one text they are too many, and the error says what to write.
	r := a.run(a.sh("cat ${in.parts[*]}", []string{"parts*"}, nil))
	r.Inputs = []comms.RunInput{{Data: long}}
	a.dispatch(r)
	if e := a.items(1)[0].Error; e == nil || !strings.Contains(e.Message, "${in.NAME[@]} is a file") {
		t.Errorf("5000 paths in one text: %+v", e)
	}
}

func TestCommandLists(t *testing.T) {
	a, s := startWithStore(t, testRegistry())
	k := a.kind("", []string{"parts*"}, []string{"all"}, func(k *comms.Kind) {
		k.Command, k.Stdout = words(t, "cat", "${in.parts[*]}"), "all"
	})
	r := a.run(k)
	r.Inputs = []comms.RunInput{{Data: []comms.Desc{raw("one "), {}, s.put(a, ledger.File, raw("three "))}}}
	a.dispatch(r)
	it := a.items(1)[0]
	if it.Error != nil {
		t.Fatal(it.Error)
	}
	if got := content(s, it.Outputs[0]); got != "one three " {
		t.Errorf("output is %q", got)
	}
	// The command line of a run replaces the kind's.
	r = a.run(k)
	r.Command = words(t, "echo", "of ${in.parts[*]}!")
	r.Inputs = []comms.RunInput{{Data: []comms.Desc{raw("x")}}}
	a.dispatch(r)
	if got := content(s, a.items(1)[0].Outputs[0]); !strings.HasPrefix(got, "of /") || !strings.HasSuffix(got, "parts-0!\n") {
		t.Errorf("output is %q", got)
	}
}

func TestCommandFailures(t *testing.T) {
	a, _ := startWithStore(t, testRegistry())
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("notes.txt", "hello", 0o644)
	write("broken", "\x01\x02", 0o755)
	write("nointerp", "#!/no/such/interpreter\n", 0o755)
	program := func(words_ ...string) uint32 {
		return a.kind("", nil, nil, func(k *comms.Kind) { k.Command, k.Dir = words(t, words_...), dir })
	}
	tests := []struct {
		name   string
		kind   uint32
		want   comms.ErrorKind
		code   int32
		signal string
		text   []string
		tail   string
	}{
		{"status", a.sh("echo out; echo err >&2; exit 3", nil, nil), comms.ErrorExit, 3, "", []string{"status 3"}, "err"},
		{"signal", a.sh("kill -SEGV $$", nil, nil), comms.ErrorExit, -1, "SIGSEGV", []string{"SIGSEGV"}, ""},
		{"no output", a.sh("true", nil, []string{"page"}), comms.ErrorTask, 0, "", []string{`did not write output "page"`, "CASCADE_OUT_PAGE"}, ""},
		{"output is a link", a.sh("ln -s /etc/passwd $CASCADE_OUT_PAGE", nil, []string{"page"}), comms.ErrorTask, 0, "", []string{"not a regular file but a symbolic link: write the data itself"}, ""},
		{"output is a hard link", a.sh("echo x > $CASCADE_OUT_PAGE; ln $CASCADE_OUT_PAGE $CASCADE_OUT_PAGE.other",
			nil, []string{"page"}), comms.ErrorTask, 0, "", []string{"hard link"}, ""},
		{"output and failure", a.sh("echo x > $CASCADE_OUT_PAGE; exit 1", nil, []string{"page"}), comms.ErrorExit, 1, "", nil, ""},
		{"not found", program("no-such-program"), comms.ErrorSetup, 0, "", []string{`"no-such-program" is not in PATH`}, ""},
		{"no such path", program("./absent.sh"), comms.ErrorSetup, 0, "", []string{`"./absent.sh"`, "no such file"}, ""},
		{"not executable", program("./notes.txt"), comms.ErrorSetup, 0, "", []string{"chmod +x"}, ""},
		{"no program", program("./broken"), comms.ErrorSetup, 0, "", []string{"neither a program for this machine"}, ""},
		{"no interpreter", program("./nointerp"), comms.ErrorSetup, 0, "", []string{"interpreter"}, ""},
		{"no folder", a.sh("true", nil, nil, func(k *comms.Kind) { k.Dir = "/no/such/folder" }), comms.ErrorSetup, 0, "", []string{"working folder", "/no/such/folder"}, ""},
		{"long arguments", program("true", strings.Repeat("x", 1<<18)), comms.ErrorSetup, 0, "", []string{"too long"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a.dispatch(a.run(tt.kind))
			it := a.items(1)[0]
			if it.Error == nil || it.Error.Kind != tt.want || it.Error.ExitCode != tt.code || it.Error.Signal != tt.signal {
				t.Fatalf("error is %+v", it.Error)
			}
			for _, w := range tt.text {
				if !strings.Contains(it.Error.Message, w) {
					t.Errorf("message lacks %q: %s", w, it.Error.Message)
				}
			}
			if !bytes.Contains(it.Error.LogTail, []byte(tt.tail)) {
				t.Errorf("log tail is %q", it.Error.LogTail)
			}
		})
	}
}

// alive tells whether a process exists and is no zombie.
func alive(t testing.TB, pid int) bool {
	t.Helper()
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

func TestCommandsAreEnded(t *testing.T) {
	a, _ := startWithStore(t, testRegistry())
	for _, tt := range []struct {
		name, script string
		grace        time.Duration
		log          string
	}{
		{"SIGTERM is enough", "trap 'echo asked to end; exit 0' TERM; echo $$ > pid; while :; do sleep 0.01; done", time.Minute, "asked to end\n"},
		{"SIGKILL follows", "trap '' TERM; echo $$ > pid; while :; do sleep 0.01; done", 20 * time.Millisecond, ""},
		{"SIGTERM for the group", "trap 'wait; echo child has ended; exit 0' TERM; sh -c 'echo $$ > pid; exec sleep 1000' & wait", time.Minute, "child has ended\n"},
		{"SIGKILL for the group", "sh -c \"trap '' TERM; echo \\$\\$ > pid; while :; do sleep 0.01; done\" & trap 'exit 0' TERM; wait", 20 * time.Millisecond, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			r := a.run(a.sh(tt.script, nil, []string{"x"}, func(k *comms.Kind) { k.Dir = dir }))
			a.dispatch(r)
			pid := waitForPid(t, filepath.Join(dir, "pid"))
			a.tell(&comms.Cancel{Run: r.ID, Why: comms.ErrorCancelled, Text: "no more", Grace: int64(tt.grace)})
			it := a.items(1)[0]
			if it.Error == nil || it.Error.Kind != comms.ErrorCancelled || !strings.Contains(string(it.Error.LogTail), tt.log) {
				t.Errorf("error is %+v, log %q", it.Error, it.Error.LogTail)
			}
			awaitEnd(t, pid)
		})
	}
}

func TestCommandsAreToldTheirGrant(t *testing.T) {
	a, s := startWithStore(t, testRegistry())
	t.Setenv("OMP_NUM_THREADS", "64")
	for _, tt := range []struct {
		res  comms.Resources
		env  []string
		want string
	}{
		{comms.Resources{CPU: 2500, Memory: 1 << 30}, nil, "3 3 3 3 1073741824"},
		{comms.Resources{CPU: 100}, []string{"OMP_NUM_THREADS=2"}, "2 1 1 1"},
	} {
		k := a.sh("echo $OMP_NUM_THREADS $MKL_NUM_THREADS $OPENBLAS_NUM_THREADS $GOMAXPROCS $GOMEMLIMIT > $CASCADE_OUT_X", nil, []string{"x"},
			func(k *comms.Kind) { k.Resources, k.Env = tt.res, tt.env })
		a.dispatch(a.run(k))
		it := a.items(1)[0]
		if it.Error != nil {
			t.Fatal(it.Error)
		}
		if got := content(s, it.Outputs[0]); got != tt.want+"\n" {
			t.Errorf("grant %+v: the command sees %q, want %q", tt.res, got, tt.want)
		}
	}
}

func TestCommandTimesOut(t *testing.T) {
	a, _ := startWithStore(t, testRegistry())
	a.dispatch(a.run(a.sh("sleep 1000", nil, nil, func(k *comms.Kind) { k.Timeout = int64(50 * time.Millisecond) })))
	if it := a.items(1)[0]; it.Error == nil || it.Error.Kind != comms.ErrorTimeout || !strings.Contains(it.Error.Message, "50ms") {
		t.Errorf("error is %+v", it.Error)
	}
}

func waitForPid(t *testing.T, path string) int {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(5 * time.Millisecond) { // another process writes the file: there is no event
		if b, err := os.ReadFile(path); err == nil {
			if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
				return n
			}
		}
	}
	t.Fatalf("%s was not written", path)
	return 0
}

func TestLeftoversEnd(t *testing.T) {
	a, _ := startWithStore(t, testRegistry())
	dir := t.TempDir()
	a.dispatch(a.run(a.sh("sleep 1000 & echo $! > pid", nil, nil, func(k *comms.Kind) { k.Dir = dir })))
	if it := a.items(1)[0]; it.Error != nil {
		t.Fatal(it.Error)
	}
	awaitEnd(t, waitForPid(t, filepath.Join(dir, "pid")))
}

// awaitEnd waits until a process that was killed is gone.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(5 * time.Millisecond) { // it is no child of ours: there is no event
		if !alive(t, pid) {
			return
		}
	}
	t.Errorf("process %d lives on", pid)
}

func TestMuchLog(t *testing.T) {
	if testing.Short() {
		t.Skip("100 MB")
	}
	a, _ := startWithStore(t, testRegistry())
	a.dispatch(a.run(a.sh("head -c 100000000 /dev/zero | tr '\\0' x >&2; echo the end >&2; exit 1", nil, nil)))
	var bytesOf int
	for {
		m := <-a.inbox
		if l, ok := m.(*comms.Log); ok {
			if len(l.Text) > maxLogMessage {
				t.Fatalf("a message of %d bytes", len(l.Text))
			}
			bytesOf += len(l.Text)
			continue
		}
		rep, ok := m.(*comms.Report)
		if !ok {
			continue
		}
		if i := slices.IndexFunc(rep.Items, func(it comms.ReportItem) bool { return it.Error != nil }); i >= 0 {
			e := rep.Items[i].Error
			if !strings.HasSuffix(string(e.LogTail), "xxxthe end\n") || len(e.LogTail) != logTail {
				t.Errorf("tail of %d bytes ends in %q", len(e.LogTail), e.LogTail[max(0, len(e.LogTail)-20):])
			}
			break
		}
	}
	if bytesOf < maxLog || bytesOf > maxLog+1000 {
		t.Errorf("%d bytes were logged, the bound is %d", bytesOf, maxLog)
	}
}

func TestLogKeepsOrder(t *testing.T) {
	a, _ := startWithStore(t, testRegistry())
	a.dispatch(a.run(a.sh("for i in $(seq 1 2000); do echo line $i; done", nil, nil)))
	var got bytes.Buffer
	for {
		m := <-a.inbox
		if l, ok := m.(*comms.Log); ok {
			if l.Stream != 1 || l.Run != 1 {
				t.Errorf("log of run %d, stream %d", l.Run, l.Stream)
			}
			got.Write(l.Text)
		}
		if rep, ok := m.(*comms.Report); ok && slices.ContainsFunc(rep.Items, func(it comms.ReportItem) bool { return it.Kind == comms.ReportFinished }) {
			break
		}
	}
	var want bytes.Buffer
	for i := range 2000 {
		fmt.Fprintf(&want, "line %d\n", i+1)
	}
	if got.String() != want.String() {
		t.Errorf("log has %d bytes, want %d", got.Len(), want.Len())
	}
}
