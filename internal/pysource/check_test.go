package pysource

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/dag"
)

// needsPython skips a test where no Python reads; where CI requires one it fails.
func needsPython(t *testing.T) {
	t.Helper()
	if _, err := scan(t.Context(), nil); err != nil && os.Getenv("CASCADE_REQUIRE_PYTHON") == "" {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
}

// job has one environment and the tasks of a test.
func job(t *testing.T, environment, tasks string) *dag.Graph {
	t.Helper()
	g, err := dag.ParseYAML("job.yaml", []byte("job: j\nenvironments: {e: "+environment+"}\ntasks:\n  src: {command: [\"true\"], out: [x], stdout: x}\n"+tasks), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCheck(t *testing.T) {
	needsPython(t)
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"fields.py": `import math
from numbers import *
`,
		"model.py": `import functools

def spread(members, *, width=3): return members
def series(n):
    for i in range(n): yield i
def nested(n):
    def inner(): yield 1
    return list(inner())
async def later(n): return n
@functools.cache
def cached(n): return n
if True:
    def twice(n): return n
else:
    def twice(m): return m
class Model:
    scale = 2
    def step(self, x): return x
    @staticmethod
    def load(path): return path
    @classmethod
    def make(cls, size): return size
class Child(Model): pass
renamed = spread
async def flow(n): yield n
`,
		"lazy.py":               "def f(): pass\ndef __getattr__(name): return print\n",
		"broken.py":             "def f(:\n",
		"pkg/__init__.py":       "from .deep import *\n",
		"pkg/deep.py":           "def run(x): return x\n",
		"bare/__init__.py":      "",
		"bare/deep.py":          "def run(x): return x\n",
		"space/inner/tool.py":   "def run(x): return x\n",
		"compiled.cpython-1.so": "",
	})
	const all = "{python: {}, py_modules: [fields.py, model.py, lazy.py, broken.py, pkg, bare, space], working_dir: .}"
	const unread = "unread"
	cases := []struct{ environment, task, want string }{
		{all, `{run: "e:model.spread", in: {members: src}, out: [y]}`, ""},
		{all, `{run: "e:model.spread", in: {members: src}, with: {width: 4}, out: [y]}`, ""},
		{all, `{run: "e:model.spread", in: {member: src}, out: [y]}`,
			`in member: input member is not taken by model.spread(members, *, width=3) at model.py:3 (did you mean "members"?)`},
		{all, `{run: "e:model.spread", in: {members: src}, with: {widht: 4}, out: [y]}`, `with widht: parameter widht is not taken by model.spread(members, *, width=3) at model.py:3 (did you mean "width"?)`},
		{all, `{run: "e:model.spread", with: {cascade_values: {members: [msgpack, "", [], a]}, width: 4}, out: [y]}`, ""}, // as the client of Python gives values
		{all, `{run: "e:model.spread", in: {members: src}, with: {cascade_values: {members: [array, f64, [9], null]}}, out: [y]}`, ""},
		{all, `{run: "e:model.spread", in: {members: src}, with: {cascade_values: {widht: [msgpack, "", [], a]}}, out: [y]}`, `with widht: parameter widht is not taken by model.spread(members, *, width=3) at model.py:3 (did you mean "width"?)`},
		{all, `{run: "e:model.spread", out: [y]}`, "run: nothing is given for members of model.spread(members, *, width=3) at model.py:3 (give it under in: or with:)"},
		{all, `{run: "e:model.spread", with: {length: 1, breadth: 2}, out: [y]}`,
			`with length: parameter length is not taken by model.spread(members, *, width=3) at model.py:3 (did you mean "members"?); with breadth: parameter breadth is not taken by model.spread(members, *, width=3) at model.py:3 (did you mean "members"?)`},
		{all, `{run: "e:model.spreads", in: {members: src}, out: [y]}`,
			`run: module model (model.py) has no function spreads (did you mean "spread"? it has Model.load, Model.make, Model.step, flow, later, nested, series, spread)`},
		{all, `{run: "e:model.series", with: {n: 2}, out: [y]}`, "run: model.series(n) at model.py:4 yields, but the task declares no series (write generates: instead of out:)"},
		{all, `{run: "e:model.series", with: {n: 2}, generates: {y: 2}}`, ""},
		{all, `{run: "e:model.nested", with: {n: 2}, out: [y]}`, ""},
		{all, `{run: "e:model.later", with: {n: 2}, generates: {y: 2}}`, "run: model.later(n) at model.py:9 is async: nothing would await it (write def, and asyncio.run(...) in it)"},
		{all, `{run: "e:model.later", with: {n: 2}, out: [y]}`, "run: model.later(n) at model.py:9 is async: nothing would await it (write def, and asyncio.run(...) in it)"},
		{all, `{run: "e:model.flow", with: {n: 2}}`, "run: model.flow(n) at model.py:25 is async: nothing would await it (write def, and asyncio.run(...) in it)"},
		{all, `{run: "e:model.cached", with: {z: 2}, out: [y]}`, unread},
		{all, `{run: "e:model.twice", with: {m: 2}, out: [y]}`, unread},
		{all, `{run: "e:model.renamed", with: {m: 2}, out: [y]}`, unread},
		{all, `{run: "e:model.Model.load", with: {path: a}, out: [y]}`, ""},
		{all, `{run: "e:model.Model.make", with: {size: 2}, out: [y]}`, ""},
		{all, `{run: "e:model.Model.make", with: {cls: 2}, out: [y]}`,
			`with cls: parameter cls is not taken by model.Model.make(size) at model.py:22 (did you mean "size"?)`},
		{all, `{run: "e:model.Model.step", with: {x: 2}, out: [y]}`, "run: nothing is given for self of model.Model.step(self, x) at model.py:18 (give it under in: or with:)"},
		{all, `{run: "e:model.Model.lod", with: {path: 2}, out: [y]}`,
			`run: module model (model.py) has no function Model.lod (did you mean "Model.load"? it has Model.load, Model.make, Model.step, flow, later, nested, series, spread)`},
		{all, `{run: "e:model.Child.lod", with: {path: 2}, out: [y]}`, unread},
		{all, `{run: "e:fields.sqrt", with: {x: 2}, out: [y]}`, unread},
		{all, `{run: "e:lazy.g", with: {x: 2}, out: [y]}`, unread},
		{all, `{run: "e:broken.g", with: {x: 2}, out: [y]}`, unread},
		{all, `{run: "e:compiled.g", with: {x: 2}, out: [y]}`, unread},
		{all, `{run: "e:pkg.deep.run", with: {x: 2}, out: [y]}`, unread},
		{all, `{run: "e:bare.deep.run", with: {x: 2}, out: [y]}`, ""},
		{all, `{run: "e:bare.deep.ran", with: {x: 2}, out: [y]}`, `run: module bare.deep (bare/deep.py) has no function ran (did you mean "run"? it has run)`},
		{all, `{run: "e:bare.deap.run", with: {x: 2}, out: [y]}`, "run: module bare (bare/__init__.py) has no function deap.run (did you mean \"deep\"? it has no functions, and the modules deep)"},
		{all, `{run: "e:bare.run", with: {x: 2}, out: [y]}`, "run: module bare (bare/__init__.py) has no function run (it has no functions, and the modules deep)"},
		{"{python: {}, py_modules: [model.py]}", `{run: "e:steps.boom", out: [y]}`,
			"run: there is no module steps in environment e (name its folder or file under py_modules of the environment, or its package under pip)"},
		{"{python: {}, py_modules: [model.py]}", `{run: "e:lazy.f", out: [y]}`,
			"run: there is no module lazy in environment e (lazy.py is there: add lazy.py to py_modules of the environment)"},
		{"{python: {}, py_modules: [model.py]}", `{run: "e:bare.deep.run", out: [y]}`,
			"run: there is no module bare in environment e (bare is there: add bare to py_modules of the environment)"},
		{"{python: {}, py_modules: [model.py]}", `{run: "e:space.inner.run", out: [y]}`,
			"run: there is no module space in environment e (name its folder or file under py_modules of the environment, or its package under pip)"},
		{all, `{run: "e:inner.tool.run", with: {x: 2}, out: [y]}`, ""},
		{all, `{run: "e:inner.tool.ran", with: {x: 2}, out: [y]}`, `run: module inner.tool (space/inner/tool.py) has no function ran (did you mean "run"? it has run)`},
		{all, `{run: "e:modell.spread", with: {x: 2}, out: [y]}`, `run: there is no module modell in environment e (did you mean "model"?)`},
		{all, `{run: "e:model", with: {x: 2}, out: [y]}`, `run: e:model names no Python function (write ENVIRONMENT:MODULE.FUNCTION, such as e:model.FUNCTION)`},
		{all, `{run: "e:math.sqrt", with: {x: 2}, out: [y]}`, unread},
		{"{python: {pip: [numpy]}, py_modules: [model.py]}", `{run: "e:modell.spread", out: [y]}`, unread},
		{"{python: {pip: [numpy]}, py_modules: [model.py]}", `{run: "e:model.spreads", out: [y]}`,
			`run: module model (model.py) has no function spreads (did you mean "spread"? it has Model.load, Model.make, Model.step, flow, later, nested, series, spread)`},
		{"{python: {}, py_modules: [model.py, \"https://host.example/a.zip\"]}", `{run: "e:modell.spread", out: [y]}`, unread},
		{"{python: {}, py_modules: [\"https://host.example/a.zip\", model.py]}", `{run: "e:model.spreads", out: [y]}`, unread},
		{"{python: {}, py_modules: [model.py], env: {PYTHONPATH: /x}}", `{run: "e:modell.spread", out: [y]}`, unread},
	}
	type result struct {
		found []Mistake
		left  []string
	}
	checked := map[string]*result{} // all tasks of an environment at once
	for i, c := range cases {
		task := fmt.Sprintf("t%d", i)
		if checked[c.environment] == nil {
			tasks := ""
			for k, other := range cases {
				if other.environment == c.environment {
					tasks += fmt.Sprintf("  t%d: %s\n", k, other.task)
				}
			}
			found, left, err := Check(t.Context(), job(t, c.environment, tasks), dir)
			if err != nil {
				t.Fatal(err)
			}
			checked[c.environment] = &result{found, left}
		}
		got := []string{}
		for _, m := range checked[c.environment].found {
			if m.Task != task {
				continue
			}
			text := strings.Join(m.Keys, " ") + ": " + m.Message
			if m.Hint != "" {
				text += " (" + m.Hint + ")"
			}
			got = append(got, text)
		}
		if slices.Contains(checked[c.environment].left, task) {
			got = append(got, unread)
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s\n got  %s\n want %s", c.task, text, c.want)
		}
	}
}

// A module that another of its name hides is found; one file that is reached twice is one.
func TestModulesOfOneName(t *testing.T) {
	needsPython(t)
	dir := t.TempDir()
	text := "def f(): return 1\n"
	write(t, dir, map[string]string{"a/util.py": text, "b/util.py": text, "c/util/__init__.py": text, "d/other.py": text, "e/other.py": text, "e/util/data.txt": ""})
	if err := os.Symlink("a", filepath.Join(dir, "again")); err != nil {
		t.Fatal(err)
	}
	const twice = "module util is there twice, as a/util.py and as %s: Python would import the first (give one of them another name, or put it into a package)"
	for _, c := range []struct{ environment, want string }{
		{"{python: {}, py_modules: [a/util.py, b/util.py]}", "py_modules b/util.py: " + fmt.Sprintf(twice, "b/util.py")},
		{"{python: {}, py_modules: [a/util.py, c/util]}", "py_modules c/util: " + fmt.Sprintf(twice, "c/util/__init__.py")},
		{"{python: {}, py_modules: [a/util.py, b]}", "py_modules b: " + fmt.Sprintf(twice, "b/util.py")},
		{"{python: {}, py_modules: [a, b/util.py]}", "py_modules b/util.py: " + fmt.Sprintf(twice, "b/util.py")},
		{"{python: {}, py_modules: [a, b]}", "py_modules b: " + fmt.Sprintf(twice, "b/util.py")}, // the task calls util.f
		{"{python: {}, py_modules: [a/util.py], working_dir: b}", "working_dir: " + fmt.Sprintf(twice, "b/util.py")},
		{"{python: {}, py_modules: [a/util.py], working_dir: a}", ""},
		{"{python: {}, py_modules: [a/util.py, again]}", ""},
		{"{python: {}, py_modules: [a, d, e]}", ""}, // no task calls other.f, and a folder without modules is none
		{"{python: {}, py_modules: [a/util.py, d/other.py]}", ""},
	} {
		found, _, err := Check(t.Context(), job(t, c.environment, "  t: {run: \"e:util.f\", out: [y]}\n"), dir)
		got := ""
		for _, m := range found {
			got += strings.Join(m.Keys, " ") + ": " + m.Message + " (" + m.Hint + ")"
		}
		if err != nil || got != c.want {
			t.Errorf("%s: %v\n got  %s\n want %s", c.environment, err, got, c.want)
		}
	}
}

// What a signature admits is what Python's own binding admits.
func TestAsPythonBinds(t *testing.T) {
	needsPython(t)
	dir := t.TempDir()
	signatures := []string{"", "a", "a, b", "a, b=1", "a, /, b", "a, /, b=2, *, c", "*, a, b=1", "*args", "**kw", "a, **kw", "a, *args, b", "a, b, c=3, *, d=4"}
	module, names := "", []string{"a", "b", "c", "d"}
	for i, s := range signatures {
		module += fmt.Sprintf("def f%d(%s): pass\n", i, s)
	}
	write(t, dir, map[string]string{"m.py": module})
	out, err := exec.Command("python3", "-c", `import inspect, itertools, json, sys
sys.path.insert(0, sys.argv[1])
import m
names = "abcd"
def fits(f, given):
    try:
        inspect.signature(f).bind(**dict.fromkeys(given))
    except TypeError:
        return False
    return True
print(json.dumps([[fits(getattr(m, "f%d" % i), [n for k, n in enumerate(names) if s >> k & 1]) for s in range(16)] for i in range(int(sys.argv[2]))]))`,
		dir, fmt.Sprint(len(signatures))).Output()
	var want [][]bool
	if err == nil {
		err = json.Unmarshal(out, &want)
	}
	if err != nil {
		t.Fatal(err)
	}
	tasks := ""
	for i := range signatures {
		for set := range 16 {
			var with []string
			for k, n := range names {
				if set>>k&1 == 1 {
					with = append(with, n+": 1")
				}
			}
			tasks += fmt.Sprintf("  t%d_%d: {run: \"e:m.f%d\", with: {%s}, out: [y]}\n", i, set, i, strings.Join(with, ", "))
		}
	}
	found, left, err := Check(t.Context(), job(t, "{python: {}, py_modules: [m.py]}", tasks), dir)
	if len(left) > 0 || err != nil {
		t.Fatalf("left to the run: %q, %v", left, err)
	}
	wrong := map[string]bool{}
	for _, m := range found {
		wrong[m.Task] = true
	}
	for i, s := range signatures {
		for set, fits := range want[i] {
			if wrong[fmt.Sprintf("t%d_%d", i, set)] == fits {
				t.Errorf("f(%s) with set %04b of abcd: Python binds %v", s, set, fits)
			}
		}
	}
}

// What a module may change when it runs is left to the run: none of these calls is told
// as wrong, and Python takes each.
func TestWhatModulesChange(t *testing.T) {
	needsPython(t)
	cases := []struct{ module, function string }{
		{"try:\n    import nothing\n    class A:\n        def f(y): pass\nexcept ImportError:\n    class A:\n        def f(x): pass\n", "A.f"},
		{"class A:\n    def f(y): pass\nclass B:\n    def f(x): pass\nA = B\n", "A.f"},
		{"def f(x): pass\nclass A:\n    def g(y): pass\nA.f = staticmethod(f)\n", "A.f"},
		{"def f(x): pass\nclass A:\n    def f(y): pass\nA.f = f\n", "A.f"},
		{"class A:\n    class B:\n        def f(y): pass\n    def f(x): pass\nA.B.f = A.f\n", "A.B.f"},
		{"def f(x, y): pass\nf.__defaults__ = (1,)\n", "f"},
		{"def f(x, y): pass\ndef g(x): pass\ndef change():\n    f.__code__ = g.__code__\nchange()\n", "f"},
		{"import helper\nhelper.add(__name__)\n", "f"},
		{"def f(y): pass\ndef change():\n    global f\n    f = lambda x: 0\nchange()\n", "f"},
		{"def g(x): pass\nmatch {'f': g}:\n    case {**rest}: pass\nf = rest['f']\n", "f"},
		{"import importlib\nimportlib.import_module(__name__).f = lambda x: 0\n", "f"},
	}
	files, tasks := map[string]string{"helper.py": "import sys\ndef add(name): sys.modules[name].f = lambda x: 0\n",
		"p/__init__.py": "from . import m\nm.f = m.g\n", "p/m.py": "def f(y): pass\ndef g(x): pass\n"}, "  p: {run: \"e:p.m.f\", with: {x: 1}, out: [y]}\n"
	calls, want := "import p.m\np.m.f(x=1)\n", []string{"p"}
	for i, c := range cases {
		files[fmt.Sprintf("m%d.py", i)] = c.module
		tasks += fmt.Sprintf("  t%d: {run: \"e:m%d.%s\", with: {x: 1}, out: [y]}\n", i, i, c.function)
		calls += fmt.Sprintf("import m%d\nm%d.%s(x=1)\n", i, i, c.function)
		want = append(want, fmt.Sprintf("t%d", i))
	}
	dir := t.TempDir()
	write(t, dir, files)
	run := exec.Command("python3", "-c", calls)
	run.Dir = dir
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	found, left, err := Check(t.Context(), job(t, "{python: {}, working_dir: .}", tasks), dir)
	slices.Sort(left)
	slices.Sort(want)
	if len(found) > 0 || !slices.Equal(left, want) || err != nil {
		t.Errorf("found %v, left %q, %v: want nothing found", found, left, err)
	}
}

// A host without a Python that reads leaves all to the run.
func TestNoPython(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"m.py": "def f(): pass\n"})
	t.Setenv("CASCADE_PYTHON", filepath.Join(dir, "nothing"))
	found, left, err := Check(t.Context(), job(t, "{python: {}, py_modules: [m.py]}", "  t: {run: \"e:m.g\", out: [y]}\n  u: {run: g, out: [y]}\n"), dir)
	if len(found) > 0 || !slices.Equal(left, []string{"t"}) || err == nil {
		t.Errorf("found %v, left %q, %v", found, left, err)
	}
}
