package dag

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
)

// TestOverrides: what comes later wins, types follow the job file's value.
func TestOverrides(t *testing.T) {
	const job = `
job: "run-${params.date}"
params: {steps: 4, frac: 0.5, date: 2026-01-31, flag: false, list: [1, 2], any: null, my_name: x, file: "data/${params.date}.npy"}
tasks: {a: {run: A, for: {i: "1..${params.steps}"}, with: {file: "${params.file}", frac: "${params.frac}", list: "${params.list}"}}}
`
	file := []byte("{steps: 5, date: 20260201, frac: 1, my_name: y}")
	for _, c := range []struct {
		name string
		over Override
		want string // params, or the problems
	}{
		{"defaults", Override{}, "steps=4 frac=0.5 date=2026-01-31 flag=false list=[1 2] any=<nil> my_name=x file=data/2026-01-31.npy"},
		{"file", Override{File: "p.yaml", Data: file}, "steps=5 frac=1 date=20260201 flag=false list=[1 2] any=<nil> my_name=y file=data/20260201.npy"},
		{"environment over file", Override{Data: file, Environ: []string{"HOME=/", "CASCADE_PARAM_STEPS=6", "CASCADE_PARAM_MY_NAME=z"}}, "steps=6 frac=1 date=20260201 flag=false list=[1 2] any=<nil> my_name=z file=data/20260201.npy"},
		{"flags over all", Override{Data: file, Environ: []string{"CASCADE_PARAM_STEPS=6"}, Flags: []string{"steps=7", "steps=8", "date=2026-02-02", "flag=true", "list=[a]", "any={x: 1}", "file=${literal}"}},
			"steps=8 frac=1 date=2026-02-02 flag=true list=[a] any=map[x:1] my_name=y file=${literal}"},
		{"wrong type in file", Override{File: "p.yaml", Data: []byte("steps: many\nflag: 1\nstep: 3\n")},
			"p.yaml:1:8: parameter \"steps\": \"many\" is a text, the job file's value is a whole number (give a whole number)\n" +
				"p.yaml:2:7: parameter \"flag\": 1 is a truth value"},
		{"wrong elsewhere", Override{Environ: []string{"CASCADE_PARAM_STEPS=x", "CASCADE_PARAM_STEP=1"}, Flags: []string{"frac=x", "flag=1", "list=3", "dat=1", "novalue"}},
			"--param: --param novalue has no value (write --param NAME=VALUE)\n" +
				"--param dat: the job has no parameter \"dat\" (did you mean \"date\"?)\n" +
				"--param flag: \"1\" is not a truth value, as the job file's value is (write true or false)\n" +
				"--param frac: \"x\" is not a number, as the job file's value is (write a number, such as 0.5)\n" +
				"--param list: 3 is a whole number, the job file's value is a list (give a list)\n" +
				"CASCADE_PARAM_STEP: the job has no parameter \"STEP\" (did you mean \"steps\"?)\n" +
				"CASCADE_PARAM_STEPS: \"x\" is not a whole number, as the job file's value is (write digits, such as 4)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := ParseYAML("job.yaml", []byte(job), c.over, Options{})
			var got string
			if err != nil {
				got = err.Error()
			} else {
				var words []string
				for _, p := range g.Params {
					words = append(words, fmt.Sprintf("%s=%v", p.Name, p.Value))
				}
				got = strings.Join(words, " ")
				checkRoundTrip(t, g)
			}
			if c.name == "wrong type in file" {
				if !strings.HasPrefix(got, strings.Split(c.want, "\n")[0]) || strings.Count(got, "\n") != 2 {
					t.Errorf("got  %s", got)
				}
				return
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestWithTypes: a whole-value placeholder keeps its type, others make text.
func TestWithTypes(t *testing.T) {
	g := parse(t, `
job: types
params: {n: 4, f: 2.0, b: true, l: [1, a], m: {k: v}, d: 2026-01-01, z: 007}
tasks:
  a:
    run: A
    for: {i: "2..3", s: [x]}
    with: {n: "${params.n}", f: "${params.f}", b: "${params.b}", l: "${params.l}", m: "${params.m.k}", d: "${params.d}", z: "${params.z}",
      i: "${i}", t: "${i}-${s}", sum: "${i * 10 + params.n}", pick: "${params.l[i - 2]}", esc: "$${i}", nest: [{deep: "${s}"}], cond: "${i > 2 ? 'big' : s}", max: "${max(i, 9)}"}
`)
	want := [][]any{
		{int64(4), 2.0, true, []any{int64(1), "a"}, "v", "2026-01-01", "007", int64(2), "2-x", int64(24), int64(1), "${i}", []any{map[string]any{"deep": "x"}}, "x", int64(9)},
		{int64(4), 2.0, true, []any{int64(1), "a"}, "v", "2026-01-01", "007", int64(3), "3-x", int64(34), "a", "${i}", []any{map[string]any{"deep": "x"}}, "big", int64(9)},
	}
	for i := range want {
		fields, err := g.With(TaskIndex(i))
		if err != nil {
			t.Fatal(err)
		}
		for k, f := range fields {
			if !reflect.DeepEqual(f.Value, want[i][k]) {
				t.Errorf("%s of %s: %#v, want %#v", f.Name, g.TaskName(TaskIndex(i)), f.Value, want[i][k])
			}
		}
	}
}

func TestCommand(t *testing.T) {
	g := parse(t, `
job: command
params: {who: world}
tasks:
  data: {for: {i: "0..1"}, command: "echo ${i}", out: [o], stdout: o}
  all: {for: {k: [a, b]}, command: [cat, "--${k}=${in.x[*]}", "${in.x[*]}", "$${k}${params.who}", "", 5, "a ${in.one} ${out.y}"], in: {x: "data[*].o", one: "data[1]"}, out: [y], env: {K: "${k}", N: 3}}
`)
	i, ok := g.Lookup("all[b]")
	if !ok {
		t.Fatal("all[b] is not found")
	}
	words, err := g.Command(i)
	if err != nil {
		t.Fatal(err)
	}
	want := []Arg{
		{{ArgText, "cat"}},
		{{ArgText, "--"}, {ArgText, "b"}, {ArgText, "="}, {ArgInputs, "x"}},
		{{ArgInputs, "x"}},
		{{ArgText, "${k}"}, {ArgText, "world"}},
		{{ArgText, ""}},
		{{ArgText, "5"}},
		{{ArgText, "a "}, {ArgInput, "one"}, {ArgText, " "}, {ArgOutput, "y"}},
	}
	if !reflect.DeepEqual(words, want) {
		t.Errorf("got  %v\nwant %v", words, want)
	}
	env, err := g.EnvVars(i)
	if err != nil || !reflect.DeepEqual(env, []Field{{"K", "b"}, {"N", "3"}}) {
		t.Error(env, err)
	}
}

func TestInstances(t *testing.T) {
	g := load(t, "testdata/jobs/stream.yaml")
	if g.NumTasks() != 3 || g.NumSlots() != 3 {
		t.Fatal(g.NumTasks(), g.NumSlots())
	}
	for _, c := range []struct {
		slot    int
		element uint64
		want    TaskIndex
		fails   bool
	}{
		{0, 0, 3, false}, {2, 0, 5, false}, {0, 1, 6, false}, {1, 1000, 3004, false},
		{2, (math.MaxUint32-3)/3 - 1, math.MaxUint32 - 1, false},
		{0, (math.MaxUint32 - 3) / 3, 0, true}, {0, math.MaxUint64, 0, true}, {3, 0, 0, true}, {-1, 0, 0, true},
	} {
		got, err := g.Instance(c.slot, c.element)
		if got != c.want || (err != nil) != c.fails {
			t.Errorf("instance(%d, %d) = %d, %v", c.slot, c.element, got, err)
		}
	}
	for _, name := range []string{"", "x", "proc", "proc[1]", "proc[1,501]", "proc[-1,500]", "proc[01,500]", "proc[1,500", "sum[0]", "proc[99999999999,500]", "proc[*,500]"} {
		if i, ok := g.Lookup(name); ok {
			t.Errorf("lookup of %q finds %d", name, i)
		}
	}
	if got := g.SlotConsumers(1, 0); !reflect.DeepEqual(got, []int{0, 1}) {
		t.Errorf("slots that read base: %v", got)
	}
	small := parse(t, "job: x\ntasks: {a: {run: A}}")
	if _, err := small.Inputs(1); err == nil {
		t.Error("inputs of a task that does not exist")
	}
}

// TestStreamGenerator: a stream may follow one task of a family; a fixed
// generator gives an axis.
func TestStreamGenerator(t *testing.T) {
	g := parse(t, `
job: family
tasks:
  each: {for: {e: "gen[b,2].s[*]", f: "gen[a,1].x[*]"}, run: E, in: {e: "gen[b,2].s[${e}]", f: "gen[a,1].x[${f}]"}, out: [o]}
  gen: {for: {k: [a, b], n: "1..2"}, run: G, generates: {x: 3, s: "*"}}
`)
	gen, _ := g.Lookup("gen[b,2]")
	if got := g.StreamSlots(gen, 1); !reflect.DeepEqual(got, []int{0, 1, 2}) {
		t.Fatalf("slots %v", got)
	}
	i, ok := g.Lookup("each[7,2]")
	if !ok {
		t.Fatal("each[7,2] is not found")
	}
	in, err := g.Inputs(i)
	want := []Input{{Name: "e", Sources: []Source{{SourceElement, gen, 1, 7}}}, {Name: "f", Sources: []Source{{SourceElement, 0, 0, 2}}}}
	if err != nil || !reflect.DeepEqual(in, want) {
		t.Errorf("%v %v", in, err)
	}
	checkRoundTrip(t, g)
	checkIndex(t, g)
}

func TestLimits(t *testing.T) {
	wide := "job: x\ntasks:\n  a: {for: {i: \"0..99\"}, run: A, out: [o]}\n  b: {for: {i: \"0..99\"}, run: B, in: {x: \"a[*].o\"}}\n"
	for _, c := range []struct {
		text string
		opt  Options
		want string
	}{
		{wide, Options{MaxTasks: 150}, `job.yaml:4:7: task "b": the job would expand to more than 150 tasks (loop over fewer values, or raise the limit on tasks)`},
		{wide, Options{MaxEdges: 5000}, `job.yaml:4:42: task "b": input "x": the job would have more than 5000 dependencies (let one task collect the list and the others read its result, or raise the limit)`},
		{wide, Options{MaxBytes: 20}, `job.yaml:1:1: the file has 109 bytes: at most 20 are read (generate large jobs with for, or raise the limit)`},
		{"job: x\ntasks: {a: {run: A, generates: {x: 20000000}}, b: {for: {i: \"a.x[*]\"}, run: B}}", Options{}, `job.yaml:2:61: task "b": the job would expand to more than 10000000 tasks (loop over fewer values, or raise the limit on tasks)`},
		{"job: \xff", Options{}, `job.yaml:1:6: the file is not UTF-8 text here (save it as UTF-8)`},
		{"job: x\ntasks: {a: {run: A, with: {x: " + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}}}", Options{}, `job.yaml:2:96: values are nested deeper than 64 (an alias may contain itself)`},
	} {
		_, err := ParseYAML("job.yaml", []byte(c.text), Override{}, c.opt)
		if err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

// TestMerge: aliases and merge keys share settings between tasks.
func TestMerge(t *testing.T) {
	g := parse(t, `
job: merge
tasks:
  a: &base {run: A, retries: 2, resources: &big {cpu: 2, memory: 1GiB}}
  b: {<<: *base, run: B}
  c: {run: C, resources: {<<: [*big], cpu: 4}}
`)
	for i, want := range []Group{
		{Run: Run{Function: "A"}, Retries: 2, Resources: Resources{CPU: 2000, Memory: 1 << 30}},
		{Run: Run{Function: "B"}, Retries: 2, Resources: Resources{CPU: 2000, Memory: 1 << 30}},
		{Run: Run{Function: "C"}, Resources: Resources{CPU: 4000, Memory: 1 << 30}},
	} {
		got := g.Groups[i]
		if got.Run.Function != want.Run.Function || got.Retries != want.Retries || !reflect.DeepEqual(got.Resources, want.Resources) {
			t.Errorf("%s: %+v", got.Name, got)
		}
	}
}

func TestBuilder(t *testing.T) {
	b := NewBuilder("built")
	b.Param("n", 3)
	gen := b.Add(Group{Name: "gen", Run: Run{Function: "G"}, Outputs: []OutputDecl{{Name: "s", Generate: GenerateOpen}, {Name: "head"}}})
	each := b.Loop("e", gen.Out("s").Element(All()), Group{Name: "each", Axes: []Axis{Values("l", 500, 850)}, Run: Run{Function: "E"},
		Inputs: []InputDecl{One("x", gen.Out("s").Element(Expr("e"))), One("h", gen.Out("head"))}, Outputs: []OutputDecl{{Name: "o"}}})
	words, err := Words("sort", "${in.all[*]}")
	if err != nil {
		t.Fatal(err)
	}
	b.Add(Group{Name: "sum", Run: Run{Command: words, Stdout: "t"}, Inputs: []InputDecl{Many("all", each.Out("o", All(), At(500)))}, Outputs: []OutputDecl{{Name: "t"}}})
	b.Export(gen.Out("head"), "head.txt")
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/builder.golden", checkRoundTrip(t, g))
	checkIndex(t, g)
}

// TestBuilderMistakes: Build reports everything at once.
func TestBuilderMistakes(t *testing.T) {
	b := NewBuilder("")
	b.Param("p", struct{}{})
	a := b.Add(Group{Name: "a", Axes: []Axis{Range("i", 0, 2)}, Outputs: []OutputDecl{{Name: "o"}}})
	b.Add(Group{Name: "a", Run: Run{Function: "A"}, Inputs: []InputDecl{One("x", a.Out("o")), {Name: "y"}}})
	b.Loop("e", a.Out("o", At(1)).Element(All()), Group{Name: "l", Run: Run{Function: "L"}})
	_, err := b.Build()
	want := `parameter "p": a value of type struct {} cannot be part of a job
task "a": it is declared twice (give one of them another name)
the job has no name (add job: NAME)
task "l": a.o is one dataset, not a series (declare it under generates, or loop over a range)
task "a": it has nothing to run (add run: FUNCTION, run: ENVIRONMENT:FUNCTION or command: [...])
task "a": input "y" has no source (write TASK.OUTPUT)
task "a": input "x": task a takes 1 index (i), not 0 (write a[*] for all of them)`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v", err)
	}
}

func TestDecodeErrors(t *testing.T) {
	g := load(t, "testdata/jobs/ensemble.yaml")
	code := g.Encode()
	for n := range code {
		if _, err := Decode(code[:n]); err == nil {
			t.Fatalf("decoded the first %d of %d bytes", n, len(code))
		}
	}
	if _, err := Decode(append(code, 0)); err == nil || !strings.Contains(err.Error(), "1 bytes follow") {
		t.Errorf("trailing byte: %v", err)
	}
	other := append([]byte{}, code...)
	other[1] = 9
	if _, err := Decode(other); err == nil || !strings.Contains(err.Error(), "format 9") {
		t.Errorf("other version: %v", err)
	}
}

// TestOrder: ties are broken by index, streams come between generator and collector.
func TestOrder(t *testing.T) {
	g := parse(t, `
job: order
tasks:
  last: {run: L, in: {x: "each[*].o"}}
  free: {run: F}
  each: {for: {e: "gen.s[*]"}, run: E, in: {e: "gen.s[${e}]", f: first.o}, out: [o]}
  gen: {run: G, generates: {s: "*"}}
  first: {run: A, out: [o]}
`)
	var got []string
	for _, i := range g.Order() {
		got = append(got, g.TaskName(i))
	}
	if want := []string{"free", "gen", "first", "last"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestLongList: loop values are found by number and by text, whatever the length.
func TestLongList(t *testing.T) {
	values := make([]int, 40)
	for i := range values {
		values[i] = 10 * i
	}
	b := NewBuilder("list")
	a := b.Add(Group{Name: "a", Axes: []Axis{Values("v", values...), Values("s", "x", "y")}, Run: Run{Function: "A"}, Outputs: []OutputDecl{{Name: "o"}}})
	c := b.Add(Group{Name: "c", Axes: []Axis{Range("i", 0, 19)}, Run: Run{Function: "C"}, Inputs: []InputDecl{One("x", a.Out("o", Expr("i * 20"), At("y"))), One("half", a.Out("o", Expr("i * 20 / 2"), At("x")))}})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	gi, _ := g.GroupByName(c.Name())
	first, n := g.GroupTasks(gi)
	if first != 80 || n != 20 {
		t.Fatal(first, n)
	}
	in, err := g.Inputs(TaskIndex(first + 3))
	if err != nil || g.TaskName(in[0].Sources[0].Task) != "a[60,y]" || g.TaskName(in[1].Sources[0].Task) != "a[30,x]" {
		t.Error(in, err)
	}
	checkRoundTrip(t, g)
	checkIndex(t, g)
}

// TestTypeMistakes: what does not fit says where and what to do.
func TestTypeMistakes(t *testing.T) {
	for _, c := range []struct{ task, want string }{
		{`for: {s: [a, 1]}, run: A, with: {x: "${s + 1}"}`, `task "t": with x: ${s + 1}: s is the text "a", not a number (loop over numbers, or write int(s))`},
		{`run: A, with: {x: "a ${params.none}"}`, `task "t": with x: ${params.none}: the value is null and cannot be part of a text (give the parameter a value)`},
		{`run: A, with: {x: "${n}"}`, `task "t": with x: unknown name "n" (write params.n)`},
		{`run: A, with: {x: "${1/0}"}`, `task "t": with x: ${1/0}: the value +Inf is not a finite number`},
		{`run: A, with: {x: "${params.l[9]}"}`, `task "t": with x: ${params.l[9]}: index out of range: 9 (array length is 1) (the values do not fit the operation; int(...), float(...) and string(...) convert)`},
		{`run: A, with: {x: "${params.n ? 1 : 2}"}`, `with x: ${params.n ? 1 : 2}: it is a whole number where a truth value is wanted`},
		{`run: A, with: {x: "${upper(params.none)}"}`, `with x: ${upper(params.none)}: it is null where a text is wanted`},
		{`run: A, with: {x: "${int(params.none)}"}`, `with x: ${int(params.none)}: null is no value to compute with`},
		{`run: A, with: {x: "${params.l + params.none}"}`, `invalid operation: a list + null (`},
		{`run: A, with: {x: "${int(params.l)}"}`, `invalid operation: int(a list) (`},
		{`run: A, with: {x: "${params.n % 0}"}`, `with x: ${params.n % 0}: division by zero`},
		{`run: A, with: {x: "${}"}`, `task "t": with x: empty expression ${} (write a name, such as ${params.x}, or $${ for a literal ${)`},
		{`run: A, with: {x: "${'a' matches 'b'}"}`, `operator matches is not available`},
		{`run: A, with: {x: "${let a = 1; a}"}`, `only arithmetic and text are available`},
		{`run: A, with: {x: "${params.l.map(1)}"}`, `only built-in functions can be called`},
		{`for: {a-b: [1]}, run: A`, `"a-b" cannot be the name of a loop variable (letters, digits and _: expressions would read - as minus)`},
		{`for: {a: ["x,y"]}, run: A`, `loop value "x,y" cannot be part of a task's name`},
		{`command: [x], environment: tools`, `there is no environment "tools" (declare it under environments)`},
		{`command: [x], env: {"A B": 1}`, `"A B" cannot be the name of an environment variable (a name without = and spaces, at most 200 bytes)`},
		{`command: [x], env: {A: [1]}`, `task "t": env A is a list (write it as text)`},
		{`run: A, stdin: x`, `task "t": stdin is for commands (a function reads its inputs and returns its outputs)`},
		{`run: ":A"`, `run is ":A" (write FUNCTION or ENVIRONMENT:FUNCTION)`},
		{`run: A, resources: {a b: 1}`, `"a b" cannot be the name of a resource`},
		{`run: A, resources: {memory: 1e4}`, `resources memory is 10000, not an amount of memory`},
		{`run: A, resources: {memory: 64}`, `resources memory is 64 bytes, less than 1MiB (write 64MiB, or 64B for bytes)`},
		{`run: A, resources: {memory: "${params.n * 16}"}`, `resources memory is 64 bytes, less than 1MiB (write 64MiB, or 64B for bytes)`},
		{`run: A, resources: {memory: "1.5"}`, `resources memory is 1.5 bytes, less than 1MiB (write 1.5MiB, or 1.5B for bytes)`},
		{`run: A, generates: {x: 9007199254740993}`, `output "x" has 9007199254740993 elements`},
	} {
		_, err := ParseYAML("job.yaml", []byte("job: x\nparams: {n: 4, none: null, l: [1]}\ntasks:\n  t: {"+c.task+"}\n"), Override{}, Options{})
		if err == nil || !strings.HasPrefix(err.Error(), "job.yaml:4:") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\ngot  %v\nwant %s", c.task, err, c.want)
		}
	}
}

// TestCommandLine: a command as a person writes it, for the shell and as words.
func TestCommandLine(t *testing.T) {
	g, err := ParseYAML("job.yaml", []byte(`job: j
params: {n: 3}
tasks:
  shell: {for: {i: "0..1"}, command: "echo $${HOME} ${i} ${params.n} > ${out.x}", out: [x]}
  words: {command: [grep, "a b", "it's", "", "${in.x}", "${in.all[*]}", "-n"], in: {x: "shell[0].x", all: "shell[*].x"}}
  code: {run: F}
`), Override{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"shell[1]": "echo ${HOME} 1 3 > ${out.x}",
		"words":    `grep 'a b' 'it'\''s' '' ${in.x} '${in.all[*]}' -n`,
		"code":     "",
	} {
		i, _ := g.Lookup(name)
		if got, err := g.CommandLine(i); got != want || err != nil {
			t.Errorf("%s: %s, %v; want %s", name, got, err, want)
		}
	}
}
