package cascade_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every test and transcript that docs/tests.md names is there.
func TestPromisesHaveTests(t *testing.T) {
	page, err := os.ReadFile("docs/tests.md")
	if err != nil {
		t.Fatal(err)
	}
	functions := map[string]map[string]bool{} // by folder
	named := 0
	promises, _, _ := strings.Cut(string(page), "\n## Tiers\n") // what follows has other tables
	for number, line := range strings.Split(promises, "\n") {
		cells := strings.Split(line, " | ")
		if len(cells) != 2 || !strings.HasPrefix(line, "| ") || cells[0] == "| promise" {
			continue
		}
		names := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1)
		if len(names) == 0 {
			t.Errorf("docs/tests.md:%d: nothing shows that %s", number+1, strings.TrimPrefix(cells[0], "| "))
		}
		for _, m := range names {
			named++
			folder, name := path.Split(m[1])
			if strings.HasSuffix(name, ".txt") {
				if _, err := os.Stat(m[1]); err != nil {
					t.Errorf("docs/tests.md:%d: %v", number+1, err)
				}
				continue
			}
			if functions[folder] == nil {
				functions[folder] = testsOf(t, folder)
			}
			if !functions[folder][name] {
				t.Errorf("docs/tests.md:%d: there is no %s in %s", number+1, name, folder)
			}
		}
	}
	if named == 0 {
		t.Error("docs/tests.md names no tests")
	}
}

func testsOf(t *testing.T, folder string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				names[f.Name.Name] = true
			}
		}
	}
	return names
}

// Every package is in the table of docs/architecture.md.
func TestArchitectureNamesPackages(t *testing.T) {
	page, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	packages := 0
	err = filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || file == "." {
			return err
		}
		if name := d.Name(); name == "testdata" || strings.HasPrefix(name, ".") {
			return filepath.SkipDir
		}
		sources, err := filepath.Glob(filepath.Join(file, "*.go"))
		if err != nil || len(sources) == 0 {
			return err
		}
		packages++
		parent := "`" + filepath.ToSlash(filepath.Dir(file)) + "`" // of packages of an example alone
		if name := "`" + filepath.ToSlash(file) + "`"; !strings.Contains(string(page), name) && !(strings.HasPrefix(parent, "`examples/") && strings.Contains(string(page), parent)) {
			t.Errorf("docs/architecture.md does not say what %s is", name)
		}
		return nil
	})
	if err != nil || packages < 20 {
		t.Errorf("found %d packages, %v", packages, err)
	}
}

// Decisions have a number of their own, which their heading repeats, and links in the
// documents lead to files that are there.
func TestDecisionsAndLinks(t *testing.T) {
	decisions, err := filepath.Glob("docs/decisions/[0-9]*.md")
	if err != nil || len(decisions) == 0 {
		t.Fatal("no decisions", err)
	}
	heading := regexp.MustCompile(`^# (\d+)\. `)
	seen := map[string]string{}
	for _, file := range decisions {
		number := strings.TrimLeft(filepath.Base(file)[:4], "0")
		if other := seen[number]; other != "" {
			t.Errorf("%s and %s are both number %s", other, file, number)
		}
		seen[number] = file
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if m := heading.FindSubmatch(text); m == nil || string(m[1]) != number {
			t.Errorf("%s begins with %.40q, want %q", file, text, "# "+number+". ")
		}
	}
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)]*)?\)`)
	for _, page := range append(append(pages, decisions...), "README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), string(m[1]))); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
}
