package dag

import (
	"fmt"
	"math"
	"strings"
)

// target is a reference bound to its group: which of its tasks and which dataset.
type target struct {
	group    int
	output   uint32
	kind     SourceKind
	index    []position // for each static axis of the group
	elem     position   // of a generator's output
	elemAll  bool       // elem is each of a fixed generator's elements
	relative bool       // the source is the instance of the consumer's own element
	bound    bool       // the source is the consumer's own element of its generator
}

// position is where an index points: everything, a constant or a template.
type position struct {
	all   bool
	konst uint64
	tpl   *template
}

func (r *resolver) unknownTask(name string) error {
	hint := "declare it under tasks"
	if r.hints > 0 {
		r.hints--
		names := make([]string, len(r.g.Groups))
		for i := range r.g.Groups {
			names[i] = r.g.Groups[i].Name
		}
		hint = nearest(name, names, hint)
	}
	return mistake(fmt.Sprintf("there is no task %q", clip(name)), hint)
}

// output finds the output a reference names.
func (r *resolver) output(ti int, ref *ref) (uint32, error) {
	grp := &r.g.Groups[ti]
	if ref.output == "" {
		switch len(grp.Outputs) {
		case 1:
			return 0, nil
		case 0:
			return 0, mistake(fmt.Sprintf("task %s has no output", ref.group), "declare one in its out")
		}
		return 0, mistake(fmt.Sprintf("task %s has %d outputs", ref.group, len(grp.Outputs)), fmt.Sprintf("name one: %s.%s", ref.group, grp.Outputs[0].Name))
	}
	names := make([]string, len(grp.Outputs))
	for i := range grp.Outputs {
		if names[i] = grp.Outputs[i].Name; names[i] == ref.output {
			return uint32(i), nil
		}
	}
	fallback := "declare it in its out or generates"
	if len(names) > 0 && len(names) <= 8 {
		fallback = "it has " + strings.Join(names, ", ")
	}
	return 0, mistake(fmt.Sprintf("task %s has no output %q", ref.group, clip(ref.output)), nearest(ref.output, names, fallback))
}

// indexForm shows how a group's tasks are named.
func (r *resolver) indexForm(ti int) string {
	grp := &r.g.Groups[ti]
	vars := r.scopes[ti].vars
	if len(vars) == 0 {
		return grp.Name
	}
	return grp.Name + "[" + strings.Join(vars, ",") + "]"
}

// bind resolves a reference seen from group gi (-1: the job's outputs). It is
// nil without error when the target is broken, which was reported before.
func (r *resolver) bind(gi int, text string) (*target, error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	ref, err := parseRef(text)
	if err != nil {
		return nil, err
	}
	ti32, ok := r.ix.byName[ref.group]
	if !ok {
		return nil, r.unknownTask(ref.group)
	}
	t := &target{group: int(ti32)}
	if t.output, err = r.output(t.group, &ref); err != nil {
		return nil, err
	}
	if r.broken[t.group] || gi >= 0 && r.broken[gi] {
		return nil, nil
	}
	sc := r.ix.outside
	var own *Stream
	if gi >= 0 {
		sc = r.scopes[gi]
		own = r.g.Groups[gi].Stream
	}
	if err = r.bindIndex(t, &ref, sc); err != nil {
		return nil, err
	}
	if err = r.bindStream(t, &ref, own); err != nil {
		return nil, err
	}
	if err = r.bindElement(t, &ref, sc, own); err != nil {
		return nil, err
	}
	if own != nil {
		for _, p := range append(t.index[:len(t.index):len(t.index)], t.elem) {
			if p.tpl != nil && p.tpl.uses(0) {
				return nil, mistake(fmt.Sprintf("the element number %s cannot choose a task or element of %s", own.Var, ref.group),
					"an instance sees its own element of the generator and of tasks that follow the same generator")
			}
		}
	}
	return t, nil
}

