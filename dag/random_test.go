package dag

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawGraph builds a random valid job: groups over ranges and lists, fixed and
// open generators, streamed groups that chain, lists, commands, exports.
func drawGraph(t *rapid.T) *Graph {
	d := &drawer{T: t, b: NewBuilder(drawText(t, "job", true))}
	d.b.KeepGoing(rapid.Bool().Draw(t, "keep going"))
	d.b.Param("n", rapid.Int64().Draw(t, "n"))
	d.b.Param("text", drawText(t, "text", false))
	d.b.Param("deep", drawValue(t, 0))
	env := Environment{Name: "env", Go: "./go", Source: "/src", Vars: map[string]string{"A": drawText(t, "var", false)}}
	if rapid.Bool().Draw(t, "plugins") {
		env.Plugins = []Field{{"modules", drawValue(t, 0)}, {"other", nil}}
	}
	switch rapid.IntRange(0, 4).Draw(t, "kind of environment") {
	case 1:
		env.Go, env.Binary, env.WorkingDir = "", drawText(t, "binary", true), drawText(t, "working dir", false)
	case 4:
		env.Go, env.Binaries = "", []Binary{{"linux/amd64", drawText(t, "binary", true)}, {"linux/arm64", "./b"}}
	case 3:
		env.Container = &Container{Image: "host/image:1"}
	case 2:
		env.Go, env.PyModules = "", []string{"./lib", drawText(t, "module", true)}
		env.Python = &Python{Version: ">=3.10", Pip: []string{"numpy<2", "a[b,c] ~= 1.0 ; python_version > '3'"}, Offline: rapid.Bool().Draw(t, "offline")}
	}
	d.b.Environment(env)
	for i := range rapid.IntRange(0, 2).Draw(t, "inputs") {
		d.input(i)
	}
	for i := range rapid.IntRange(1, 8).Draw(t, "groups") {
		d.group(i)
	}
	if rapid.Bool().Draw(t, "export") {
		if s, ok := d.pick(&drawn{}); ok {
			d.b.Export(s, "out$dir/")
		}
	}
	g, err := d.b.Build()
	if err != nil {
		t.Fatalf("%v\n%#v", err, d.groups)
	}
	return g
}

// drawn is what the drawer remembers of a group.
type drawn struct {
	h      Handle
	axes   []Axis
	stream int // 1 + the index of the generator it follows, 0: none
	fixed  uint64
	open   bool
	input  bool   // of the job
	name   string // of the loop variable over the stream
}

type drawer struct {
	*rapid.T
	b      *Builder
	groups []drawn
}

func drawText(t *rapid.T, label string, visible bool) string {
	if visible {
		return rapid.StringMatching(`[a-zA-Z0-9é${}"':#-]{1,12}`).Draw(t, label)
	}
	return strings.ReplaceAll(rapid.String().Draw(t, label), "\x00", "")
}

func drawValue(t *rapid.T, depth int) any {
	switch k := rapid.IntRange(0, 7).Draw(t, "kind"); {
	case k == 0:
		return nil
	case k == 1:
		return rapid.Bool().Draw(t, "bool")
	case k == 2:
		return rapid.Int64().Draw(t, "int")
	case k == 3:
		return rapid.Float64().Draw(t, "float")
	case k == 4 && depth < 3:
		return []any{drawValue(t, depth+1), drawValue(t, depth+1)}
	case k == 5 && depth < 3:
		return map[string]any{"a b": drawValue(t, depth+1), "<<": drawValue(t, depth+1), "true": nil}
	}
	return drawText(t, "string", false)
}

func (d *drawer) axes() []Axis {
	var axes []Axis
	for i := range rapid.IntRange(0, 2).Draw(d.T, "axes") {
		v := fmt.Sprintf("v%d", i)
		if rapid.Bool().Draw(d.T, "range") {
			first := rapid.Int64Range(-3, 3).Draw(d.T, "first")
			axes = append(axes, Range(v, first, first+rapid.Int64Range(-1, 3).Draw(d.T, "length")))
			continue
		}
		axes = append(axes, Axis{Var: v, Values: []any{"yes", int64(7), "2026-01-01", "a b"}[:rapid.IntRange(1, 4).Draw(d.T, "values")]})
	}
	return axes
}

