package dag

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Limits of Options when a field is zero.
const (
	DefaultMaxTasks = 10_000_000
	DefaultMaxEdges = 50_000_000
	DefaultMaxBytes = 256 << 20

	maxDepth = 64 // nesting of values and of job files
	maxAxes  = 16
)

// Options bound what a job may expand to. The zero value has the defaults.
type Options struct {
	Dir      string // folder that relative paths of environments refer to; becomes Environment.Source
	MaxTasks int    // static tasks plus instance slots after expansion
	MaxEdges int    // dependencies after expansion
	MaxBytes int    // size of a job file, parameter file or encoded graph

	// Find looks for files of inputs where a job file is read: for the regular file at
	// a path, or for all that a pattern stands for. Errors say what is wrong with one of
	// them. Without it paths are taken as they are, and patterns are mistakes.
	Find func(path string, pattern bool) ([]string, error)
}

func (o Options) withDefaults() Options {
	if o.MaxTasks <= 0 {
		o.MaxTasks = DefaultMaxTasks
	}
	if o.MaxEdges <= 0 {
		o.MaxEdges = DefaultMaxEdges
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	o.MaxTasks = min(o.MaxTasks, math.MaxInt32)
	o.MaxEdges = min(o.MaxEdges, math.MaxInt32)
	return o
}

// issue is a mistake before its place in a file is known: the group it is in
// (-1: the job) and the key under which it was written.
type issue struct {
	group   int
	key     string // "for", "in", ... or a key of the job
	sub     string // name below key, such as an input's; "" if none
	item    int    // position in a list below key or sub
	from    From   // has the place when Line is set
	message string
	hint    string
}

// pendingAxis is a `for` over the elements of a generator: whether it becomes
// an axis or a stream depends on the generator.
type pendingAxis struct {
	group, axis int // the group's axis that holds the variable's place
	from        From
}

// resolver turns a Graph's declarations into its index and collects all mistakes.
type resolver struct {
	g      *Graph
	opt    Options
	ix     *graphIndex
	ps     programs
	issues []issue
	broken []bool // groups whose number of tasks is unknown because of a mistake
	scopes []*scope
	hints  int // searches for similar names still to be made: they are not cheap in large graphs
	edges  uint64
}

// resolve checks g and builds its index. It reports every mistake it can find; those of broken parameters were.
func (g *Graph) resolve(opt Options, pending []pendingAxis, broken map[string]bool) []issue {
	r := &resolver{
		g: g, opt: opt.withDefaults(), ps: programs{}, hints: 100,
		ix:     &graphIndex{outside: &scope{params: make(map[string]any, len(g.Params)), broken: broken}},
		broken: make([]bool, len(g.Groups)),
		scopes: make([]*scope, len(g.Groups)),
	}
	for i := range g.Params {
		r.ix.outside.param(&g.Params[i])
	}
	r.names()
	r.job()
	r.bindPending(pending)
	for gi := range g.Groups {
		r.axes(gi)
		r.input(gi, &r.g.Groups[gi])
		r.session(gi, &r.g.Groups[gi])
		r.door(gi, &r.g.Groups[gi])
	}
	r.number()
	r.generators(pending)
	for gi := range g.Groups {
		r.group(gi)
	}
	r.references()
	r.exports()
	if len(r.issues) > 0 {
		r.cycles() // over the references that could be resolved
		return r.issues
	}
	r.consumers()
	r.cycles()
	if len(r.issues) > 0 {
		return r.issues
	}
	r.ix.finish(r.g)
	g.index = *r.ix
	return nil
}

func (r *resolver) report(gi int, key, sub string, err error) {
	r.reportAt(issue{group: gi, key: key, sub: sub}, err)
}

func (r *resolver) reportItem(gi int, key, sub string, item int, err error) {
	r.reportAt(issue{group: gi, key: key, sub: sub, item: item}, err)
}

func (r *resolver) reportFrom(gi int, key, sub string, item int, from From, err error) {
	r.reportAt(issue{group: gi, key: key, sub: sub, item: item, from: from}, err)
}

// reportAt reports a mistake once: not where what is one already is used.
func (r *resolver) reportAt(at issue, err error) {
	if errors.Is(err, errReported) {
		return
	}
	at.message, at.hint = splitHint(err)
	at.message = r.subject(at.group) + at.message
	r.issues = append(r.issues, at)
}

// subject starts a message with the task it is about.
func (r *resolver) subject(gi int) string {
	if gi < 0 {
		return ""
	}
	what := "task"
	if r.g.Groups[gi].IsInput() {
		what = "input"
	}
	return fmt.Sprintf("%s %q: ", what, clip(r.g.Groups[gi].Name))
}

// names checks and registers the groups' names.
func (r *resolver) names() {
	ix := r.ix
	ix.byName = make(map[string]int32, len(r.g.Groups))
	for gi := range r.g.Groups {
		grp := &r.g.Groups[gi]
		if err := checkName("a task", grp.Name); err != nil {
			r.report(gi, "", "", err)
			continue
		}
		if first, twice := ix.byName[grp.Name]; twice {
			r.report(gi, "", "", mistake("it is declared twice", "give one of them another name"))
			if r.g.Groups[first].IsInput() != grp.IsInput() {
				r.issues[len(r.issues)-1].message = fmt.Sprintf("input %q and task %q have one name", grp.Name, grp.Name)
			}
			continue
		}
		ix.byName[grp.Name] = int32(gi)
	}
	if len(r.g.Groups) == 0 {
		r.report(-1, "tasks", "", mistake("the job has no tasks", "add at least one under tasks"))
	}
}

// bindPending decides for each loop over a generator whether it is an axis
// (fixed count) or a stream (open), from the declarations alone.
func (r *resolver) bindPending(pending []pendingAxis) {
	opened := map[int]int{} // group -> axis that became a stream
	for _, p := range pending {
		grp := &r.g.Groups[p.group]
		axis := &grp.Axes[p.axis]
		out, err := r.generatorOutput(p.from.Text)
		if err != nil {
			r.reportFrom(p.group, "for", axis.Var, 0, p.from, err)
			r.broken[p.group] = true
			continue
		}
		if out.Generate == GenerateFixed {
			if out.Count > uint64(r.opt.MaxTasks) {
				r.reportFrom(p.group, "for", axis.Var, 0, p.from, r.tooMany())
				r.broken[p.group] = true
				continue
			}
			axis.N = int64(out.Count)
			continue
		}
		if _, second := opened[p.group]; second {
			r.reportFrom(p.group, "for", axis.Var, 0, p.from, mistake("a task can follow one open generator, not two", "collect the other with [*] in a task of its own"))
			r.broken[p.group] = true
			continue
		}
		if p.axis != 0 {
			r.reportFrom(p.group, "for", axis.Var, 0, p.from, mistake(fmt.Sprintf("the loop over an open generator must come first, %q comes before it", grp.Axes[0].Var), "move "+axis.Var+" to the front of for"))
			r.broken[p.group] = true
		}
		opened[p.group] = p.axis
		grp.Stream = &Stream{Var: axis.Var}
	}
	for gi, at := range opened {
		grp := &r.g.Groups[gi]
		grp.Axes = slices.Delete(slices.Clone(grp.Axes), at, at+1)
		if len(grp.Axes) == 0 {
			grp.Axes = nil
		}
	}
}

// generatorOutput finds the output that "task.output[*]" loops over. The files of an
// input, "input[*]", are as the elements of a generator whose count is known.
func (r *resolver) generatorOutput(text string) (*OutputDecl, error) {
	ref, err := parseRef(text)
	if err != nil {
		return nil, err
	}
	ti, ok := r.ix.byName[ref.group]
	if !ok {
		return nil, r.unknownTask(ref.group)
	}
	oi, err := r.output(int(ti), &ref)
	if err != nil {
		return nil, err
	}
	if n, ok := r.family(int(ti), &ref); ok {
		return &OutputDecl{Name: InputOutput, Generate: GenerateFixed, Count: uint64(n)}, nil
	}
	if grp := &r.g.Groups[ti]; grp.IsInput() {
		form := "declare it with files"
		if len(grp.Axes) > 0 {
			form = fmt.Sprintf("write %s[*]", ref.group)
		}
		return nil, mistake(fmt.Sprintf("%q does not stand for several files", text), form)
	}
	out := &r.g.Groups[ti].Outputs[oi]
	if ref.elem == nil || !ref.elem.all {
		return nil, mistake(fmt.Sprintf("%q is not a loop", text), fmt.Sprintf("write %s.%s[*]", ref.group, out.Name))
	}
	if out.Generate == GenerateNone {
		return nil, mistake(fmt.Sprintf("%s.%s is one dataset, not a series", ref.group, out.Name), "declare it under generates, or loop over a range")
	}
	return out, nil
}

// axes checks the loops of a group.
func (r *resolver) axes(gi int) {
	grp := &r.g.Groups[gi]
	sc := &scope{}
	*sc = *r.ix.outside
	r.scopes[gi] = sc
	if grp.Stream != nil {
		sc.vars = append(sc.vars, grp.Stream.Var)
	}
	for i := range grp.Axes {
		sc.vars = append(sc.vars, grp.Axes[i].Var)
	}
	if len(sc.vars) > maxAxes {
		r.report(gi, "for", "", fmt.Errorf("%d loops: at most %d are allowed", len(sc.vars), maxAxes))
		r.broken[gi] = true
	}
	for i, v := range sc.vars {
		if err := checkVariable("a loop variable", v); err != nil {
			r.report(gi, "for", v, err)
		}
		if slices.Index(sc.vars, v) != i {
			r.report(gi, "for", v, mistake(fmt.Sprintf("loop variable %q is declared twice", v), "give one of them another name"))
		}
	}
	for i := range grp.Axes {
		if err := checkAxis(&grp.Axes[i]); err != nil {
			r.report(gi, "for", grp.Axes[i].Var, err)
			r.broken[gi] = true
		}
	}
}

// checkAxis checks the values of a loop: distinct, and fit for a task's name.
func checkAxis(a *Axis) error {
	if a.Values == nil {
		if a.N < 0 || a.N > math.MaxInt32 || a.First > 1<<53 || a.First < -1<<53 {
			return mistake(fmt.Sprintf("a range of %d values from %d cannot be counted", a.N, a.First), "keep both ends within -2^53 and 2^53")
		}
		return nil
	}
	seen := make(map[string]struct{}, len(a.Values))
	for _, v := range a.Values {
		switch x := v.(type) {
		case int64:
		case string:
			if len(x) > maxNameLen {
				return mistake(fmt.Sprintf("loop value %q has %d bytes and cannot be part of a task's name", clip(x), len(x)), fmt.Sprintf("use text of at most %d bytes", maxNameLen))
			}
			if x == "" || x == "*" || strings.ContainsAny(x, "[],${}\"'`\\\n\r\t") || strings.TrimSpace(x) != x {
				return mistake(fmt.Sprintf("loop value %q cannot be part of a task's name", clip(x)), "use text without brackets, commas, quotes, $ and outer spaces")
			}
			if err := checkText(x); err != nil {
				return err
			}
		default:
			return mistake(fmt.Sprintf("loop value %s is a %s", quoteValue(v), kindOf(v)), "loop over whole numbers or text; for other values loop over positions and write ${params.NAME[i]}")
		}
		text, err := valueText(v)
		if err != nil {
			return err
		}
		if _, twice := seen[text]; twice {
			return mistake(fmt.Sprintf("loop value %q is there twice", text), "remove one of them")
		}
		seen[text] = struct{}{}
	}
	return nil
}

func (r *resolver) tooMany() error {
	return mistake(fmt.Sprintf("the job would expand to more than %d tasks", r.opt.MaxTasks), "loop over fewer values, or raise the limit on tasks")
}

// number gives each group its range of tasks or slots. A group that would
// exceed the limit is left out, so that the rest can still be checked.
func (r *resolver) number() {
	ix := r.ix
	ix.groups = make([]groupIndex, len(r.g.Groups))
	ix.single = true
	total := uint64(0)
	for gi := range r.g.Groups {
		grp := &r.g.Groups[gi]
		size := uint64(1)
		for i := range grp.Axes {
			size *= uint64(max(grp.Axes[i].Len(), 0))
			if size > uint64(r.opt.MaxTasks) {
				break
			}
		}
		if !r.broken[gi] && total+size > uint64(r.opt.MaxTasks) {
			r.report(gi, "for", "", r.tooMany())
			r.broken[gi] = true
		}
		if r.broken[gi] {
			size = 0
		}
		total += size
		start := &ix.tasks
		if grp.Stream != nil {
			start = &ix.slots
			for range size {
				ix.slotGroup = append(ix.slotGroup, int32(gi))
			}
		} else {
			ix.staticStart = append(ix.staticStart, uint32(ix.tasks))
			ix.staticGroup = append(ix.staticGroup, int32(gi))
			ix.single = ix.single && size == 1
		}
		ix.groups[gi] = groupIndex{start: uint32(*start), size: uint32(size)}
		*start += int(size)
		ix.indexValues(gi, grp)
	}
}

// generators finds the task behind each stream.
func (r *resolver) generators(pending []pendingAxis) {
	for _, p := range pending {
		grp := &r.g.Groups[p.group]
		if grp.Stream == nil || r.broken[p.group] || p.axis != 0 {
			continue
		}
		ref, err := parseRef(p.from.Text)
		if err != nil {
			continue // reported by bindPending
		}
		task, output, err := r.streamSource(&ref)
		if err != nil {
			r.reportFrom(p.group, "for", grp.Stream.Var, 0, p.from, err)
			r.broken[p.group] = true
			continue
		}
		grp.Stream.Generator, grp.Stream.Output = task, output
	}
	for gi := range r.g.Groups {
		st := r.g.Groups[gi].Stream
		if st == nil || r.broken[gi] {
			continue
		}
		if err := r.checkStream(st); err != nil {
			r.report(gi, "for", st.Var, err)
			r.broken[gi] = true
		}
	}
}

// streamSource resolves the generator of a stream, which is one task.
func (r *resolver) streamSource(ref *ref) (TaskIndex, uint32, error) {
	ti := int(r.ix.byName[ref.group])
	if r.g.Groups[ti].Stream != nil {
		return 0, 0, nestedStream(ref.group)
	}
	t := &target{group: ti}
	if err := r.bindIndex(t, ref, r.ix.outside); err != nil {
		return 0, 0, err
	}
	for _, s := range t.index {
		if s.tpl != nil || s.all {
			return 0, 0, mistake("a loop over an open generator follows one task", fmt.Sprintf("name one: %s", r.indexForm(ti)))
		}
	}
	oi, err := r.output(ti, ref)
	if err != nil {
		return 0, 0, err
	}
	if r.ix.groups[ti].size == 0 {
		return 0, 0, fmt.Errorf("%s has no tasks", ref.group)
	}
	local, _, err := r.offsets(t, nil, nil)
	if err != nil {
		return 0, 0, err
	}
	return TaskIndex(r.ix.groups[ti].start + local), oi, nil
}

func nestedStream(name string) error {
	return mistake(fmt.Sprintf("%s has itself a task for each element of an open generator: streams cannot be nested", name),
		"collect its elements with [*] in one task, or give the inner generator a fixed count")
}

// checkStream checks what Decode and Builder may bring.
func (r *resolver) checkStream(st *Stream) error {
	if int64(st.Generator) >= int64(r.ix.tasks) {
		return fmt.Errorf("the loop follows task %d of %d", st.Generator, r.ix.tasks)
	}
	grp := &r.g.Groups[r.ix.groupOfNode(uint32(st.Generator))]
	if int64(st.Output) >= int64(len(grp.Outputs)) || grp.Outputs[st.Output].Generate != GenerateOpen {
		return fmt.Errorf("the loop follows output %d of %s, which is not an open generator", st.Output, grp.Name)
	}
	return nil
}
