package pysource

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cascade-run/cascade/dag"
)

// Mistake is something in a task that its function does not admit, or in an environment.
type Mistake struct {
	Task        string   // of the job file; "" when it is one of an environment
	Environment string   // of the job file, when it is one of an environment
	Keys        []string // what is wrong, from the task or environment on: "run", or "in" and the name of an input
	Message     string
	Hint        string // what to write instead; may be empty
}

// Check finds the mistakes of a job whose relative paths are seen from dir. unread are
// the tasks whose functions it could not look at, by the order of the job file; all
// tasks of Python where this host has no Python that reads: err says why.
func Check(ctx context.Context, g *dag.Graph, dir string) (found []Mistake, unread []string, err error) {
	for i := range g.Environments {
		found = append(found, twice(g, &g.Environments[i], dir)...)
	}
	targets := map[int]target{}
	var files []string
	for i := range g.Groups {
		if e := environment(g, &g.Groups[i]); e != nil {
			in, all := places(e, dir)
			if name := g.Groups[i].Run.Function; !strings.Contains(name, ".") {
				found = append(found, Mistake{Task: g.Groups[i].Name, Keys: []string{"run"}, Message: fmt.Sprintf("%s:%s names no Python function", e.Name, name),
					Hint: fmt.Sprintf("write ENVIRONMENT:MODULE.FUNCTION, such as %s:%s.FUNCTION", e.Name, name)})
				continue
			}
			t := find(in, all, g.Groups[i].Run.Function)
			targets[i], files = t, append(files, t.files...)
		}
	}
	if len(targets) == 0 {
		return found, nil, nil
	}
	slices.Sort(files)
	said, err := scan(ctx, slices.Compact(files))
	for i := range g.Groups {
		grp := &g.Groups[i]
		t, ok := targets[i]
		if !ok {
			continue
		}
		some, sure := said.check(g, grp, t, dir)
		if err != nil || !sure {
			unread = append(unread, grp.Name)
			continue
		}
		found = append(found, some...)
	}
	return found, unread, err
}

// Tasks lists the tasks that call functions of Python, by the order of the job file.
func Tasks(g *dag.Graph) (names []string) {
	for i := range g.Groups {
		if environment(g, &g.Groups[i]) != nil {
			names = append(names, g.Groups[i].Name)
		}
	}
	return names
}

// environment returns that of a group whose function is one of Python, nil for others.
func environment(g *dag.Graph, grp *dag.Group) *dag.Environment {
	if grp.IsInput() || grp.Run.Command != nil {
		return nil
	}
	k := slices.IndexFunc(g.Environments, func(e dag.Environment) bool { return e.Name == grp.Run.Environment })
	if k < 0 || g.Environments[k].Python == nil {
		return nil
	}
	return &g.Environments[k]
}

//go:embed scan.py
var script string

// scanTime bounds what reading the modules may take: the job can do without.
const scanTime = 30 * time.Second

// answer is what scan.py writes.
type answer struct {
	Files    map[string]*source `json:"files"`
	Standard []string           `json:"standard"` // modules of Python itself
}

// source is what a file defines.
type source struct {
	Names   map[string]*signature `json:"names"`   // nil: something, not known what it takes
	Dynamic bool                  `json:"dynamic"` // it may have any name
	Changes bool                  `json:"changes"` // it writes to what it has imported
}

// signature is how a function may be called.
type signature struct {
	Line   int      `json:"line"`
	Text   string   `json:"text"`
	Takes  []string `json:"takes"`
	Needs  []string `json:"needs"`
	Any    bool     `json:"any"`
	Yields bool     `json:"yields"`
	Async  bool     `json:"async"`
}

// scan has a Python of this host read files.
func scan(ctx context.Context, files []string) (a answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, scanTime)
	defer cancel()
	paths, err := json.Marshal(append([]string{}, files...))
	if err != nil {
		return a, fmt.Errorf("name the modules: %w", err)
	}
	first, _, _ := strings.Cut(os.Getenv("CASCADE_PYTHON"), string(filepath.ListSeparator))
	cmd := exec.CommandContext(ctx, cmp.Or(first, "python3"), "-I", "-S", "-c", script)
	cmd.Stdin, cmd.WaitDelay = bytes.NewReader(paths), time.Second
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &a)
	}
	if err != nil {
		return a, fmt.Errorf("read the modules: %w", err)
	}
	return a, nil
}

// check compares a group with its function; sure is false when it could not be looked at.
func (a *answer) check(g *dag.Graph, grp *dag.Group, t target, dir string) (found []Mistake, sure bool) {
	if t.dark {
		return nil, false
	}
	at := func(hint, message string, keys ...string) Mistake {
		return Mistake{Task: grp.Name, Keys: keys, Message: message, Hint: hint}
	}
	e := environment(g, grp)
	if len(t.files) == 0 {
		if !a.alone(e, t.name) {
			return nil, false
		}
		in, _ := places(e, dir)
		return []Mistake{at(cmp.Or(beside(e, dir, t.name), dag.DidYouMean(t.name, modules(in)), "name its folder or file under py_modules of the environment, or its package under pip"),
			fmt.Sprintf("there is no module %s in environment %s", t.name, e.Name), "run")}, true
	}
	file := t.files[len(t.files)-1]
	for _, f := range t.files {
		if s := a.Files[f]; s == nil || s.Dynamic || s.Changes && f != file {
			return nil, false
		}
	}
	s, name := a.Files[file], strings.Join(t.rest, ".")
	sig, ok := s.Names[name]
	switch {
	case !ok && s.open(t.rest):
		return nil, false
	case !ok:
		return []Mistake{at(s.offer(name, t.modules()), fmt.Sprintf("module %s (%s) has no function %s", t.name, shown(file, dir), name), "run")}, true
	case sig == nil:
		return nil, false
	}
	return sig.check(grp, fmt.Sprintf("%s(%s) at %s:%d", grp.Run.Function, sig.Text, shown(file, dir), sig.Line), at), true
}

