package memo

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// definition compares what a task is by itself, without what it reads.
func (c *comparison) definition(t, from dag.TaskIndex) string {
	was, is := c.old.Graph.Group(from), c.now.Graph.Group(t)
	if was.Run.Function != is.Run.Function {
		return changed("its function", was.Run.Function, is.Run.Function)
	}
	if is.IsInput() {
		return c.input(t, from)
	}
	if text := c.parameters(was, is); text != "" && !c.equalValues(t, from) {
		return text
	}
	for _, compare := range []func(t, from dag.TaskIndex) string{c.command, c.fields, c.outputs, c.environment, c.files} {
		if text := compare(t, from); text != "" {
			return text
		}
	}
	return ""
}

// input compares what two tasks of inputs read. Where files lie does not matter when
// it is known that they are equal.
func (c *comparison) input(t, from dag.TaskIndex) string {
	was, _ := c.old.Graph.FileOf(from)
	is, _ := c.now.Graph.FileOf(t)
	switch {
	case was.SHA256 == is.SHA256 && is.SHA256 != "":
		return ""
	case was.String() != is.String():
		return changed("its file", was.String(), is.String())
	case was.SHA256 == is.SHA256:
		return "" // a URL, whose content was not stated
	case was.SHA256 == "" || is.SHA256 == "":
		return changed("its SHA-256", was.SHA256, is.SHA256)
	}
	return is.String() + " has changed"
}

// changed says that something is not what it was; longer values are left out.
func changed(what, was, is string) string {
	const most = 40
	switch {
	case was == "":
		return fmt.Sprintf("%s is %s, there was none", what, clip(is, most))
	case is == "":
		return fmt.Sprintf("%s was %s, there is none", what, clip(was, most))
	case len(was) > most || len(is) > most:
		return what + " is another"
	}
	return fmt.Sprintf("%s was %s, is %s", what, was, is)
}

func clip(s string, n int) string {
	if len(s) > n {
		return s[:n] + "..."
	}
	return s
}

// parameters names the first parameter of the job that has another value and that
// the task mentions, as long as the task says the same otherwise.
func (c *comparison) parameters(was, is *dag.Group) string {
	if !reflect.DeepEqual(was.Run, is.Run) || !reflect.DeepEqual(was.With, is.With) || !reflect.DeepEqual(was.Env, is.Env) {
		return ""
	}
	said := fmt.Sprint(is.Run.Command, is.With, is.Env)
	for i := range c.now.Graph.Params {
		p := &c.now.Graph.Params[i]
		k := slices.IndexFunc(c.old.Graph.Params, func(o dag.Param) bool { return o.Name == p.Name })
		if k < 0 || !strings.Contains(said, "params."+p.Name) || c.old.Graph.Params[k].Text() == p.Text() {
			continue
		}
		return changed("parameter "+p.Name, c.old.Graph.Params[k].Text(), p.Text())
	}
	return ""
}

// equalValues tells whether all that parameters decide has the same values after all.
func (c *comparison) equalValues(t, from dag.TaskIndex) bool {
	return c.command(t, from) == "" && c.fields(t, from) == ""
}

func (c *comparison) command(t, from dag.TaskIndex) string {
	a, b := &c.old.Graph.Group(from).Run, &c.now.Graph.Group(t).Run
	was, err1 := c.old.Graph.Command(from)
	is, err2 := c.now.Graph.Command(t)
	switch {
	case err1 != nil || err2 != nil:
		return "its command cannot be compared"
	case len(was) == 0 && len(is) > 0:
		return "it is a command, it was a function"
	case !slices.EqualFunc(was, is, func(x, y dag.Arg) bool { return x.String() == y.String() }):
		return changed("its command", words(was), words(is))
	case a.Stdin != b.Stdin:
		return changed("its stdin", a.Stdin, b.Stdin)
	case a.Stdout != b.Stdout:
		return changed("its stdout", a.Stdout, b.Stdout)
	}
	return ""
}

func words(args []dag.Arg) string {
	var all []string
	for _, a := range args {
		all = append(all, a.String())
	}
	return strings.Join(all, " ")
}