// input draws an input of the job: one file, or several.
func (d *drawer) input(i int) {
	file := func() (f File) {
		if rapid.Bool().Draw(d.T, "hashed") {
			f.SHA256, f.Size = rapid.StringMatching(`[0-9a-f]{64}`).Draw(d.T, "hash"), rapid.Int64Range(0, maxFileSize).Draw(d.T, "size")
		}
		if rapid.Bool().Draw(d.T, "url") {
			f.URL = "https://host/" + drawText(d.T, "url", true)
			return f
		}
		f.Path, f.Kept = drawText(d.T, "path", true), f.SHA256 != "" && rapid.Bool().Draw(d.T, "kept")
		return f
	}
	name := fmt.Sprintf("input%d", i)
	me, grp := drawn{input: true}, NewInput(name, file())
	if rapid.Bool().Draw(d.T, "several") {
		files := []File{file()}
		for range rapid.IntRange(0, 2).Draw(d.T, "files") {
			files = append(files, file())
		}
		grp = NewInputs(name, files)
		me.axes = grp.Axes
	}
	grp.Retries = rapid.IntRange(0, 3).Draw(d.T, "retries")
	me.h = d.b.Input(grp)
	d.groups = append(d.groups, me)
}

func (d *drawer) group(i int) {
	me := drawn{axes: d.axes()}
	grp := Group{Name: fmt.Sprintf("g%d", i)}
	if rapid.IntRange(0, 4).Draw(d.T, "is a gang") == 0 {
		grp.Gang = GangPack
		me.axes = append(me.axes, Members(rapid.Int64Range(1, 4).Draw(d.T, "members")))
	}
	grp.Axes = me.axes
	var open []int
	for k := range d.groups {
		if d.groups[k].open {
			open = append(open, k)
		}
	}
	if len(open) > 0 && grp.Gang == GangNone && rapid.Bool().Draw(d.T, "streamed") {
		me.stream, me.name = 1+rapid.SampledFrom(open).Draw(d.T, "generator"), "el"
	}
	for k := range rapid.IntRange(0, 3).Draw(d.T, "inputs") {
		if from, ok := d.pick(&me); ok {
			in := Many(fmt.Sprintf("in%d", k), from)
			if rapid.Bool().Draw(d.T, "single") && !hasStar(from.Text) {
				in.List = false
			}
			grp.Inputs = append(grp.Inputs, in)
		}
	}
	d.body(&grp, &me)
	if me.stream > 0 {
		gen := d.groups[me.stream-1]
		me.h = d.b.Loop("el", gen.h.Out("open").Element(All()), grp)
	} else {
		me.h = d.b.Add(grp)
	}
	d.groups = append(d.groups, me)
}

// body draws what the tasks run and give.
func (d *drawer) body(grp *Group, me *drawn) {
	grp.Retries = rapid.IntRange(0, 3).Draw(d.T, "retries")
	grp.Priority = rapid.IntRange(-3, 3).Draw(d.T, "priority")
	grp.Timeout = time.Duration(rapid.Int64Range(0, 1e15).Draw(d.T, "timeout"))
	if rapid.IntRange(0, 3).Draw(d.T, "late") == 0 {
		grp.Deadline = time.Duration(rapid.Int64Range(1, 1e15).Draw(d.T, "deadline"))
	}
	grp.KeepGoing = rapid.Bool().Draw(d.T, "keep going")
	grp.Resources = Resources{CPU: rapid.Int64Range(0, maxAmount).Draw(d.T, "cpu"), Memory: rapid.Int64Range(0, 1<<50).Draw(d.T, "memory")}
	if grp.Resources.Memory > 0 && rapid.Bool().Draw(d.T, "bounded") {
		grp.Resources.MemoryMax = grp.Resources.Memory + rapid.Int64Range(0, 1<<40).Draw(d.T, "memory_max")
	}
	if rapid.Bool().Draw(d.T, "devices") {
		grp.Resources.GPU = rapid.SampledFrom([]int64{1, 500, 1000, 4000}).Draw(d.T, "gpu")
		grp.Resources.GPUMemory = rapid.Int64Range(0, 1<<40).Draw(d.T, "gpu_memory")
	}
	if rapid.Bool().Draw(d.T, "custom") {
		grp.Resources.Custom = map[string]int64{"licence": rapid.Int64Range(0, maxAmount).Draw(d.T, "custom"), "a": 1}
	}
	grp.Outputs = []OutputDecl{{Name: "out"}}
	if rapid.Bool().Draw(d.T, "command") {
		grp.Run.Command = []Arg{{{Kind: ArgText, Text: "./prog"}}, {{Kind: ArgText, Text: "x" + drawText(d.T, "word", false)}, {Kind: ArgExpr, Text: "params.n"}},
			{{Kind: ArgText, Text: drawText(d.T, "word", false)}}}
		if rapid.Bool().Draw(d.T, "shell") {
			grp.Run.Command = append(shellWords(), Arg{{Kind: ArgText, Text: "cat " + drawText(d.T, "word", false)}})
		}
		if err := checkArg(grp.Run.Command[1]); err != nil {
			grp.Run.Command = grp.Run.Command[:1]
		}
		grp.Run.Stdout = "out"
		grp.Env = []Field{{"LEVEL", "${params.text}"}, {"N", int64(4)}}
		return
	}
	grp.Run = Run{Environment: "env", Function: "pkg.Fn"}
	grp.With = []Field{{"a", drawText(d.T, "with", false)}, {"n", "${params.n}"}, {"deep", drawValue(d.T, 0)}}
	for i := range grp.With {
		if _, err := (programs{}).bind(grp.With[i].Value, &scope{params: map[string]any{"n": int64(1)}}); err != nil {
			grp.With[i].Value = "plain"
		}
	}
	if grp.Gang != GangNone {
		return
	}
	if me.stream == 0 && len(me.axes) == 0 && rapid.Bool().Draw(d.T, "opens") {
		me.open = true
		grp.Outputs = append(grp.Outputs, OutputDecl{Name: "open", Generate: GenerateOpen, Buffer: rapid.IntRange(0, 5).Draw(d.T, "buffer")})
	}
	if rapid.Bool().Draw(d.T, "fixed") {
		me.fixed = rapid.Uint64Range(1, 4).Draw(d.T, "count")
		grp.Outputs = append(grp.Outputs, OutputDecl{Name: "fixed", Generate: GenerateFixed, Count: me.fixed})
	}
}

