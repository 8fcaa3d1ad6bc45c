package cascade_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/jobfile"
)

var lengths = cascade.Func2("t_lengths", lengthsOf, "one, all -> lengths")

func lengthsOf(_ context.Context, one []byte, all cascade.List[[]byte]) ([]int, error) {
	n := []int{len(one)}
	for _, b := range all.Values() {
		n = append(n, len(b))
	}
	return n, nil
}

// folder is the folder of a job, with files in it.
type folder struct {
	t   *testing.T
	dir string
}

func newFolder(t *testing.T, files ...string) *folder {
	f := &folder{t, filepath.Clean(t.TempDir())} // TMPDIR may be written in any way
	for i := 0; i < len(files); i += 2 {
		f.write(files[i], files[i+1])
	}
	return f
}

func (f *folder) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f *folder) remove(name string) {
	f.t.Helper()
	if err := os.Remove(filepath.Join(f.dir, name)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *folder) graph(text string) *dag.Graph {
	f.t.Helper()
	g, err := dag.ParseYAML("job.yaml", []byte(text), dag.Override{}, dag.Options{Find: jobfile.FindFiles(f.dir)})
	if err != nil {
		f.t.Fatal(err)
	}
	return g
}

// serve serves one text by HTTP.
func serve(t *testing.T, text string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/there" {
			http.Error(w, "nothing is at "+r.URL.Path, http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func sha256Of(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Files and URLs are datasets, of commands and of functions.
func TestInputs(t *testing.T) {
	c := cascadetest.Start(t)
	large := strings.Repeat("0123456789abcdef", 1<<17) // 2 MiB
	f := newFolder(t, "one.txt", "one\n", "f1.bin", "1", "f2.bin", large, "f3.txt", "no")
	url := serve(t, large)
	j := cascadetest.SubmitGraph(t, c, f.graph(`
job: inputs
inputs:
  one: {file: one.txt}
  some: {files: "f*.bin"}
  far: {url: "`+url+`/there", sha256: `+sha256Of(large)+`}
tasks:
  each: {for: {i: "some[*]"}, command: "wc -c < ${in.x}", in: {x: "some[${i}]"}, out: [n], stdout: n}
  text: {command: "cat ${in.one} ${in.each[*]} > ${out.o}; cmp ${in.far} ${in.last}", in: {one: one, each: "each[*]", far: far, last: "some[1]"}, out: [o]}
outputs: [text, far]
`), cascade.WithDir(f.dir))
	cascadetest.Wait(t, c, j)
	if got := strings.Fields(textOf(t, j, "text.o")); strings.Join(got, " ") != "one 1 2097152" {
		t.Errorf("the commands made %q", got)
	}
	if got := textOf(t, j, "far.data"); got != large {
		t.Errorf("fetched %d bytes", len(got))
	}

	g := cascade.NewGraph("inputs")
	n := lengths.Add(g, "lengths", g.File("one", filepath.Join(f.dir, "one.txt")), g.Files("all", []string{filepath.Join(f.dir, "f2.bin"), filepath.Join(f.dir, "f1.bin")}).All())
	g.Output(n, "")
	got := cascadetest.Result(t, c, g, n)
	if len(got) != 3 || got[0] != 4 || got[1] != len(large) || got[2] != 1 {
		t.Errorf("a function got %v bytes", got)
	}
	g = cascade.NewGraph("url")
	x := g.URL("far", url+"/there", strings.ToUpper(sha256Of(large)))
	g.Output(x, "")
	if got := cascadetest.Result(t, c, g, x); string(got) != large {
		t.Errorf("a program got %d bytes", len(got))
	}
}

// What cannot be an input is refused when the job is submitted.
func TestInputsThatAreRefused(t *testing.T) {
	c := cascadetest.Start(t)
	f := newFolder(t, "one.txt", "one\n")
	if err := syscall.Mkfifo(filepath.Join(f.dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ input, want string }{
		{"{file: none.txt}", "none.txt: no such file or directory"},
		{"{file: .}", "is a folder"},
		{"{file: pipe}", "pipe is no regular file"},
		{"{file: one.txt, sha256: " + sha256Of("two\n") + "}", "one.txt has the SHA-256 " + sha256Of("one\n") + ", and the job wants " + sha256Of("two\n")},
	} {
		g, err := dag.ParseYAML("job.yaml", []byte("job: j\ninputs: {x: "+tt.input+"}\ntasks: {a: {command: 'cat ${in.x}', in: {x: x}}}"), dag.Override{}, dag.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Submit(t.Context(), g, cascade.WithDir(f.dir)); err == nil || !strings.Contains(err.Error(), `submit j: input "x": `) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v; want %q", tt.input, err, tt.want)
		}
	}
	for link, to := range map[string]string{"linked.txt": "one.txt", "lost.txt": "nothing"} {
		if err := os.Symlink(to, filepath.Join(f.dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	var broken []string
	find := jobfile.FindFiles(f.dir, func(link string) { broken = append(broken, link) })
	if got, err := find("l*.txt", true); err != nil || !slices.Equal(got, []string{"linked.txt"}) || !slices.Equal(broken, []string{filepath.Join(f.dir, "lost.txt")}) {
		t.Errorf("a pattern with a broken link: %s, %v; told of %s", got, err, broken)
	}
	for _, tt := range []struct{ pattern, want string }{{"**/x", "has no meaning"}, {"[", "is no pattern"}, {"p*", "pipe is no regular file"}} {
		if _, err := find(tt.pattern, true); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v; want %q", tt.pattern, err, tt.want)
		}
	}
}

const readJob = `
job: read
inputs: {x: {file: one.txt}}
tasks: {copy: {command: "cat ${in.x} > ${out.y}", in: {x: x}, out: [y]}}
outputs: [copy]
`

// A job means what its files held when it was submitted: one that has changed is an
// error, unless the cluster keeps it.
func TestInputsThatChange(t *testing.T) {
	run := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", run)
	c := cascadetest.Start(t)
	sockets, err := filepath.Glob(run + "/cascade/*/controller.sock")
	if err != nil || len(sockets) != 1 {
		t.Fatalf("sockets %v, %v", sockets, err)
	}
	far, err := cascade.Dial(t.Context(), "ipc://"+sockets[0]) // as a client of another host
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := far.Close(); err != nil {
			t.Error(err)
		}
	}()
	f := newFolder(t)
	for _, tt := range []struct {
		name   string
		client *cascade.Client
		change func()
		err    string
	}{
		{"read here", c.Client, func() {}, ""},
		{"other bytes here", c.Client, func() { f.write("one.txt", "two\n") }, "one.txt (on local) is not what it was when the job was submitted: its SHA-256 is " + sha256Of("two\n")},
		{"longer here", c.Client, func() { f.write("one.txt", "three\n") }, "it has 6 bytes, and had 4"},
		{"gone here", c.Client, func() { f.remove("one.txt") }, "no such file or directory (on local)"},
		{"kept", far, func() {}, ""},
		{"kept, other bytes", far, func() { f.write("one.txt", "two\n") }, ""},
		{"kept, and gone", far, func() { f.remove("one.txt") }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f.write("one.txt", "one\n")
			j, err := tt.client.Submit(t.Context(), f.graph(readJob), cascade.WithDir(f.dir), cascade.WithHold())
			if err != nil {
				t.Fatal(err)
			}
			tt.change()
			if err := j.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			_, err = j.Wait(t.Context())
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := textOf(t, j, "copy.y"); got != "one\n" {
				t.Errorf("the task read %q", got)
			}
		})
	}
}

// A URL that is not there fails its task at once, with what the server says.
func TestInputIsNotAtURL(t *testing.T) {
	c := cascadetest.Start(t)
	g := cascade.NewGraph("url")
	g.Output(g.URL("far", serve(t, "")+"/elsewhere", ""), "")
	j := cascadetest.Submit(t, c, g)
	if _, err := j.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "404 Not Found: nothing is at /elsewhere") {
		t.Errorf("error %v", err)
	}
}

// A file that has changed runs again what depends on it, and nothing else.
func TestResumeInputs(t *testing.T) {
	c := cascadetest.Start(t)
	f := newFolder(t, "f0", "a\n", "f1", "b\n", "one", "1\n")
	const text = `
job: resume
retain: true
inputs: {fs: {files: "f*"}, one: {file: one}}
tasks:
  each: {for: {i: "fs[*]"}, command: "cat ${in.f} > ${out.o}", in: {f: "fs[${i}]"}, out: [o]}
  other: {command: "cat ${in.one} > ${out.o}", in: {one: one}, out: [o]}
  all: {command: "cat ${in.each[*]} ${in.other} > ${out.o}", in: {each: "each[*]", other: other}, out: [o]}
outputs: [all]
`
	last, _, _ := resumeOf(t, c, f.graph(text), f.dir)
	for _, tt := range []struct {
		name     string
		change   func()
		ran, why string
		want     string
	}{
		{"nothing", func() {}, "", "", "a\nb\n1\n"},
		{"touched", func() { f.write("f1", "b\n") }, "", "", "a\nb\n1\n"},
		{"one of several", func() { f.write("f1", "c\n") }, "all each[1] fs[1]",
			"fs[1]: " + f.dir + "/f1 has changed; each[1]: it reads fs[1], which runs again; all: it reads each[1], which runs again", "a\nc\n1\n"},
		{"one more", func() { f.write("f2", "d\n") }, "all each[2] fs[2]", "fs[2]: it is new; each[2]: it is new; all: input each comes from elsewhere", "a\nc\nd\n1\n"},
	} {
		tt.change()
		j, ran, why := resumeOf(t, c, f.graph(text), f.dir, cascade.WithResume(last.ID()))
		if ran != tt.ran || why != tt.why {
			t.Errorf("%s: ran %q because %q, want %q because %q", tt.name, ran, why, tt.ran, tt.why)
		}
		if got := textOf(t, j, "all.o"); got != tt.want {
			t.Errorf("%s: the result is %q, want %q", tt.name, got, tt.want)
		}
		last = j
	}
	// Elsewhere the same bytes are the same input.
	moved := newFolder(t, "f0", "a\n", "f1", "c\n", "f2", "d\n", "one", "1\n")
	if _, ran, why := resumeOf(t, c, moved.graph(text), moved.dir, cascade.WithResume(last.ID())); ran != "" {
		t.Errorf("in another folder: ran %q because %q", ran, why)
	}
}

// The rows of agents name the resources that a host has, and those that stand for host and agent.
func TestAgentResources(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithResource("licence", 2))
	rows, err := cascade.Rows[comms.AgentRow](t.Context(), c.Client, comms.QueryAgents, comms.JobID{}, "")
	if err != nil || len(rows) != 1 || len(rows[0].Resources) != 3 || rows[0].Resources["agent-local"] == 0 || rows[0].Resources["licence"] != 2 {
		t.Errorf("agents %+v, %v", rows, err)
	}
}