// fields compares parameters and environment variables of the task, with their values.
func (c *comparison) fields(t, from dag.TaskIndex) string {
	for _, kind := range []struct {
		name string
		of   func(*dag.Graph, dag.TaskIndex) ([]dag.Field, error)
	}{{"with", (*dag.Graph).With}, {"env", (*dag.Graph).EnvVars}} {
		was, err1 := kind.of(c.old.Graph, from)
		is, err2 := kind.of(c.now.Graph, t)
		if err1 != nil || err2 != nil {
			return "its parameters cannot be compared"
		}
		if text := differ(kind.name, was, is); text != "" {
			return text
		}
	}
	return ""
}

func differ(kind string, was, is []dag.Field) string {
	value := func(all []dag.Field, name string) (any, bool) {
		for _, f := range all {
			if f.Name == name {
				return f.Value, true
			}
		}
		return nil, false
	}
	for _, f := range is {
		old, ok := value(was, f.Name)
		if !ok {
			return changed(kind+" "+f.Name, "", fmt.Sprint(f.Value))
		}
		if !reflect.DeepEqual(old, f.Value) {
			return changed(kind+" "+f.Name, fmt.Sprint(old), fmt.Sprint(f.Value))
		}
	}
	for _, f := range was {
		if _, ok := value(is, f.Name); !ok {
			return changed(kind+" "+f.Name, fmt.Sprint(f.Value), "")
		}
	}
	return ""
}

func (c *comparison) outputs(t, from dag.TaskIndex) string {
	same := slices.EqualFunc(c.old.Graph.Group(from).Outputs, c.now.Graph.Group(t).Outputs, func(a, b dag.OutputDecl) bool {
		return a.Name == b.Name && a.Generate == b.Generate && a.Count == b.Count
	})
	if !same {
		return "its outputs are others"
	}
	return ""
}

// environment compares what the task runs in.
func (c *comparison) environment(t, from dag.TaskIndex) string {
	was, is := c.old.Graph.Group(from).Run.Environment, c.now.Graph.Group(t).Run.Environment
	if was != is {
		return changed("its environment", was, is)
	}
	if is == "" {
		if c.now.Graph.Group(t).Run.Function == "" {
			return ""
		}
		return c.content(Program)
	}
	a, b := environmentOf(c.old.Graph, is), environmentOf(c.now.Graph, is)
	if !reflect.DeepEqual(settings(a), settings(b)) {
		return "environment " + is + " has changed"
	}
	if Outside(&b) {
		if text := c.content(Environment + is); text != "" {
			return text
		}
	}
	if !maps.Equal(a.Vars, b.Vars) {
		return "variables of environment " + is + " have changed"
	}
	return ""
}

// content compares what both jobs noted under a name.
func (c *comparison) content(name string) string {
	switch was, is := c.was[name], c.is[name]; {
	case was == "" || is == "":
		return "it is not known what " + name + " was"
	case was != is:
		return name + " has changed"
	}
	return ""
}

func environmentOf(g *dag.Graph, name string) dag.Environment {
	for i := range g.Environments {
		if g.Environments[i].Name == name {
			return g.Environments[i]
		}
	}
	return dag.Environment{}
}

// settings is an environment without its variables, and without the folder at which its paths begin.
func settings(e dag.Environment) dag.Environment {
	e.Vars, e.Source = nil, ""
	return e
}

// Outside tells whether an environment rests on something that its graph does not say: a file of a
// host that travels in no package, an image, or what a plugin finds.
func Outside(e *dag.Environment) bool {
	if e.Go != "" || e.Container != nil || len(e.Plugins) > 0 {
		return true
	}
	if p := e.Python; p != nil && (p.Wheels != "" || slices.ContainsFunc(p.Pip, func(r string) bool { return strings.Contains(r, "file:") })) {
		return true
	}
	paths := append([]string{e.Binary, e.WorkingDir}, e.PyModules...)
	for _, b := range e.Binaries {
		paths = append(paths, b.Path)
	}
	return slices.ContainsFunc(paths, func(path string) bool {
		_, sealed := dag.ParsePackage(path)
		return path != "" && !sealed
	})
}