// pick draws a reference that a group like me can make to an earlier group.
func (d *drawer) pick(me *drawn) (From, bool) {
	if len(d.groups) == 0 {
		return From{}, false
	}
	k := rapid.IntRange(0, len(d.groups)-1).Draw(d.T, "producer")
	p := &d.groups[k]
	var index []Index
	follows := false
	if p.stream > 0 {
		follows = me.stream == p.stream
		if follows {
			index = append(index, Expr("el"))
		} else {
			index = append(index, All())
		}
	}
	for i := range p.axes {
		a := &p.axes[i]
		index = append(index, All())
		if a.Len() == 0 {
			continue
		}
		at := rapid.IntRange(0, a.Len()-1).Draw(d.T, "value")
		switch rapid.IntRange(0, 2).Draw(d.T, "index") {
		case 0:
			index[len(index)-1] = At(fmt.Sprint(a.Value(at)))
		case 1:
			if i < len(me.axes) && a.Values == nil && me.axes[i].Values == nil && me.axes[i].Len() > 0 {
				index[len(index)-1] = Expr(fmt.Sprintf("(%s - %d) %% 1 + %d", me.axes[i].Var, me.axes[i].First, a.First))
			}
		}
	}
	switch {
	case p.open && rapid.Bool().Draw(d.T, "stream"):
		if me.stream == k+1 {
			return p.h.Out("open", index...).Element(Expr("el")), true
		}
		return p.h.Out("open", index...).Element(All()), true
	case p.fixed > 0 && (p.stream == 0 || follows) && rapid.Bool().Draw(d.T, "element"):
		e := All()
		if rapid.Bool().Draw(d.T, "one") {
			e = At(rapid.Uint64Range(0, p.fixed-1).Draw(d.T, "element"))
		}
		return p.h.Out("fixed", index...).Element(e), true
	case p.input:
		return p.h.Out("", index...), true
	}
	return p.h.Out("out", index...), true
}

// TestRandomGraphs draws jobs and checks that encoding and printing keep them,
// that consumers are the inverse of inputs and that the order is topological.
func TestRandomGraphs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := drawGraph(rt)
		checkRoundTrip(rt, g)
		checkIndex(rt, g)
		for n := range g.NumTasks() {
			_, err := g.With(TaskIndex(n))
			_, err2 := g.Command(TaskIndex(n))
			_, err3 := g.EnvVars(TaskIndex(n))
			if err != nil || err2 != nil || err3 != nil {
				rt.Fatal(err, err2, err3)
			}
		}
	})
}
