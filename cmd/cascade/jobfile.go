package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade/agent/runtimeenv"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/pysource"
	"github.com/cascade-run/cascade/internal/wfformat"
	"github.com/cascade-run/cascade/jobfile"
)

// jobFlags are the flags of commands that read a job file.
type jobFlags struct {
	params    []string
	paramFile string
	unread    bool
}

func (f *jobFlags) add(c *cobra.Command) {
	c.Flags().StringArrayVarP(&f.params, "param", "p", nil, "set a parameter, `NAME=VALUE`; repeatable")
	c.Flags().BoolVar(&f.unread, "unread", false, "do not check the modules of Python functions; their errors show at run time")
	c.Flags().StringVar(&f.paramFile, "param-file", "", "YAML `file` of parameters; --param and CASCADE_PARAM_NAME variables override it")
}

// read parses the job file, "-" being standard input, and returns the graph and
// the folder that the job's relative paths refer to.
func (a *app) read(path string, f *jobFlags) (*dag.Graph, string, error) {
	text, name, dir, err := a.readFile(path)
	if err != nil {
		return nil, "", badInput{err}
	}
	g, err := a.parse(text, name, dir, f)
	return g, dir, err
}

// readChecked is read, and looks also at the Python functions that the job calls. left
// says of which tasks that is left to the run.
func (a *app) readChecked(ctx context.Context, path string, f *jobFlags) (g *dag.Graph, dir string, left unread, err error) {
	text, name, dir, err := a.readFile(path)
	if err != nil {
		return nil, "", left, badInput{err}
	}
	if g, err = a.parse(text, name, dir, f); err != nil {
		return nil, "", left, err
	}
	if f.unread {
		return g, dir, unread{tasks: pysource.Tasks(g)}, nil
	}
	found, tasks, why := pysource.Check(ctx, g, dir)
	var all dag.Problems
	for _, m := range found {
		what, section, of := "task", "tasks", m.Task
		if m.Environment != "" {
			what, section, of = "environment", "environments", m.Environment
		}
		p := dag.Problem{File: name, Message: fmt.Sprintf("%s %q: %s", what, of, m.Message), Hint: m.Hint}
		p.Line, p.Col = dag.Where(text, append([]string{section, of}, m.Keys...)...)
		all = append(all, p)
	}
	slices.SortStableFunc(all, func(a, b dag.Problem) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col)) })
	if len(all) > 0 {
		return nil, "", left, badInput{all}
	}
	return g, dir, unread{tasks: tasks, why: why}, nil
}

// checkOutputs looks whether the outputs of a job can be copied to where they are to go.
func (a *app) checkOutputs(g *dag.Graph, dir string, f *jobFlags) error {
	var keep []string
	for _, path := range []string{a.file.name, f.paramFile} {
		if path != "" {
			keep = append(keep, path)
		}
	}
	err := jobfile.CheckOutputs(g, dir, keep...)
	var found dag.Problems
	if errors.As(err, &found) {
		for i := range found {
			found[i].File = a.file.name
		}
	}
	if err != nil {
		return badInput{err}
	}
	return nil
}

// unread is tasks whose Python functions were not looked at, and why none was, if so.
type unread struct {
	tasks  []string
	why    error
	golang bool // nor were Go packages compiled
}

func (a *app) parse(text []byte, name, dir string, f *jobFlags) (*dag.Graph, error) {
	a.file = jobText{name, text}
	over := dag.Override{Environ: a.environ, Flags: f.params}
	if f.paramFile != "" {
		b, err := os.ReadFile(f.paramFile)
		if err != nil {
			return nil, badInputf("read parameters: %w", err)
		}
		over.File, over.Data = f.paramFile, b
	}
	g, err := dag.ParseYAML(name, text, over, dag.Options{Find: a.findFiles(dir)})
	if what := wfformat.Foreign(text); err != nil && what != "" {
		return nil, badInputf("%s is %s, and no job file, which is YAML with job: and tasks: (cascade import wfformat makes a job of a recording in WfFormat)", name, what)
	}
	if err != nil {
		return nil, badInput{err}
	}
	for i := range g.Environments {
		if err := checkPlaces(name, text, dir, &g.Environments[i]); err != nil {
			return nil, err
		}
	}
	a.warnEmpty(g)
	return g, nil
}

// findFiles is jobfile.FindFiles, and tells which links of a pattern lead to nothing.
func (a *app) findFiles(dir string) func(path string, pattern bool) ([]string, error) {
	return jobfile.FindFiles(dir, func(link string) {
		a.note("%s is left out: the link leads to nothing", relative(link))
	})
}

