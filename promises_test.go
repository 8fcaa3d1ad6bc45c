package cascade_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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
		if len(cells) != 2 || !strings.HasPrefix(line, "| ") || cells[0] == "| guarantee" {
			continue
		}
		names := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1)
		if len(names) == 0 {
			t.Errorf("docs/tests.md:%d: no test covers: %s", number+1, strings.TrimPrefix(cells[0], "| "))
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

// The folder of decisions is numbered without gaps, each file says when it was made and
// whether it stands, and the index has its row.
func TestDecisionsIndex(t *testing.T) {
	files, err := filepath.Glob("docs/decisions/[0-9]*.md")
	if err != nil || len(files) == 0 {
		t.Fatal("no decisions", err)
	}
	index, err := os.ReadFile("docs/decisions/README.md")
	if err != nil {
		t.Fatal(err)
	}
	begin := regexp.MustCompile(`^# (\d+)\. (.+)\n\n- Date: (\d{4}-\d{2}-\d{2})\n- Status: (accepted|superseded by (\d{4}))\n`)
	var want []string
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		m := begin.FindStringSubmatch(string(text))
		if m == nil {
			t.Errorf("%s begins with %.80q, want the lines of %s", file, text, begin)
			continue
		}
		if !strings.HasPrefix(name, fmt.Sprintf("%04d-", i+1)) || m[1] != strconv.Itoa(i+1) {
			t.Errorf("%s has the heading %q, and should be number %d", file, m[1], i+1)
		}
		if by, err := filepath.Glob("docs/decisions/" + m[5] + "-*.md"); m[5] != "" && len(by) == 0 {
			t.Errorf("%s is %s, which is not there (%v)", file, m[4], err)
		}
		want = append(want, fmt.Sprintf("| %s | [%s](%s) | %s | %s |", m[1], m[2], name, m[3], m[4]))
	}
	var have []string
	for line := range strings.Lines(string(index)) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| no ") {
			have = append(have, strings.TrimSpace(line))
		}
	}
	if !slices.Equal(have, want) {
		t.Errorf("the table of docs/decisions/README.md should be\n%s", strings.Join(want, "\n"))
	}
}

// Links in the documents lead to files and headings that are there.
func TestLinksOfDocuments(t *testing.T) {
	pages := []string{"README.md"}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no pages are %s: %v", pattern, err)
		}
		pages = append(pages, found...)
	}
	link := regexp.MustCompile(`\]\(([^)#:\s]*)(?:#([^)\s]+))?\)`)
	anchors := map[string][]string{}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			to := page
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(page), m[1])
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			if m[2] == "" || !strings.HasSuffix(to, ".md") {
				continue
			}
			if anchors[to] == nil {
				anchors[to] = headings(t, to)
			}
			if !slices.Contains(anchors[to], m[2]) {
				t.Errorf("%s: %s has no heading for #%s", page, to, m[2])
			}
		}
	}
}

// headings returns the anchors of a page, as GitHub makes them.
func headings(t *testing.T, page string) (anchors []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	outside := regexp.MustCompile("(?ms)^ *```.*?^ *```").ReplaceAllString(string(text), "")
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(outside, -1) {
		words := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(m[1], "$1")
		words = regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(words), "")
		anchors = append(anchors, strings.ReplaceAll(words, " ", "-"))
	}
	return anchors
}