// files compares the files that the task names, which are the same names by now.
func (c *comparison) files(t, _ dag.TaskIndex) (text string) {
	named(c.now.Graph, t, func(path string) bool {
		was, is := c.was[File+path], c.is[File+path]
		switch {
		case was == is:
			return true
		case was == "":
			text = "file " + path + " was not there"
		case is == "":
			text = "file " + path + " is gone"
		default:
			text = "file " + path + " has changed"
		}
		return false
	})
	return text
}

// Names of contents.
const (
	Program     = "program"      // of functions without an environment
	File        = "file "        // and the path as the job names it
	Environment = "environment " // and its name: of those that are Outside
	Noted       = "noted"        // says that all others are there
)

// Files calls yield with each text of a graph that may be the path of a file,
// once, until it returns false: words of commands, and texts of parameters and
// variables. Of a task that follows an open generator it is those of the first element.
func Files(g *dag.Graph, yield func(path string) bool) {
	seen, more := map[string]bool{}, true
	one := func(t dag.TaskIndex) {
		named(g, t, func(path string) bool {
			if !seen[path] {
				seen[path] = true
				more = yield(path)
			}
			return more
		})
	}
	for t := dag.TaskIndex(0); more && int(t) < g.NumTasks(); t++ {
		one(t)
	}
	for slot := 0; more && slot < g.NumSlots(); slot++ {
		if i, err := g.Instance(slot, 0); err == nil {
			one(i)
		}
	}
}

// named calls yield with each text of a task that may be a path, until it returns false.
func named(g *dag.Graph, t dag.TaskIndex, yield func(string) bool) {
	if _, ok := g.FileOf(t); ok {
		return // the job says what it holds
	}
	command, err := g.Command(t)
	if err != nil {
		return
	}
	for _, word := range command {
		var b strings.Builder
		for _, part := range word {
			if part.Kind == dag.ArgText {
				b.WriteString(part.Text)
			} else {
				b.WriteByte(0) // a dataset stands here: no file has such a name
			}
		}
		if !paths(b.String(), yield) {
			return
		}
	}
	for _, of := range []func(dag.TaskIndex) ([]dag.Field, error){g.With, g.EnvVars} {
		fields, err := of(t)
		if err != nil {
			continue
		}
		for _, f := range fields {
			if !texts(f.Value, yield) {
				return
			}
		}
	}
}

// texts calls yield with what may be a path in a value.
func texts(v any, yield func(string) bool) bool {
	switch v := v.(type) {
	case string:
		return paths(v, yield)
	case []any:
		for _, x := range v {
			if !texts(x, yield) {
				return false
			}
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if !texts(v[k], yield) {
				return false
			}
		}
	}
	return true
}

const maxPath = 4096

// paths calls yield with what may be a path in a text: all of it, and, when it has
// what a shell takes for a separator, its parts. A path after > is written.
func paths(text string, yield func(string) bool) bool {
	ok := func(s string) bool { return s == "" || len(s) > maxPath || strings.ContainsRune(s, 0) || yield(s) }
	const separators = " \t\n\"'<>|&;()="
	if !ok(text) {
		return false
	}
	if !strings.ContainsAny(text, separators) {
		return true
	}
	written := false
	for rest := text; rest != ""; {
		i := strings.IndexAny(rest, separators)
		word, sep := rest, byte(0)
		if i >= 0 {
			word, sep, rest = rest[:i], rest[i], rest[i+1:]
		} else {
			rest = ""
		}
		if word != "" {
			if !written && !ok(word) {
				return false
			}
			written = false
		}
		written = sep == '>' || written && sep != ';' && sep != '|'
	}
	return true
}

// Sorted sorts contents by name.
func Sorted(all []comms.Content) []comms.Content {
	slices.SortFunc(all, func(a, b comms.Content) int { return strings.Compare(a.Name, b.Name) })
	return all
}