// checkPlaces looks whether what an environment names is there.
func checkPlaces(name string, text []byte, dir string, e *dag.Environment) error {
	type place struct{ key, path, what string }
	places := []place{{"go", e.Go, "the folder of a Go package"}, {"working_dir", e.WorkingDir, "a folder or archive"}, {"binary", e.Binary, "a program"}}
	for _, b := range e.Binaries {
		places = append(places, place{"binary", b.Path, "a program for each platform"})
	}
	for _, m := range e.PyModules {
		places = append(places, place{"py_modules", m, "folders, .py files and archives"})
	}
	if e.Python != nil {
		places = append(places, place{"wheels", e.Python.Wheels, "a folder"})
	}
	for _, p := range places {
		if _, ok := dag.ParsePackage(p.path); ok || p.path == "" {
			continue
		}
		if _, ok := dag.ParseAddress(p.path); ok {
			continue // looked for when the job is submitted
		}
		path := p.path
		for _, from := range []string{e.Source, dir} {
			if !filepath.IsAbs(path) {
				path = filepath.Join(from, path)
			}
		}
		thing := "folder or file"
		info, err := os.Stat(path)
		if p.key == "go" || p.key == "wheels" {
			thing = "folder"
			if err == nil && !info.IsDir() {
				err = os.ErrNotExist
			}
		}
		if err != nil {
			found := dag.Problem{File: name, Message: fmt.Sprintf("environment %s: there is no %s %s", e.Name, thing, path),
				Hint: fmt.Sprintf("%s: names %s, from the job file's own", p.key, p.what)}
			keys := []string{"environments", e.Name, p.key, p.path}
			if p.key == "wheels" {
				keys = []string{"environments", e.Name, "python", "wheels"}
			}
			found.Line, found.Col = dag.Where(text, keys...)
			return dag.Problems{found}
		}
	}
	return nil
}

func (a *app) readFile(path string) (text []byte, name, dir string, err error) {
	if path == "-" {
		if text, err = io.ReadAll(a.in); err != nil {
			return nil, "", "", fmt.Errorf("read job from standard input: %w", err)
		}
		dir, err = os.Getwd()
		return text, "standard input", dir, err
	}
	if text, err = os.ReadFile(path); err != nil {
		return nil, "", "", fmt.Errorf("read job: %w", err)
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, "", "", fmt.Errorf("find %s: %w", path, err)
	}
	return text, path, filepath.Dir(full), nil
}

func (a *app) validateCommand() *cobra.Command {
	var flags jobFlags
	c := &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a job file and report every mistake with its position",
		Long: `Check a job file without running anything. The check covers:

- keys, names, references and the types of parameters
- the graph: no cycle, no input without a producer
- files, folders and patterns of inputs and environments: they exist
- outputs: they can be copied to their destinations
- Go packages: they compile
- Python functions: their parameters match the inputs of their tasks, as far as
  that can be read without importing the modules

Checks that only a run can make are reported as "not checked".`,
		Example: "  cascade validate job.yaml\n  cascade validate job.yaml --param steps=4",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			g, dir, left, err := a.readChecked(c.Context(), args[0], &flags)
			if err != nil {
				return err
			}
			if err := a.checkOutputs(g, dir, &flags); err != nil {
				return err
			}
			if left.golang, err = a.checkGo(c.Context(), g, dir); err != nil {
				return err
			}
			unchecked, hints := unchecked(g, left), a.hints(g)
			if a.json {
				return a.printJSON(struct {
					Job       string    `json:"job"`
					Streamed  int       `json:"streamed"`
					Tasks     int       `json:"tasks"`
					Unchecked []string  `json:"unchecked"`
					Hints     []mistake `json:"hints,omitempty"`
				}{g.Name, g.NumSlots(), g.NumTasks(), unchecked, hints})
			}
			fmt.Fprintf(a.out, "%s: job %s is valid: %s\n", args[0], g.Name, taskCount(g))
			for _, what := range unchecked {
				fmt.Fprintf(a.out, "  not checked  %s\n", what)
			}
			for _, h := range hints {
				fmt.Fprintf(a.out, "  hint         %s\n", dag.Problem{File: h.File, Line: h.Line, Col: h.Column, Message: h.Message, Hint: h.Hint})
			}
			return nil
		},
	}
	flags.add(c)
	c.Flags().BoolVar(&a.allProblems, "all", false, fmt.Sprintf("print all mistakes, not only %d of a kind", shownProblems))
	return c
}

