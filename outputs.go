package cascade

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/outfile"
)

const maxFileName = 255 // bytes, of all usual file systems

// CheckOutputs returns an error, dag.Problems, when outputs of a graph could not be copied
// to where they are to go, as far as that can be told before: what should be a folder is
// none, what should be a file is a folder, nothing may be written there, two go to one
// file, or one would replace an input of the graph or a file of keep.
// Relative paths start at dir, as for Save.
func CheckOutputs(g *dag.Graph, dir string, keep ...string) error {
	c := outputCheck{g: g, kept: map[string]string{}, from: map[string]int{}}
	for _, path := range keep {
		if at, err := outfile.Resolve(path); err == nil {
			c.kept[at] = "a file that this job is read from"
		}
	}
	for _, in := range g.InputGroups() {
		for _, f := range in.Files {
			if f.URL != "" {
				continue
			}
			if at, err := outfile.Resolve(within(dir, f.Path)); err == nil {
				c.kept[at] = "input " + in.Name + " of the job"
			}
		}
	}
	var places []outputPlace
	var exports []int // of the places
	open := func(dag.TaskIndex, uint32) uint64 { return 0 }
	for i := range g.Exports {
		e := &g.Exports[i]
		if e.Path == "" || c.folder(i, dir) != nil {
			continue
		}
		for _, s := range e.Sources {
			for d := range g.Datasets(s, open) {
				places = append(places, outputPlace{g.DatasetName(d), e.Path})
				exports = append(exports, i)
			}
		}
	}
	paths := outputPaths(dir, places, nil)
	first := map[string]int{} // of the places, by folder and plain name
	for k, p := range places {
		if !strings.HasSuffix(p.to, "/") {
			continue
		}
		plain := filepath.Join(c.resolve(within(dir, p.to)), plainName(p.name))
		if other, taken := first[plain]; !taken {
			first[plain] = k
		} else if places[other].name != p.name {
			c.problem(exports[k], "choose other values for the loop, or another folder for one of them", "outputs %s and %s would both have the file name %s", places[other].name, p.name, filepath.Base(plain))
		}
	}
	for k, path := range paths {
		c.file(exports[k], places[k].name, path)
	}
	for k, path := range paths {
		c.above(exports[k], places[k].name, path)
	}
	if len(c.found) == 0 {
		return nil
	}
	slices.SortStableFunc(c.found, func(a, b dag.Problem) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col)) })
	return c.found
}

// outputCheck looks at where the outputs of a graph go.
type outputCheck struct {
	g       *dag.Graph
	kept    map[string]string // resolved paths that must stay, and what they are
	from    map[string]int    // resolved paths and the exports that go there
	folders map[string]string // resolved
	found   dag.Problems
}

