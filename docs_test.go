package cascade_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/jobfile"
)

var fenced = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

// blocks returns the code blocks of one language in a document.
func blocks(t *testing.T, doc, language string) (code []string) {
	b, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range fenced.FindAllStringSubmatch(string(b), -1) {
		if m[1] == language {
			code = append(code, m[2])
		}
	}
	if len(code) == 0 {
		t.Fatalf("%s has no %s", doc, language)
	}
	return code
}

// The job file of the README runs.
func TestReadmeJobFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "LICENSE"), []byte("The fox and the dog and the cat\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := dag.ParseYAML("README.md", []byte(blocks(t, "README.md", "yaml")[0]), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := cascadetest.Start(t)
	j := cascadetest.SubmitGraph(t, c, g, cascade.WithDir(dir))
	cascadetest.Wait(t, c, j)
	files, err := j.Save(t.Context(), dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("outputs are %v, %v", files, err)
	}
	if b, err := os.ReadFile(files[0]); err != nil || strings.Join(strings.Fields(string(b)), " ") != "3 the" {
		t.Errorf("the table is %q, %v", b, err)
	}
}

// The job file that shows inputs runs.
func TestInputsJobFile(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"stopwords.txt": "the\nand\n", "texts/b.txt": "the fox and the fox\n", "texts/a.txt": "The dog\n"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	all := blocks(t, "docs/job-file.md", "yaml")
	at := slices.IndexFunc(all, func(text string) bool { return strings.HasPrefix(text, "job: words-of-files") })
	if at < 0 {
		t.Fatal("there is no such job file")
	}
	g, err := dag.ParseYAML("docs/job-file.md", []byte(all[at]), dag.Override{}, dag.Options{Find: jobfile.FindFiles(dir)})
	if err != nil {
		t.Fatal(err)
	}
	c := cascadetest.Start(t)
	j := cascadetest.SubmitGraph(t, c, g, cascade.WithDir(dir))
	cascadetest.Wait(t, c, j)
	for name, want := range map[string]string{"count[0].table": "1 dog", "count[1].table": "2 fox"} {
		if got := strings.Join(strings.Fields(textOf(t, j, name)), " "); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// The Go program of the README builds and prints what it should.
func TestReadmeProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	run := programs(t, "readme", blocks(t, "README.md", "go")[:1])
	c := exec.Command(run)
	c.Env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir())
	out, err := c.CombinedOutput()
	if err != nil || string(out) != "mean 499999.5\n" {
		t.Errorf("it printed %q, %v", out, err)
	}
}

// No program of the documents exits in a function that would close a cluster at
// its return: memory and sockets would stay.
func TestDocumentsExit(t *testing.T) {
	for _, doc := range []string{"README.md", "docs/go-api.md"} {
		for _, code := range blocks(t, doc, "go") {
			file, err := parser.ParseFile(token.NewFileSet(), doc, code, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				deferred, exits := false, false
				ast.Inspect(d, func(n ast.Node) bool {
					if _, ok := n.(*ast.DeferStmt); ok {
						deferred = true
					}
					if s, ok := n.(*ast.SelectorExpr); ok && (s.Sel.Name == "Exit" || strings.HasPrefix(s.Sel.Name, "Fatal")) {
						exits = true
					}
					return true
				})
				if deferred && exits {
					t.Errorf("%s: %s exits without what it deferred", doc, d.(*ast.FuncDecl).Name.Name)
				}
			}
		}
	}
}

// Every Go program of the document of the Go API builds.
func TestGoAPIPrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	var parts []string
	for _, code := range blocks(t, "docs/go-api.md", "go") {
		if strings.HasPrefix(code, "package ") {
			parts = append(parts, code)
		} else {
			t.Errorf("a snippet cannot be built because it has no package clause:\n%s", code)
		}
	}
	programs(t, "goapi", parts)
}

// The program of the document of searches builds, and finds what it looks for; its job file is that of the example.
func TestTuneProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	run := programs(t, "searches", blocks(t, "docs/tune.md", "go"))
	c := exec.Command(run)
	c.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	out, err := c.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "best of 20: t000") {
		t.Errorf("it printed %q, %v", out, err)
	}
	file, err := os.ReadFile("examples/tune/tune.yaml")
	if shown := blocks(t, "docs/tune.md", "yaml")[0]; err != nil || shown != string(file) {
		t.Errorf("the document shows %q, the example has %q, %v", shown, file, err)
	}
}

// programs builds files as one package inside this module, without leaving
// anything in its folder, and returns the program.
func programs(t *testing.T, name string, files []string) string {
	t.Helper()
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	temp := t.TempDir()
	replace := []string{}
	for i, text := range files {
		file := filepath.Join(temp, string(rune('a'+i))+".go")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace = append(replace, `"`+filepath.Join(wd, name, filepath.Base(file))+`": "`+file+`"`)
	}
	overlay := filepath.Join(temp, "overlay.json")
	if err := os.WriteFile(overlay, []byte(`{"Replace": {`+strings.Join(replace, ", ")+`}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(temp, name)
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-overlay", overlay, "-o", program, "./"+name).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}
