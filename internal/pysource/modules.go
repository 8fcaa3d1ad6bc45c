package pysource

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cascade-run/cascade/dag"
)

// place is a folder that Python would look into for modules; of a single module it has
// only that.
type place struct{ dir, only string }

// places are where an environment's modules lie, in the order in which Python looks.
// Of what comes behind an archive, a package or an address nothing is sure: all is
// false then.
func places(e *dag.Environment, dir string) (found []place, all bool) {
	entries := e.PyModules
	if e.WorkingDir != "" {
		entries = append(entries[:len(entries):len(entries)], e.WorkingDir)
	}
	for i, text := range entries {
		if _, ok := dag.ParsePackage(text); ok {
			return found, false
		}
		if _, ok := dag.ParseAddress(text); ok {
			return found, false
		}
		path := seen(e, dir, text)
		info, err := os.Stat(path)
		module, isFile := strings.CutSuffix(filepath.Base(path), ".py")
		switch {
		case err != nil || !info.IsDir() && !isFile:
			return found, false
		case !info.IsDir():
			found = append(found, place{filepath.Dir(path), module})
		case i < len(e.PyModules) && isModuleFolder(path):
			found = append(found, place{filepath.Dir(path), filepath.Base(path)})
		default:
			found = append(found, place{path, ""})
		}
	}
	return found, true
}

// seen is a path of an environment as it is on this host.
func seen(e *dag.Environment, dir, path string) string {
	for _, from := range []string{e.Source, dir} {
		if !filepath.IsAbs(path) {
			path = filepath.Join(from, path)
		}
	}
	return path
}

// beside tells what to write for a module that lies where the paths of an environment
// begin, and is named by none; "" when none does.
func beside(e *dag.Environment, dir, module string) string {
	for _, name := range []string{module + ".py", module} {
		path := seen(e, dir, name)
		if info, err := os.Stat(path); err == nil && (info.Mode().IsRegular() && name != module || isModuleFolder(path)) {
			return fmt.Sprintf("%s is there: add %s to py_modules of the environment", shown(path, dir), name)
		}
	}
	return ""
}

func isModuleFolder(path string) bool {
	_, err := os.Stat(filepath.Join(path, "__init__.py"))
	return err == nil
}

// module is what a name stands for on disk.
type module struct {
	file string   // "" of a folder without __init__.py
	dirs []string // of a package: where its modules are
	dark bool     // it is there, or may be, in a form that cannot be read
}

func (m module) found() bool { return m.file != "" || len(m.dirs) > 0 || m.dark }

// look finds a module in a folder as Python does: packages come before compiled
// modules, those before source, and all before a folder that has the name alone.
func look(dir, name string) module {
	base := filepath.Join(dir, name)
	if isModuleFolder(base) {
		return module{file: filepath.Join(base, "__init__.py"), dirs: []string{base}}
	}
	for _, pattern := range []string{base + ".so", base + ".*.so", base + ".pyc"} {
		if some, _ := filepath.Glob(pattern); len(some) > 0 { // errs on bad patterns alone
			return module{dark: true}
		}
	}
	if info, err := os.Stat(base + ".py"); err == nil && info.Mode().IsRegular() {
		return module{file: base + ".py"}
	}
	if info, err := os.Stat(base); err == nil && info.IsDir() {
		return module{dirs: []string{base}}
	}
	return module{}
}

// top finds a module that is in no package.
func top(in []place, all bool, name string) (m module) {
	for _, p := range in {
		if p.only != "" && p.only != name {
			continue
		}
		switch now := look(p.dir, name); {
		case now.file != "" || now.dark:
			return now
		default: // a folder counts only when no place has more
			m.dirs = append(m.dirs, now.dirs...)
		}
	}
	if !all {
		return module{dark: true}
	}
	return m
}

// target is where a function's name leads.
type target struct {
	files []string // that are imported for it; the last has the function
	dirs  []string // of that, if it is a package: where its modules are
	name  string   // of the module
	rest  []string // what is looked for in it
	dark  bool
}

// find follows MODULE.FUNCTION, or PACKAGE.MODULE.CLASS.FUNCTION, to a file: the
// longest part that is a module is the module.
func find(in []place, all bool, function string) target {
	parts := strings.Split(function, ".")
	if len(parts) < 2 {
		return target{dark: true}
	}
	m := top(in, all, parts[0])
	t := target{dark: m.dark}
	n := 1
	for ; m.found() && !m.dark; n++ {
		if m.file != "" {
			t.files = append(t.files, m.file)
		}
		next := module{}
		if n < len(parts)-1 {
			for _, dir := range m.dirs {
				if next = look(dir, parts[n]); next.found() {
					break
				}
			}
		}
		if !next.found() {
			t.dark = m.file == "" // a folder has no functions of its own, whoever adds some
			break
		}
		m, t.dark = next, next.dark
	}
	t.name, t.rest, t.dirs = strings.Join(parts[:n], "."), parts[n:], m.dirs
	return t
}

// twice finds modules of an environment that another one of the same name hides: those that it
// names, and those whose functions are tasks. One file that is reached in two ways is one module.
func twice(g *dag.Graph, e *dag.Environment, dir string) (found []Mistake) {
	if e.Python == nil {
		return nil
	}
	in, _ := places(e, dir)
	var names []string
	for _, p := range in {
		if p.only != "" {
			names = append(names, p.only)
		}
	}
	for i := range g.Groups {
		if environment(g, &g.Groups[i]) == e {
			name, _, _ := strings.Cut(g.Groups[i].Run.Function, ".")
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		first := ""
		for k, p := range in {
			if p.only != "" && p.only != name {
				continue
			}
			file := look(p.dir, name).file
			if file == "" || first != "" && sameFile(first, file) {
				continue
			}
			if first != "" {
				keys := []string{"working_dir"}
				if k < len(e.PyModules) {
					keys = []string{"py_modules", e.PyModules[k]}
				}
				found = append(found, Mistake{Environment: e.Name, Keys: keys, Message: fmt.Sprintf("module %s is there twice, as %s and as %s: Python would import the first", name, shown(first, dir), shown(file, dir)),
					Hint: "give one of them another name, or put it into a package"})
				break
			}
			first = file
		}
	}
	return found
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// modules are the names of those that lie in places, for hints.
func modules(in []place) (names []string) {
	for _, p := range in {
		if p.only != "" {
			names = append(names, p.only)
			continue
		}
		files, _ := os.ReadDir(p.dir) // of what cannot be read nothing is offered
		for _, f := range files {
			name, isFile := strings.CutSuffix(f.Name(), ".py")
			if !strings.HasPrefix(name, "_") && (isFile || isModuleFolder(filepath.Join(p.dir, name))) {
				names = append(names, name)
			}
		}
	}
	return names
}

// modules are those in the module that was found, when it is a package.
func (t target) modules() []string {
	in := make([]place, len(t.dirs))
	for i, dir := range t.dirs {
		in[i].dir = dir
	}
	return modules(in)
}
