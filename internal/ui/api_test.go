package ui

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const apiPage = "../../docs/api.md"

// The page of the interface has each route, with the fields of its answer, and no other route.
func TestAPIPage(t *testing.T) {
	code, err := os.ReadFile("handler.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(apiPage)
	if err != nil {
		t.Fatal(err)
	}
	var served, told []string
	for _, m := range regexp.MustCompile(`"((?:GET|POST) /api/v1/[^"]*)"`).FindAllStringSubmatch(string(code), -1) {
		served = append(served, m[1])
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z]+ /[^`]*)` \\|").FindAllStringSubmatch(string(page), -1) {
		told = append(told, m[1])
	}
	slices.Sort(served)
	slices.Sort(told)
	if !slices.Equal(served, told) {
		t.Errorf("%s has the routes\n%s\nserved are\n%s", apiPage, strings.Join(told, "\n"), strings.Join(served, "\n"))
	}
	rows := []string{"rows"} // what each list has
	for _, name := range []string{"about", "jobs", "hosts", "use", "job", "picture", "task", "log", "timeline", "sessions", "calls", "memory"} {
		for _, field := range fieldsOf(t, name) {
			if !slices.Contains(rows, field) && !strings.Contains(string(page), "`"+field+"`") {
				t.Errorf("%s does not tell the field %q of testdata/%s.json", apiPage, field, name)
			}
		}
	}
}

// fieldsOf are the fields of a golden answer, and of its row.
func fieldsOf(t *testing.T, name string) (fields []string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Row map[string]json.RawMessage `json:"row"`
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &answer); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	for field := range all {
		fields = append(fields, field)
	}
	for field := range answer.Row {
		fields = append(fields, field)
	}
	return fields
}

// The program of the page prints what it says, and what it does reaches the cluster.
func TestAPIProgram(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3: ", err)
	}
	page, err := os.ReadFile(apiPage)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string) string {
		_, rest, _ := strings.Cut(string(page), "\n```"+kind+"\n")
		text, _, ok := strings.Cut(rest, "```\n")
		if !ok {
			t.Fatalf("%s has no block %s", apiPage, kind)
		}
		return text
	}
	file := filepath.Join(t.TempDir(), "jobs.py")
	if err := os.WriteFile(file, []byte(block("python")), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFake(t)
	s := serve(t, f, nil)
	out, err := exec.CommandContext(t.Context(), python, file, s.URL+"/#t="+token+"&at=/jobs/01a21cb6").CombinedOutput()
	if err != nil || string(out) != block("text") {
		t.Errorf("it printed\n%swant\n%s%v", out, block("text"), err)
	}
	if want := `2 [] "tasks have failed (by the page)"`; !slices.Equal(f.did, []string{want}) {
		t.Errorf("it did %v, want %s", f.did, want)
	}
}
