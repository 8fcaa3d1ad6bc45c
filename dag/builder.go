package dag

import (
	"fmt"
	"strconv"
	"strings"
)

// Builder makes a Graph in code. It is the untyped form; all mistakes are
// reported by Build, at once.
type Builder struct {
	g       Graph
	inputs  []Group
	pending []pendingAxis
	err     Problems
}

// NewBuilder starts a job.
func NewBuilder(name string) *Builder {
	return &Builder{g: Graph{Name: name}}
}

// Handle is a group that was added to a Builder, to refer to its outputs.
type Handle struct {
	name string
}

// Index chooses tasks of a group, or an element of a generator's output: All,
// At or Expr.
type Index struct{ text string }

// All chooses each value of an axis, or all elements.
func All() Index { return Index{"*"} }

// At chooses one value of an axis (an integer or a string), or one element.
func At[V int | int64 | uint64 | string](v V) Index { return Index{fmt.Sprint(v)} }

// Expr chooses by an expression over the consumer's loop variables, as it would
// stand between ${ and }: Expr("step"), Expr("step - 1").
func Expr(src string) Index { return Index{"${" + src + "}"} }

// Param adds a parameter; expressions see it as params.NAME.
func (b *Builder) Param(name string, value any) {
	v, err := normalise(value, 0)
	if err != nil {
		b.err = append(b.err, Problem{Message: fmt.Sprintf("parameter %q: %s", name, err)})
	}
	b.g.Params = append(b.g.Params, Param{Name: name, Value: v})
}

// Environment adds an environment.
func (b *Builder) Environment(e Environment) { b.g.Environments = append(b.g.Environments, e) }

// KeepGoing makes other branches of the job go on when a task fails.
func (b *Builder) KeepGoing(on bool) { b.g.KeepGoing = on }

// Retain keeps every dataset after the job, not only its outputs.
func (b *Builder) Retain(on bool) { b.g.Retain = on }

// Rebuilt says what becomes of the job when a recomputed dataset differs.
func (b *Builder) Rebuilt(policy Rebuilt) { b.g.Rebuilt = policy }

// Add adds a group. Its Stream is set by Loop alone; List is set for inputs that
// have several sources. The slices of grp belong to the builder from here on.
func (b *Builder) Add(grp Group) Handle {
	grp.Stream = nil
	b.g.Groups = append(b.g.Groups, grp)
	return Handle{grp.Name}
}

// Input adds an input of the job, as NewInput or NewInputs makes it.
func (b *Builder) Input(grp Group) Handle {
	b.inputs = append(b.inputs, grp)
	return Handle{grp.Name}
}

// Loop adds a group with one task for each element of a generator, in front of
// the group's own axes: elements is the generator's output with All as element.
// A fixed generator gives an axis 0 .. count-1, an open one a stream.
func (b *Builder) Loop(variable string, elements From, grp Group) Handle {
	grp.Axes = append([]Axis{{Var: variable}}, grp.Axes...)
	b.pending = append(b.pending, pendingAxis{group: len(b.g.Groups), from: elements})
	return b.Add(grp)
}

// Export makes an output of the job; path as in Export.Path.
func (b *Builder) Export(from From, path string) {
	b.g.Exports = append(b.g.Exports, Export{From: from, Path: path})
}

// Range is the axis first .. last.
func Range(variable string, first, last int64) Axis {
	return Axis{Var: variable, First: first, N: last - first + 1}
}

// Values is an axis over a list.
func Values[V int | int64 | string](variable string, values ...V) Axis {
	a := Axis{Var: variable, Values: make([]any, len(values))}
	for i, v := range values {
		switch x := any(v).(type) {
		case int:
			a.Values[i] = int64(x)
		default:
			a.Values[i] = x
		}
	}
	return a
}

// Name returns the group's name.
func (h Handle) Name() string { return h.name }

