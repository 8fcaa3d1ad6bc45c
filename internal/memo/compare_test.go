package memo_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/memo"
)

const jobFile = `
job: j
params: {file: in.txt, level: 500, other: 1}
environments:
  py: {python: {pip: [numpy], wheels: wheels}, env: {OMP: 1}}
  own: {python: {}, py_modules: ["package:sha256:0000000000000000000000000000000000000000000000000000000000000000/m"], env: {OMP: 1}}
tasks:
  read: {command: "cat ${params.file} > ${out.text}", out: [text]}
  gen: {run: py:m.f, with: {level: "${params.level}"}, in: {text: read}, generates: {part: "*"}}
  each: {for: {p: "gen.part[*]"}, command: [./tool, "${in.x}", "--level=${params.level}", "${out.y}"], in: {x: "gen.part[${p}]"}, out: [y]}
  all: {run: join, in: {y: "each[*].y"}, out: [text]}
  fam: {for: {i: "0..2"}, command: "cat ${in.t} other${i}.txt > ${out.o}", in: {t: read}, out: [o]}
  pack: {run: own:m.g, out: [x]}
`

func parse(t *testing.T, text string) *dag.Graph {
	t.Helper()
	g, err := dag.ParseYAML("job.yaml", []byte(text), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func contents(words string) (all []comms.Content) {
	for word := range strings.SplitSeq(words, ",") {
		name, hash, _ := strings.Cut(word, "=")
		all = append(all, comms.Content{Name: name, Hash: comms.Hash(hash)})
	}
	return all
}

const files = "file in.txt=1,file ./tool=1,file other1.txt=1,program=1,environment py=1"

// Every case edits the job, or what it rests on, and says what runs and why.
func TestCompare(t *testing.T) {
	for _, tt := range []struct {
		name           string
		old, new       string // in the job file
		files, changed string // in the contents
		states         string // of tasks that are not done
		again          string
		want           string
	}{
		{name: "nothing"},
		{name: "a parameter that nobody mentions", old: "other: 1", new: "other: 2"},
		{name: "a parameter", old: "level: 500", new: "level: 850", want: "gen: parameter level was 500, is 850\nall: it reads gen, which runs again"},
		{name: "a parameter with another value of equal effect", old: "file: in.txt", new: "file: in.txt, more: 1"},
		{name: "the name of a file", old: "file: in.txt", new: "file: new.txt",
			want: "read: parameter file was in.txt, is new.txt\ngen fam[0] fam[1] fam[2]: it reads read, which runs again\nall: it reads gen, which runs again"},
		{name: "a file", files: "in.txt=1", changed: "in.txt=2",
			want: "read: file in.txt has changed\ngen fam[0] fam[1] fam[2]: it reads read, which runs again\nall: it reads gen, which runs again"},
		{name: "a file that one of a family names", files: "other1.txt=1", changed: "other1.txt=2", want: "fam[1]: file other1.txt has changed"},
		{name: "a file that was not there", files: "program", changed: "file other2.txt=1,program", want: "fam[2]: file other2.txt was not there"},
		{name: "a program", files: "./tool=1", changed: "./tool=2", want: "all: it reads each[0], which runs again"},
		{name: "an environment", files: "py=1", changed: "py=2", want: "gen: environment py has changed\nall: it reads gen, which runs again"},
		{name: "its requirements", old: "numpy", new: "numpy<2", want: "gen: environment py has changed\nall: it reads gen, which runs again"},
		{name: "an environment that was not noted", files: "environment py=1", changed: "x=1", want: "gen: it is not known what environment py was\nall: it reads gen, which runs again"},
		{name: "a package", old: "0000000000000000000000000000000000000000000000000000000000000000", new: "1111111111111111111111111111111111111111111111111111111111111111", want: "pack: environment own has changed"},
		{name: "a variable of an environment", old: "OMP: 1", new: "OMP: 2", want: "gen: variables of environment py have changed\nall: it reads gen, which runs again"},
		{name: "our own functions", files: "program=1", changed: "program=2", want: "all: program has changed"},
		{name: "a command", old: "cat ${in.t} other", new: "tac ${in.t} other", want: "fam[0] fam[1] fam[2]: its command is another"},
		{name: "a function", old: "run: join", new: "run: concat", want: "all: its function was join, is concat"},
		{name: "a task that is new", old: "  fam:", new: "  more: {command: [true]}\n  fam:", want: "more: it is new"},
		{name: "a longer family", old: "0..2", new: "0..3", want: "fam[3]: it is new"},
		{name: "an output", old: "out: [text]}\n  gen", new: "out: [text], stdout: text}\n  gen",
			want: "read: its stdout is text, there was none\ngen fam[0] fam[1] fam[2]: it reads read, which runs again\nall: it reads gen, which runs again"},
		{name: "an input", old: "in: {t: read}", new: "in: {t: all}", want: "fam[0] fam[1] fam[2]: input t comes from elsewhere"},
		{name: "a task failed", states: "fam[1]=failed", want: "fam[1]: it failed"},
		{name: "an element's task was cancelled", states: "each[1]=cancelled", want: "all: it reads each[1], which runs again"},
		{name: "asked for", again: "all", want: "all: asked for"},
		{name: "contents were not noted", files: files, changed: "", want: ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if !strings.Contains(jobFile, tt.old) || !strings.Contains(files, tt.files) {
				t.Fatal("the edit changes nothing")
			}
			old, now := parse(t, jobFile), parse(t, strings.Replace(jobFile, tt.old, tt.new, 1))
			is := contents(strings.Replace(files, tt.files, tt.changed, 1))
			r := memo.Compare(&memo.Past{
				Job: memo.Job{Graph: old, Contents: contents(files)},
				State: func(i dag.TaskIndex) string {
					for s := range strings.SplitSeq(tt.states, " ") {
						if name, state, _ := strings.Cut(s, "="); name == old.TaskName(i) {
							return state
						}
					}
					return "done"
				},
				Elements: func(dag.TaskIndex, uint32) (uint64, bool) { return 2, true },
			}, &memo.Job{Graph: now, Contents: is}, func(i dag.TaskIndex) bool { return now.TaskName(i) == tt.again })
			if tt.changed == "" && tt.files == files {
				if len(r.Same) > 0 { // of what is not known nothing holds but plain programs without files
					for _, p := range r.Same {
						if name := now.TaskName(p.Task); !strings.HasPrefix(name, "fam[0]") && !strings.HasPrefix(name, "fam[2]") && name != "pack" {
							t.Errorf("%s is taken over", name)
						}
					}
				}
				return
			}
			if got := text(now, r.Why); got != tt.want {
				t.Errorf("runs because\n%s\nwant\n%s", got, tt.want)
			}
			checkSame(t, old, now, r)
		})
	}
}

func text(g *dag.Graph, why []memo.Reason) string {
	var lines []string
	for _, w := range why {
		var names []string
		for _, r := range w.Tasks {
			for i := r.First; i <= r.Last; i++ {
				names = append(names, g.TaskName(i))
			}
		}
		lines = append(lines, strings.Join(names, " ")+": "+w.Text)
	}
	return strings.Join(lines, "\n")
}

// checkSame: a task is taken over under its own name, once, with all that it reads,
// and every static task is either taken over or has a reason.
func checkSame(t *testing.T, old, now *dag.Graph, r *memo.Result) {
	t.Helper()
	same := map[dag.TaskIndex]bool{}
	for _, p := range r.Same {
		if same[p.Task] || old.TaskName(p.From) != now.TaskName(p.Task) {
			t.Errorf("%s is taken from %s", now.TaskName(p.Task), old.TaskName(p.From))
		}
		same[p.Task] = true
	}
	if !slices.IsSortedFunc(r.Same, func(a, b memo.Pair) int { return int(int64(a.Task) - int64(b.Task)) }) {
		t.Error("what is taken over is not sorted")
	}
	for _, p := range r.Same {
		ins, err := now.Inputs(p.Task)
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range ins {
			for _, s := range in.Sources {
				if !same[s.Task] {
					t.Errorf("%s is taken over, and %s, which it reads, is not", now.TaskName(p.Task), now.TaskName(s.Task))
				}
			}
		}
	}
	static := len(r.Same)
	for _, p := range r.Same {
		if int(p.Task) >= now.NumTasks() {
			static--
		}
	}
	for _, w := range r.Why {
		for _, x := range w.Tasks {
			static += int(x.Last-x.First) + 1
		}
	}
	if static != now.NumTasks() {
		t.Errorf("%d of %d tasks have an answer", static, now.NumTasks())
	}
}

// Files ends with the first path that is not wanted.
func TestFilesEnd(t *testing.T) {
	n := 0
	memo.Files(parse(t, "job: j\ntasks:\n  a: {for: {i: \"0..1000\"}, command: [cat, \"${i}.txt\"]}\n"), func(string) bool { n++; return n < 3 })
	if n != 3 {
		t.Errorf("%d paths were told", n)
	}
}

func TestFiles(t *testing.T) {
	var got []string
	memo.Files(parse(t, `
job: j
tasks:
  a: {command: "sort <in.txt | uniq -c >out.txt; cat 'b.txt' --x=c.txt 2> err.txt", env: {CONF: etc/a.conf}}
  b: {command: [./tool, "with space.txt"]}
  c: {run: f, with: {path: data/x.npy, more: [y.npy, {z: z.npy}]}}
`), func(path string) bool {
		if strings.Contains(path, ".") && !strings.Contains(path, "|") {
			got = append(got, path)
		}
		return true
	})
	want := "[in.txt b.txt c.txt etc/a.conf ./tool with space.txt space.txt data/x.npy y.npy z.npy]"
	if fmt.Sprint(got) != want {
		t.Errorf("files are %v, want %v", got, want)
	}
}