func (c *outputCheck) problem(export int, hint, format string, args ...any) {
	from := c.g.Exports[export].From
	if n := len(c.found); n > 0 && c.found[n-1].Line > 0 && c.found[n-1].Line == from.Line && c.found[n-1].Col == from.Col {
		return // one mistake of an output that stands for many datasets is enough
	}
	c.found = append(c.found, dag.Problem{Line: from.Line, Col: from.Col, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// folder looks whether something can be written where an export goes.
func (c *outputCheck) folder(export int, dir string) error {
	e := &c.g.Exports[export]
	path := within(dir, e.Path)
	check := outfile.Check
	if strings.HasSuffix(e.Path, "/") {
		check = outfile.CheckFolder
	}
	err := check(path)
	if err != nil {
		c.problem(export, "", "output %s cannot be copied to %s: %v", e.From.Text, e.Path, err)
	}
	return err
}

// file looks whether one dataset can be copied to a file beside all others.
func (c *outputCheck) file(export int, name, path string) {
	if n := len(filepath.Base(path)); n > maxFileName {
		c.problem(export, "give it a file name of its own, or shorten the loop's values", "output %s would have a file name of %d bytes, more than %d", name, n, maxFileName)
		return
	}
	at := c.resolve(path)
	if what := c.kept[at]; what != "" {
		c.problem(export, "choose another file", "output %s would replace %s, which is %s", name, path, what)
	}
	if other, taken := c.from[at]; taken {
		c.problem(export, "give one of them another path", "outputs %s and %s both go to the file %s", c.g.Exports[other].From.Text, name, path)
		return
	}
	c.from[at] = export
}

// above looks whether a folder of a file is to be a file as well.
func (c *outputCheck) above(export int, name, path string) {
	for dir := filepath.Dir(c.resolve(path)); len(dir) > 1; dir = filepath.Dir(dir) {
		if other, taken := c.from[dir]; taken {
			c.problem(export, "give one of them another path", "output %s goes to the file %s, and output %s into a folder of that name", c.g.Exports[other].From.Text, dir, name)
			return
		}
	}
}

// resolve is outfile.Resolve, which looks once at folders that many files go into.
func (c *outputCheck) resolve(path string) string {
	dir, name := filepath.Split(path)
	at, known := c.folders[dir]
	if !known {
		var err error
		if at, err = outfile.Resolve(dir); err != nil {
			at = filepath.Clean(dir)
		}
		if c.folders == nil {
			c.folders = map[string]string{}
		}
		c.folders[dir] = at
	}
	at = filepath.Join(at, name)
	if info, err := os.Lstat(at); err == nil && info.Mode().Type() == os.ModeSymlink {
		if to, err := outfile.Resolve(at); err == nil {
			return to
		}
	}
	return at
}

// outputPlace is a dataset and what its output has as to: "" for none.
type outputPlace struct{ name, to string }

// outputPaths returns where datasets go, "" for those without a place. In a folder a file
// has the name of its dataset, put plainly; those that would have one name, also with
// datasets that are missing now, have names as references write them. That is left to what
// is known when the job has run: CheckOutputs refuses names that are known to meet before.
func outputPaths(dir string, places []outputPlace, missing []string) []string {
	names := make(map[string]string, len(places)) // plain file names, and the datasets that have them first
	meet := map[string]bool{}
	add := func(dataset string) {
		name := plainName(dataset)
		if first, ok := names[name]; !ok {
			names[name] = dataset
		} else if first != dataset {
			meet[name] = true
		}
	}
	for _, p := range places {
		add(p.name)
	}
	for _, name := range missing {
		add(name)
	}
	paths := make([]string, len(places))
	for i, p := range places {
		switch {
		case p.to == "":
		case !strings.HasSuffix(p.to, "/"):
			paths[i] = within(dir, p.to)
		default:
			name := plainName(p.name)
			if meet[name] {
				name = exactName(p.name)
			}
			paths[i] = filepath.Join(within(dir, p.to), name)
		}
	}
	return paths
}

// fileParts are what a dataset's file is named by: the task with the number of an element,
// and the output with its dot, which becomes the file's extension.
func fileParts(dataset string) (task, output string) {
	task = dataset
	if dot := strings.LastIndexByte(dataset, '.'); dot >= 0 {
		task, output = dataset[:dot], dataset[dot:]
	}
	if at := strings.IndexByte(output, '['); at >= 0 {
		task, output = task+output[at:], output[:at]
	}
	return task, output
}

// plainName is the name of a dataset's file: map-3-500.png of map[3,500].png. Values of loop
// variables may be any text, so a slash in one must not lead into another folder.
func plainName(dataset string) string {
	task, output := fileParts(dataset)
	return strings.NewReplacer("[", "-", "]", "", ",", "-", "/", "_").Replace(task) + output
}

// exactName is a file name that no other dataset has, plainly or exactly.
func exactName(dataset string) string {
	task, output := fileParts(dataset)
	return strings.NewReplacer("/", "%2F", "%", "%25").Replace(task) + output
}