// Out refers to an output of the group's tasks: one Index for each axis, the
// stream's first. The name may be "" when there is one output.
func (h Handle) Out(output string, index ...Index) From {
	var s strings.Builder
	s.WriteString(h.name)
	if len(index) > 0 {
		words := make([]string, len(index))
		for i := range index {
			words[i] = index[i].text
		}
		s.WriteString("[" + strings.Join(words, ",") + "]")
	}
	if output != "" {
		s.WriteString("." + output)
	}
	return From{Text: s.String()}
}

// Element narrows a reference to a generator's output to one element or All.
func (f From) Element(e Index) From {
	f.Text += "[" + e.text + "]"
	return f
}

// One declares an input that is a single dataset.
func One(name string, from From) InputDecl { return InputDecl{Name: name, From: []From{from}} }

// Many declares an input that is a list.
func Many(name string, from ...From) InputDecl {
	return InputDecl{Name: name, List: true, From: from}
}

// Words makes a command line from its words, which may hold placeholders as in
// a job file: ${in.NAME}, ${in.NAME[*]}, ${out.NAME} and expressions.
func Words(words ...string) ([]Arg, error) {
	args := make([]Arg, len(words))
	for i, w := range words {
		a, err := parseArg(w)
		if err != nil {
			return nil, fmt.Errorf("word %s of the command: %w", strconv.Itoa(i), err)
		}
		args[i] = a
	}
	return args, nil
}

// Build checks the job and returns its graph, or Problems. The builder is not
// to be used afterwards.
func (b *Builder) Build() (*Graph, error) { return b.BuildWith(Options{}) }

// BuildWith is Build with limits.
func (b *Builder) BuildWith(opt Options) (*Graph, error) {
	g := &b.g
	if n := len(b.inputs); n > 0 { // they come first
		g.Groups = append(b.inputs, g.Groups...)
		for i := range b.pending {
			b.pending[i].group += n
		}
	}
	for gi := range g.Groups {
		g.Groups[gi].canonical()
	}
	problems := b.err
	for _, is := range g.resolve(opt, b.pending, nil) {
		problems = append(problems, Problem{Message: is.message, Hint: is.hint})
	}
	if len(problems) > 0 {
		return nil, sortProblems(problems)
	}
	return g, nil
}

// canonical brings a group to its one form: generated outputs last, lists
// marked, absent instead of empty.
func (grp *Group) canonical() {
	outs := make([]OutputDecl, 0, len(grp.Outputs))
	for _, generated := range []bool{false, true} {
		for _, o := range grp.Outputs {
			if (o.Generate != GenerateNone) == generated {
				outs = append(outs, o)
			}
		}
	}
	grp.Outputs = outs
	for i := range grp.Inputs {
		d := &grp.Inputs[i]
		d.List = d.List || len(d.From) > 1 || len(d.From) == 1 && hasStar(d.From[0].Text)
	}
	for i, word := range grp.Run.Command {
		grp.Run.Command[i] = canonicalArg(word)
	}
	for _, fs := range [][]Field{grp.With, grp.Env} {
		for i := range fs {
			if v, err := normalise(fs[i].Value, 0); err == nil {
				fs[i].Value = v
			}
		}
	}
	for i := range grp.Env { // the value of a variable is a text
		switch v := grp.Env[i].Value.(type) {
		case bool, int64, float64:
			grp.Env[i].Value, _ = valueText(v)
		}
	}
}

// canonicalArg joins neighbouring texts and drops empty ones.
func canonicalArg(word Arg) Arg {
	var out Arg
	for _, p := range word {
		switch last := len(out) - 1; {
		case p.Kind == ArgText && p.Text == "":
		case p.Kind == ArgText && last >= 0 && out[last].Kind == ArgText:
			out[last].Text += p.Text
		default:
			out = append(out, p)
		}
	}
	if out == nil {
		out = Arg{{Kind: ArgText}}
	}
	return out
}

// hasStar tells whether a reference has an index *.
func hasStar(text string) bool {
	r, err := parseRef(text)
	if err != nil {
		return false
	}
	for _, s := range r.index {
		if s.all {
			return true
		}
	}
	return r.elem != nil && r.elem.all
}