// checkGo compiles the Go packages of a job. left tells of those that are left to the run, as this host
// has no Go.
func (a *app) checkGo(ctx context.Context, g *dag.Graph, dir string) (left bool, err error) {
	var found dag.Problems
	for i := range g.Environments {
		e := g.Environments[i]
		if e.Go == "" {
			continue
		}
		if !filepath.IsAbs(e.Source) {
			e.Source = filepath.Join(dir, e.Source)
		}
		var built *runtimeenv.BuildError
		switch err := runtimeenv.CheckGo(ctx, e); {
		case errors.Is(err, exec.ErrNotFound):
			left = true
		case errors.As(err, &built) && ctx.Err() == nil:
			p := dag.Problem{File: a.file.name, Message: fmt.Sprintf("environment %q: the Go package does not compile: %s", e.Name, built.Output)}
			p.Line, p.Col = dag.Where(a.file.text, "environments", e.Name, "go")
			found = append(found, p)
		case err != nil:
			return left, err
		}
	}
	if len(found) > 0 {
		return left, badInput{found}
	}
	return left, nil
}

// hints tells of what is no mistake and may be meant otherwise.
func (a *app) hints(g *dag.Graph) (all []mistake) {
	for _, u := range g.Unquoted() {
		m := mistake{File: a.file.name, Message: fmt.Sprintf("task %q: a shell reads what parameter %s has, spaces and quotes too", u.Task, u.Param),
			Hint: fmt.Sprintf("${quote(%s)} makes it one word", u.Expr)}
		m.Line, m.Column = dag.Where(a.file.text, "tasks", u.Task, "command")
		all = append(all, m)
	}
	return all
}

// unchecked says what of a job is left to its run, and when the run finds out. u
// says of which tasks the Python functions were not looked at.
func unchecked(g *dag.Graph, u unread) []string {
	kinds, packages := map[string]string{"": "default"}, false
	for i := range g.Environments {
		e := &g.Environments[i]
		kinds[e.Name] = e.Kind()
		packages = packages || e.Python != nil && len(e.Python.Pip) > 0 || e.Container != nil || len(e.Plugins) > 0
	}
	var registered, commands, urls bool
	functions, why := u.tasks, ""
	if u.why != nil {
		why = " (" + u.why.Error() + ")"
	}
	if len(functions) > explainNames {
		functions = append(slices.Clone(functions[:explainNames]), fmt.Sprintf("%d more", len(functions)-explainNames))
	}
	for i := range g.Groups {
		grp := &g.Groups[i]
		switch run := &grp.Run; {
		case grp.IsInput():
			urls = urls || slices.ContainsFunc(grp.Files, func(f dag.File) bool { return f.URL != "" })
		case run.Command != nil:
			commands = true
		case kinds[run.Environment] == "python":
		default:
			registered = true
		}
	}
	left := []string{}
	for _, c := range []struct {
		there bool
		what  string
	}{
		{u.golang, "packages of Go: each is compiled when its environment is built, and this host has no Go"},
		{registered, "functions of Go: the run checks them all before their tasks are due"},
		{len(functions) > 0, "functions of Python of " + strings.Join(functions, ", ") + ": each is looked for when the first task that calls it starts" + why},
		{commands, "programs of commands: each is looked for when its task starts"},
		{packages, "packages, images and plugins of environments: found when an environment is built"},
		{urls, "URLs: fetched when their tasks run"},
	} {
		if c.there {
			left = append(left, c.what)
		}
	}
	return left
}

// warnEmpty tells of families without a task: a range such as 0..-1 is more often a
// mistake in a parameter than meant.
func (a *app) warnEmpty(g *dag.Graph) {
	for k := range g.Groups {
		grp := &g.Groups[k]
		for i := range grp.Axes {
			if grp.Axes[i].Len() == 0 {
				a.note("%s has no tasks: %s in its for: is empty", grp.Name, grp.Axes[i].Var)
			}
		}
	}
}

func taskCount(g *dag.Graph) string {
	s := plural(g.NumTasks(), "task")
	if n := g.NumSlots(); n > 0 {
		s += fmt.Sprintf(" and %d more for each element of its open generators", n)
	}
	return s
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// coreText is a number of cores, which may be a fraction.
func coreText(n float64) string {
	if n == 1 {
		return "1 core"
	}
	return fmt.Sprintf("%g cores", n)
}

func (a *app) schemaCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON schema of job files, for editors",
		Long:    "Print the JSON schema of job files. Editors use it for completion and checks.",
		Example: "  cascade schema -o job.schema.json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b, err := dag.Schema()
			if err != nil {
				return err
			}
			return a.write(output, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%s\n", strings.TrimRight(string(b), "\n"))
				return err
			})
		},
	}
	outputFlag(c, &output, "")
	return c
}
