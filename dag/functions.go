package dag

import (
	"fmt"
	"slices"
	"strings"
)

// Functions are what an executor can run: the signature of each function by its
// name, as the executor tells it:
//
//	(values array f64, parts list of raw, with {n int; label string?}) -> (mean msgpack float64)
//	(with {n int}) -> (series of field array f64)
//
// Of a signature in another form nothing is known, and nothing is refused.
type Functions map[string]string

// AnyFunction in place of a name says that the executor finds functions when they
// are first called, as Python does: of those that have no name here nothing is known.
const AnyFunction = "*"

// Check tells why tasks of a group cannot run where these functions are, and what
// to write instead: the function is not there, or has other inputs, outputs or
// parameters. Both are "" when they can, and for commands and inputs. where names the executor.
func (fs Functions) Check(g *Group, where string) (message, hint string) {
	return fs.check(g, where, parseSignature)
}

// Checker returns Check for many groups: it takes each signature apart once. It
// belongs to one goroutine.
func (fs Functions) Checker() func(g *Group, where string) (message, hint string) {
	type parsed struct {
		signature
		ok bool
	}
	known := map[string]parsed{}
	return func(g *Group, where string) (message, hint string) {
		return fs.check(g, where, func(text string) (signature, bool) {
			p, found := known[text]
			if !found {
				p.signature, p.ok = parseSignature(text)
				known[text] = p
			}
			return p.signature, p.ok
		})
	}
}

func (fs Functions) check(g *Group, where string, parse func(text string) (signature, bool)) (message, hint string) {
	name := g.Run.Function
	if g.Run.Command != nil || g.IsInput() || g.IsSession() || g.IsDoor() {
		return "", ""
	}
	sig, ok := fs[name]
	if _, open := fs[AnyFunction]; !ok && open {
		return "", ""
	}
	if !ok {
		return fmt.Sprintf("function %s is not registered in %s", name, where), nearest(name, fs.names(), fs.known(g.Run))
	}
	f, ok := parse(sig)
	if !ok {
		return "", ""
	}
	var wrong, hints []string
	bad := func(hint, format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf(format, args...))
		if hint != "" && !slices.Contains(hints, hint) {
			hints = append(hints, hint)
		}
	}
	f.checkInputs(g, bad)
	f.checkOutputs(g, bad)
	if len(wrong) > 0 {
		wrong = []string{fmt.Sprintf("function %s does not fit the job: %s; it is %s%s", name, strings.Join(wrong, ", "), name, sig)}
	}
	f.checkWith(g, bad)
	return strings.Join(wrong, "; "), strings.Join(hints, " ")
}

// ownFunctions is how the names of functions begin that Cascade's own programs have
// for themselves, such as those that cascade perf measures.
const ownFunctions = "cascade-"

