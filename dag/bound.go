package dag

import "fmt"

// boundGroup holds the compiled placeholders of a group's texts; fields
// without placeholders are nil and served from the group as they are.
type boundGroup struct {
	sc      *scope
	with    []any
	env     []any
	command [][]*expression // parallel to the command's words and parts
}

// bindTexts compiles a group's placeholders and tries them on its first task,
// so that most mistakes of type show before the job runs.
func (r *resolver) bindTexts(gi int, grp *Group) {
	b := &boundGroup{sc: r.scopes[gi]}
	row := &groupRow{group: grp}
	try := !r.broken[gi] && r.ix.groups[gi].size > 0
	for _, part := range []struct {
		key    string
		fields []Field
		bound  *[]any
	}{{"with", grp.With, &b.with}, {"env", grp.Env, &b.env}} {
		if !fieldsHavePlaceholder(part.fields) {
			continue
		}
		*part.bound = make([]any, len(part.fields))
		for i, f := range part.fields {
			v, err := r.ps.bind(f.Value, b.sc)
			if err == nil && try {
				_, err = evalBound(v, b.sc, row)
			}
			if err != nil {
				r.report(gi, part.key, f.Name, fmt.Errorf("%s %s: %w", part.key, f.Name, err))
			}
			(*part.bound)[i] = v
		}
	}
	if commandHasExpr(grp.Run.Command) {
		b.command = make([][]*expression, len(grp.Run.Command))
		for wi, word := range grp.Run.Command {
			b.command[wi] = make([]*expression, len(word))
			for pi, p := range word {
				if p.Kind != ArgExpr {
					continue
				}
				e, err := r.ps.compile(p.Text, b.sc)
				if err == nil && try {
					_, err = e.text(b.sc, row)
				}
				if err != nil {
					r.reportItem(gi, "command", "", wi, fmt.Errorf("command: %w", err))
				}
				b.command[wi][pi] = e
			}
		}
	}
	if b.with == nil && b.env == nil && b.command == nil {
		return
	}
	if r.ix.bound == nil {
		r.ix.bound = map[int32]*boundGroup{}
	}
	r.ix.bound[int32(gi)] = b
}

func fieldsHavePlaceholder(fs []Field) bool {
	for i := range fs {
		if valueHasPlaceholder(fs[i].Value) {
			return true
		}
	}
	return false
}

func commandHasExpr(words []Arg) bool {
	for _, w := range words {
		for _, p := range w {
			if p.Kind == ArgExpr {
				return true
			}
		}
	}
	return false
}

// With returns the parameters of a task or instance, placeholders replaced; nil
// when there are none. The caller does not change the result.
func (g *Graph) With(i TaskIndex) ([]Field, error) {
	if g.valid(i) {
		if f, ok := g.FileOf(i); ok {
			return f.fields(), nil
		}
	}
	if !g.valid(i) {
		return nil, fmt.Errorf("with: task %d of %d", i, g.index.tasks)
	}
	gi, row := g.row(i)
	fields := row.group.With
	b := g.index.bound[int32(gi)]
	if b == nil || b.with == nil {
		return fields, nil
	}
	out := make([]Field, len(fields))
	for k, v := range b.with {
		value, err := evalBound(v, b.sc, &row)
		if err != nil {
			return nil, fmt.Errorf("with %s of %s: %w", fields[k].Name, row.name(), err)
		}
		out[k] = Field{Name: fields[k].Name, Value: value}
	}
	return out, nil
}

// EnvVars returns the environment variables of a task or instance, placeholders
// replaced; the values are strings. The caller does not change the result.
func (g *Graph) EnvVars(i TaskIndex) ([]Field, error) {
	if !g.valid(i) {
		return nil, fmt.Errorf("env: task %d of %d", i, g.index.tasks)
	}
	gi, row := g.row(i)
	fields := row.group.Env
	if len(fields) == 0 {
		return nil, nil
	}
	b := g.index.bound[int32(gi)]
	out := make([]Field, len(fields))
	for k, f := range fields {
		var text string
		var err error
		if b != nil && b.env != nil {
			text, err = evalText(b.env[k], b.sc, &row)
		} else {
			text, err = valueText(f.Value)
		}
		if err != nil {
			return nil, fmt.Errorf("env %s of %s: %w", f.Name, row.name(), err)
		}
		out[k] = Field{Name: f.Name, Value: text}
	}
	return out, nil
}

// Command returns the command line of a task or instance, ArgExpr parts
// replaced by text; nil for a function. The caller does not change the result.
func (g *Graph) Command(i TaskIndex) ([]Arg, error) {
	if !g.valid(i) {
		return nil, fmt.Errorf("command: task %d of %d", i, g.index.tasks)
	}
	gi, row := g.row(i)
	words := row.group.Run.Command
	b := g.index.bound[int32(gi)]
	if b == nil || b.command == nil {
		return words, nil
	}
	out := make([]Arg, len(words))
	for wi, word := range words {
		out[wi] = make(Arg, len(word))
		for pi, p := range word {
			if e := b.command[wi][pi]; e != nil {
				s, err := e.text(b.sc, &row)
				if err != nil {
					return nil, fmt.Errorf("command of %s: %w", row.name(), err)
				}
				p = ArgPart{Kind: ArgText, Text: s}
			}
			out[wi][pi] = p
		}
	}
	return out, nil
}

// finish derives what needs a valid graph.
func (ix *graphIndex) finish(g *Graph) {
	for gi := range g.Groups {
		st := g.Groups[gi].Stream
		if st == nil {
			continue
		}
		if ix.streams == nil {
			ix.streams = map[streamKey][]int{}
		}
		key := streamKey{st.Generator, st.Output}
		for local := range int(ix.groups[gi].size) {
			ix.streams[key] = append(ix.streams[key], int(ix.groups[gi].start)+local)
		}
	}
}