// alone tells whether an environment has no modules but its own files and Python's.
func (a *answer) alone(e *dag.Environment, module string) bool {
	_, path := e.Vars["PYTHONPATH"]
	first, _, _ := strings.Cut(module, ".")
	ours := []string{"cascade", "msgpack", "zmq"} // of the base that all environments have
	return !path && len(e.Python.Pip) == 0 && e.Container == nil && len(e.Plugins) == 0 &&
		len(a.Standard) > 0 && !slices.Contains(a.Standard, first) && !slices.Contains(ours, first)
}

// open tells whether a name may be there though no statement defines it.
func (s *source) open(path []string) bool {
	for n := range path {
		if strings.HasPrefix(path[n], "__") {
			return true
		}
		if n == 0 {
			continue
		}
		class := strings.Join(path[:n], ".")
		_, inherits := s.Names[class+".*"]
		_, there := s.Names[class]
		members := slices.ContainsFunc(s.all(), func(name string) bool { return strings.HasPrefix(name, class+".") })
		if inherits || there && !members { // what is no class may have anything
			return true
		}
	}
	return false
}

func (s *source) all() (names []string) {
	for name := range s.Names {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// offered bounds how many names a hint lists.
const offered = 20

// offer says what a module has instead of a name. within are the modules in it, if it is a package.
func (s *source) offer(name string, within []string) string {
	names := slices.DeleteFunc(s.all(), func(n string) bool { return s.Names[n] == nil || strings.HasPrefix(n, "_") })
	near := dag.DidYouMean(name, names)
	if module, _, dotted := strings.Cut(name, "."); dotted && near == "" {
		near = dag.DidYouMean(module, within)
	}
	has := []string{"no functions"}
	if len(names) > 0 {
		has[0] = few(names)
	}
	if len(within) > 0 {
		has = append(has, "the modules "+few(within))
	}
	return strings.TrimSpace(near + " it has " + strings.Join(has, ", and "))
}

func few(names []string) string {
	if len(names) > offered {
		names = append(names[:offered:offered], "...")
	}
	return strings.Join(names, ", ")
}

// parameter is a name of the job file as Python writes it.
func parameter(name string) string { return strings.ReplaceAll(name, "-", "_") }

func didYouMean(name string) string { return fmt.Sprintf("did you mean %q?", name) }

// givenValues is the parameter by which the client of Python gives values for which a job file has no words.
const givenValues = "cascade_values"

// check compares what a group gives with what a function takes. at makes a mistake.
func (sig *signature) check(grp *dag.Group, is string, at func(hint, message string, keys ...string) Mistake) (found []Mistake) {
	type gift struct{ what, key, name, param string }
	var gifts []gift
	for _, in := range grp.Inputs {
		gifts = append(gifts, gift{"input", "in", in.Name, parameter(in.Name)})
	}
	for _, w := range grp.With {
		if w.Name == givenValues {
			values, ok := w.Value.(map[string]any)
			if !ok {
				return nil // which ones differs from task to task
			}
			for _, name := range slices.Sorted(maps.Keys(values)) {
				if !slices.ContainsFunc(gifts, func(g gift) bool { return g.name == name }) {
					gifts = append(gifts, gift{"parameter", "with", name, parameter(name)})
				}
			}
			continue
		}
		gifts = append(gifts, gift{"parameter", "with", w.Name, parameter(w.Name)})
	}
	missing := slices.DeleteFunc(slices.Clone(sig.Needs), func(p string) bool {
		return slices.ContainsFunc(gifts, func(f gift) bool { return f.param == p })
	})
	told := map[string]bool{} // hints for those that are taken for a missing one
	near := func(name string) string {
		hint := cmp.Or(dag.DidYouMean(name, missing), dag.DidYouMean(name, sig.Takes))
		if hint == "" && len(missing) == 1 {
			hint = didYouMean(missing[0])
		}
		told[hint] = true
		return hint
	}
	for i, f := range gifts {
		switch {
		case slices.ContainsFunc(gifts[:i], func(other gift) bool { return other.param == f.param }):
			found = append(found, at("", fmt.Sprintf("%s is both an input and a parameter (with:) of %s", f.name, is), f.key, f.name))
		case !sig.Any && !slices.Contains(sig.Takes, f.param):
			found = append(found, at(near(f.param), fmt.Sprintf("%s %s is not taken by %s", f.what, f.name, is), f.key, f.name))
		}
	}
	missing = slices.DeleteFunc(missing, func(p string) bool { return told[didYouMean(p)] })
	if len(missing) > 0 {
		found = append(found, at("give it under in: or with:", fmt.Sprintf("nothing is given for %s of %s", strings.Join(missing, ", "), is), "run"))
	}
	series := slices.ContainsFunc(grp.Outputs, func(o dag.OutputDecl) bool { return o.Generate != dag.GenerateNone })
	switch {
	case sig.Async:
		found = append(found, at("write def, and asyncio.run(...) in it", is+" is async: nothing would await it", "run"))
	case !series && sig.Yields:
		found = append(found, at("write generates: instead of out:", is+" yields, but the task declares no series", "run"))
	}
	return found
}

// shown is a file's path as users write it: from the job's folder, where it lies in it.
func shown(file, dir string) string {
	if rel, err := filepath.Rel(dir, file); err == nil && !strings.HasPrefix(rel, "..") {
		return rel
	}
	return file
}