// names are those that are told to users, sorted.
func (fs Functions) names() []string {
	out := make([]string, 0, len(fs))
	for n := range fs {
		if !strings.HasPrefix(n, ownFunctions) {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// knownNames bounds how many functions an error lists.
const knownNames = 20

// known says of a function that is not there which are, and where others come from.
// The executor is none of Python's, which looks for a function when it is called.
func (fs Functions) known(r Run) string {
	python := "a Python function needs environments: in the job file and run: ENVIRONMENT:FUNCTION"
	if r.Environment != "" {
		python = fmt.Sprintf("a Python function needs python: {} in environment %s", r.Environment)
	}
	names := fs.names()
	switch {
	case len(names) == 0:
		return "it has no functions, only commands; " + python + ", a Go function an environment whose package registers it"
	case len(names) > knownNames:
		names = append(names[:knownNames], "...")
	}
	text := "it has " + strings.Join(names, ", ")
	if strings.Contains(r.Function, ".") { // MODULE.FUNCTION
		text += "; " + python
	}
	return text
}

// signature is a function's text taken apart.
type signature struct {
	inputs, outputs []sigPort
	takesWith       bool
	with            string   // as written
	fields          []string // of with
	required        []string // of them
	series          bool
}

type sigPort struct {
	name string
	list bool
}

func names(ports []sigPort) (out []string) {
	for _, p := range ports {
		out = append(out, p.name)
	}
	return out
}

func (f *signature) checkInputs(g *Group, bad func(hint, format string, args ...any)) {
	for _, in := range g.Inputs {
		at := slices.IndexFunc(f.inputs, func(p sigPort) bool { return p.name == in.Name })
		if at < 0 {
			bad(nearest(in.Name, names(f.inputs), ""), "it has no input %q", in.Name)
		} else if in.List != f.inputs[at].list {
			bad("", "%s", ListDiffers(in.Name, in.List))
		}
	}
	for _, p := range f.inputs {
		if !slices.ContainsFunc(g.Inputs, func(in InputDecl) bool { return in.Name == p.name }) {
			bad("", "input %q is missing", p.name)
		}
	}
}

func (f *signature) checkOutputs(g *Group, bad func(hint, format string, args ...any)) {
	for _, out := range g.Outputs {
		series := out.Generate != GenerateNone
		if !slices.ContainsFunc(f.outputs, func(p sigPort) bool { return p.name == out.Name }) {
			bad(nearest(out.Name, names(f.outputs), ""), "it has no output %q", out.Name)
		} else if series != f.series {
			bad("", "%s", SeriesDiffers(out.Name, series))
		}
	}
}

func (f *signature) checkWith(g *Group, bad func(hint, format string, args ...any)) {
	if !f.takesWith {
		if len(g.With) > 0 {
			bad("", "the job gives parameters (with:), function %s takes none", g.Run.Function)
		}
		return
	}
	for _, name := range f.required {
		if !slices.ContainsFunc(g.With, func(w Field) bool { return w.Name == name }) {
			bad("", "with.%s is missing: the function takes %s", name, f.with)
		}
	}
	for _, w := range g.With {
		if !slices.Contains(f.fields, w.Name) {
			bad(nearest(w.Name, f.fields, ""), "with.%s is not a parameter of the function: it takes %s", w.Name, f.with)
		}
	}
}

// ListDiffers says that an input is a list in the job, or is not, and that the
// function has it the other way.
func ListDiffers(input string, list bool) string {
	words := map[bool]string{true: "a list", false: "one dataset"}
	return fmt.Sprintf("input %q is %s in the job and %s in the function", input, words[list], words[!list])
}

// SeriesDiffers says that an output is generated in the job, or is not, and that
// the function has it the other way.
func SeriesDiffers(output string, series bool) string {
	words := map[bool]string{true: "a series (generates)", false: "one dataset (out)"}
	return fmt.Sprintf("output %q is %s in the job and %s in the function", output, words[series], words[!series])
}

// parseSignature reads what an executor's Hello says of a function.
func parseSignature(text string) (f signature, ok bool) {
	in, rest, ok := cutBrackets(text)
	if !ok {
		return f, false
	}
	rest, ok = strings.CutPrefix(rest, " -> ")
	if !ok {
		return f, false
	}
	out, rest, ok := cutBrackets(rest)
	if !ok || rest != "" {
		return f, false
	}
	for _, part := range splitOutside(in, ',') {
		name, what, found := strings.Cut(part, " ")
		switch {
		case !found:
			return f, false
		case name == "with":
			if f.takesWith = true; !f.parseWith(what) {
				return f, false
			}
		default:
			f.inputs = append(f.inputs, sigPort{name, strings.HasPrefix(what, "list of ")})
		}
	}
	if rest, series := strings.CutPrefix(out, "series of "); series {
		out, f.series = rest, true
	}
	for _, part := range splitOutside(out, ',') {
		name, _, found := strings.Cut(part, " ")
		if !found {
			return f, false
		}
		f.outputs = append(f.outputs, sigPort{name: name})
	}
	return f, true
}

func (f *signature) parseWith(text string) bool {
	f.with = text
	inner, ok := strings.CutPrefix(text, "{")
	if !ok || !strings.HasSuffix(inner, "}") {
		return false
	}
	for _, part := range splitOutside(strings.TrimSuffix(inner, "}"), ';') {
		name, what, found := strings.Cut(part, " ")
		if !found {
			return false
		}
		f.fields = append(f.fields, name)
		if !strings.HasSuffix(what, "?") {
			f.required = append(f.required, name)
		}
	}
	return true
}

// cutBrackets returns what stands between the round brackets that text begins
// with, and what follows them.
func cutBrackets(text string) (inner, rest string, ok bool) {
	depth := 0
	for i := range len(text) {
		depth += nesting(text[i])
		if i == 0 && depth != 1 {
			return "", "", false
		}
		if depth == 0 {
			return text[1:i], text[i+1:], true
		}
	}
	return "", "", false
}

// splitOutside splits at sep where it stands in no brackets.
func splitOutside(text string, sep byte) (parts []string) {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	depth, from := 0, 0
	for i := range len(text) {
		depth += nesting(text[i])
		if text[i] == sep && depth == 0 {
			parts = append(parts, strings.TrimSpace(text[from:i]))
			from = i + 1
		}
	}
	return append(parts, strings.TrimSpace(text[from:]))
}

func nesting(c byte) int {
	switch c {
	case '(', '{', '[':
		return 1
	case ')', '}', ']':
		return -1
	}
	return 0
}