// bindIndex binds the indices of the target's static axes.
func (r *resolver) bindIndex(t *target, ref *ref, sc *scope) error {
	grp := &r.g.Groups[t.group]
	want := r.scopes[t.group].vars
	if len(ref.index) != len(want) {
		if len(want) == 0 {
			return mistake(fmt.Sprintf("task %s is a single task and takes no index", ref.group), "write "+ref.group)
		}
		return mistake(fmt.Sprintf("task %s takes %d %s (%s), not %d", ref.group, len(want), plural(len(want), "index", "indices"), strings.Join(want, ", "), len(ref.index)),
			"write "+ref.group+"["+strings.Repeat("*,", len(want)-1)+"*] for all of them")
	}
	skip := len(want) - len(grp.Axes) // 1 when the first index is the stream's
	t.index = make([]position, len(grp.Axes))
	for i := range grp.Axes {
		p, err := r.position(&ref.index[skip+i], sc)
		if err != nil {
			return err
		}
		if !p.all && p.tpl.constant() {
			v, err := p.tpl.eval(sc, noRow{})
			if err != nil {
				return err
			}
			at, err := r.axisPosition(t.group, i, v)
			if err != nil {
				return err
			}
			p = position{konst: uint64(at)}
		}
		t.index[i] = p
	}
	return nil
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func (r *resolver) position(s *selector, sc *scope) (position, error) {
	if s.all {
		return position{all: true}, nil
	}
	tpl, err := r.ps.template(s.text, sc)
	return position{tpl: tpl}, err
}

// bindStream decides how a reference to a streamed group is meant.
func (r *resolver) bindStream(t *target, ref *ref, own *Stream) error {
	st := r.g.Groups[t.group].Stream
	t.kind = SourceWhole
	if st == nil {
		return nil
	}
	same := own != nil && own.Generator == st.Generator && own.Output == st.Output
	first := &ref.index[0]
	switch {
	case same && isVariable(first, own.Var):
		t.relative = true
	case same:
		return mistake(fmt.Sprintf("an instance sees only its own element of %s", ref.group), fmt.Sprintf("write %s[${%s}%s], or collect all in a task without for", ref.group, own.Var, strings.Repeat(",...", len(t.index))))
	case first.all:
		t.kind = SourceGroup
		if r.g.Groups[t.group].Outputs[t.output].Generate != GenerateNone {
			return mistake(fmt.Sprintf("%s.%s is a series of its own for each element: it cannot be collected", ref.group, r.g.Groups[t.group].Outputs[t.output].Name), "reduce it to one dataset for each element first")
		}
	default:
		return mistake(fmt.Sprintf("the elements of %s come into being while the job runs: one of them cannot be named", ref.group), "write * to collect them, or loop over the same generator")
	}
	return nil
}

// isVariable tells whether a selector is exactly ${name}.
func isVariable(s *selector, name string) bool {
	return strings.HasPrefix(s.text, "${") && strings.HasSuffix(s.text, "}") && strings.TrimSpace(s.text[2:len(s.text)-1]) == name
}

// bindElement binds the element of a generator's output.
func (r *resolver) bindElement(t *target, ref *ref, sc *scope, own *Stream) error {
	out := &r.g.Groups[t.group].Outputs[t.output]
	name := ref.group + "." + out.Name
	if out.Generate == GenerateNone {
		if ref.elem != nil {
			return mistake(fmt.Sprintf("%s is one dataset and has no elements", name), "leave out the brackets after "+out.Name)
		}
		return nil
	}
	if ref.elem == nil {
		return mistake(fmt.Sprintf("%s is a series of elements", name), fmt.Sprintf("write %s[*] for all of them, or a number in the brackets", out.Name))
	}
	follows := own != nil && r.follows(t, own)
	switch {
	case out.Generate == GenerateOpen && follows && isVariable(ref.elem, own.Var):
		t.kind, t.bound = SourceElement, true
		return nil
	case out.Generate == GenerateOpen && follows:
		return mistake(fmt.Sprintf("an instance sees only its own element of %s", name), fmt.Sprintf("write %s[${%s}], or collect all in a task without for", out.Name, own.Var))
	case out.Generate == GenerateOpen && ref.elem.all:
		t.kind = SourceStream
		return nil
	case out.Generate == GenerateOpen:
		return mistake(fmt.Sprintf("how many elements %s has is known only when it ends: one of them cannot be named", name), "write [*] to take all, or loop over them with for")
	}
	t.kind = SourceElement
	p, err := r.position(ref.elem, sc)
	if err != nil {
		return err
	}
	t.elemAll = p.all
	if !p.all && p.tpl.constant() {
		v, err := p.tpl.eval(sc, noRow{})
		if err != nil {
			return err
		}
		e, err := elementNumber(v, out, name)
		if err != nil {
			return err
		}
		p = position{konst: e}
	}
	t.elem = p
	return nil
}

// follows tells whether the target is the very task whose elements own follows.
func (r *resolver) follows(t *target, own *Stream) bool {
	if t.output != own.Output || r.g.Groups[t.group].Stream != nil {
		return false
	}
	gi := &r.ix.groups[t.group]
	if uint32(own.Generator) < gi.start || uint32(own.Generator) >= gi.start+gi.size {
		return false
	}
	local := uint32(0)
	for i, p := range t.index {
		if p.all || p.tpl != nil {
			return false
		}
		local = local*uint32(r.g.Groups[t.group].Axes[i].Len()) + uint32(p.konst)
	}
	return gi.start+local == uint32(own.Generator)
}

// elementNumber checks an element of a fixed generator.
func elementNumber(v any, out *OutputDecl, name string) (uint64, error) {
	n, ok := wholeNumber(v)
	if !ok {
		return 0, mistake(fmt.Sprintf("%v is not an element number of %s", v, name), "an element is a whole number from 0")
	}
	if n < 0 || uint64(n) >= out.Count {
		return 0, mistake(fmt.Sprintf("%s has no element %d", name, n), elementsForm(out.Count))
	}
	return uint64(n), nil
}

func elementsForm(count uint64) string {
	if count == 0 {
		return "it has none"
	}
	return fmt.Sprintf("it has 0 to %d", count-1)
}

// wholeNumber accepts integers, floats without fraction (the result of a
// division) and decimal text.
func wholeNumber(v any) (int64, bool) {
	switch x := v.(type) {
	case int64:
		return x, true
	case float64:
		if x == math.Trunc(x) && math.Abs(x) < 1<<53 {
			return int64(x), true
		}
	case string:
		return decimal(x)
	}
	return 0, false
}

// axisPosition finds a value on an axis.
func (r *resolver) axisPosition(gi, axis int, v any) (int, error) {
	if f, isFloat := v.(float64); isFloat {
		if n, ok := wholeNumber(f); ok {
			v = n
		}
	}
	if at, ok := r.ix.valuePosition(r.g, gi, axis, v); ok {
		return at, nil
	}
	a := &r.g.Groups[gi].Axes[axis]
	return 0, mistake(fmt.Sprintf("%s has no task for %s %v", r.g.Groups[gi].Name, a.Var, v), axisForm(a))
}

// axisForm lists an axis' values for a hint.
func axisForm(a *Axis) string {
	n := a.Len()
	if n == 0 {
		return a.Var + " has no values"
	}
	if a.Values == nil {
		return fmt.Sprintf("%s is %d to %d", a.Var, a.First, a.First+a.N-1)
	}
	var words []string
	for i := 0; i < min(n, 8); i++ {
		words = append(words, fmt.Sprint(a.Values[i]))
	}
	if n > 8 {
		words = append(words, "...")
	}
	return a.Var + " is one of " + strings.Join(words, ", ")
}
