package cascade_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the graph of packages in docs/architecture.md anew")

const module = "github.com/cascade-run/cascade"

// docs/architecture.md has the graph of packages as they are.
func TestPackageGraph(t *testing.T) {
	const file, begin, end = "docs/architecture.md", "<!-- just graph: begin -->\n```\n", "```\n<!-- just graph: end -->\n"
	cmd := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	listed, err := cmd.Output()
	if err != nil {
		t.Fatalf("list the packages: %v", err)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), begin)
	is, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the graph, between %q and %q", file, begin, end)
	}
	want := drawn(importsOf(string(listed)))
	if is == want {
		return
	}
	if !*update {
		t.Fatalf("the graph of packages in %s is not of these packages: run `just graph`; it is\n%s", file, want)
	}
	if err := os.WriteFile(file, []byte(before+begin+want+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// aside are packages that no program or user of Cascade imports, and benchmarks.
var aside = regexp.MustCompile(`^(benchmarks|examples|internal/testing|internal/genarity)\b`)

// importsOf reads lines of a package and its imports, and keeps those of this module.
func importsOf(listed string) map[string][]string {
	short := func(path string) (string, bool) {
		name, ours := strings.CutPrefix(path+"/", module+"/")
		name = strings.TrimSuffix(name, "/")
		if name == "" {
			name = "cascade"
		}
		return name, ours && !aside.MatchString(name)
	}
	imports := map[string][]string{}
	for line := range strings.Lines(listed) {
		paths := strings.Fields(line)
		name, ok := short(paths[0])
		if !ok {
			continue
		}
		imports[name] = nil
		for _, path := range paths[1:] {
			if to, ok := short(path); ok {
				imports[name] = append(imports[name], to)
			}
		}
	}
	return imports
}

// drawn writes packages by layers, the programs first: a package is one layer above the highest
// that it imports. Imports that others of the package's imply are left out.
func drawn(imports map[string][]string) string {
	below := map[string]map[string]bool{} // all that a package needs, by package
	layer := map[string]int{}
	var visit func(string)
	visit = func(name string) {
		if below[name] != nil {
			return
		}
		below[name] = map[string]bool{}
		for _, to := range imports[name] {
			visit(to)
			below[name][to] = true
			layer[name] = max(layer[name], layer[to]+1)
			for far := range below[to] {
				below[name][far] = true
			}
		}
	}
	width := 0
	byLayer := map[int][]string{}
	for name := range imports {
		visit(name)
		byLayer[layer[name]] = append(byLayer[layer[name]], name)
		width = max(width, len(name))
	}
	var b strings.Builder
	for n := len(byLayer) - 1; n >= 0; n-- {
		slices.Sort(byLayer[n])
		for _, name := range byLayer[n] {
			direct := slices.DeleteFunc(slices.Clone(imports[name]), func(to string) bool {
				return slices.ContainsFunc(imports[name], func(via string) bool { return below[via][to] })
			})
			line := fmt.Sprintf("%2d  %-*s  %s", n, width, name, strings.Join(direct, " "))
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
	return b.String()
}

// The graph leaves out what is implied, and puts each package above what it imports.
func TestPackagesAreDrawn(t *testing.T) {
	listed := strings.ReplaceAll("M/cmd/c fmt M M/dag\nM M/agent M/dag\nM/agent M/dag M/internal/testing/x\nM/dag strings\nM/examples/e M\n", "M", module)
	const want = " 3  cmd/c    cascade\n 2  cascade  agent\n 1  agent    dag\n 0  dag\n"
	if got := drawn(importsOf(listed)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// Places that docs/architecture.md names for a change are there.
func TestMapOfChanges(t *testing.T) {
	page, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(page), "\n| to change | look in |\n|---|---|\n")
	if !ok {
		t.Fatal("docs/architecture.md has no map of changes")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")
	for _, row := range rows {
		cells := strings.Split(row, " | ")
		places := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(cells) != 2 || len(places) == 0 {
			t.Errorf("%s: no place", row)
		}
		for _, m := range places {
			if _, err := os.Stat(filepath.FromSlash(m[1])); err != nil {
				t.Errorf("%s: %v", row, err)
			}
		}
	}
	if len(rows) < 25 {
		t.Errorf("the map has %d rows, want 25", len(rows))
	}
}
