package jobfile

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
			if at, err := outfile.Resolve(outfile.Within(dir, f.Path)); err == nil {
				c.kept[at] = "input " + in.Name + " of the job"
			}
		}
	}
	var places []outfile.Place
	var exports []int // of the places
	open := func(dag.TaskIndex, uint32) uint64 { return 0 }
	for i := range g.Exports {
		e := &g.Exports[i]
		if e.Path == "" || c.folder(i, dir) != nil {
			continue
		}
		for _, s := range e.Sources {
			for d := range g.Datasets(s, open) {
				places = append(places, outfile.Place{Name: g.DatasetName(d), To: e.Path})
				exports = append(exports, i)
			}
		}
	}
	paths := outfile.Paths(dir, places, nil)
	first := map[string]int{} // of the places, by folder and plain name
	for k, p := range places {
		if !strings.HasSuffix(p.To, "/") {
			continue
		}
		plain := filepath.Join(c.resolve(outfile.Within(dir, p.To)), outfile.PlainName(p.Name))
		if other, taken := first[plain]; !taken {
			first[plain] = k
		} else if places[other].Name != p.Name {
			c.problem(exports[k], "choose other values for the loop, or another folder for one of them", "outputs %s and %s would both have the file name %s", places[other].Name, p.Name, filepath.Base(plain))
		}
	}
	for k, path := range paths {
		c.file(exports[k], places[k].Name, path)
	}
	for k, path := range paths {
		c.above(exports[k], places[k].Name, path)
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
	path := outfile.Within(dir, e.Path)
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
