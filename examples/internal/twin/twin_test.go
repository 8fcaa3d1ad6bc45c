package twin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Differences that matter are found, each by itself.
func TestDifferences(t *testing.T) {
	const job = `job: j
tasks:
  a: {run: f, with: {n: 1, zero: 0}, out: [x]}
  b: {command: [sort, "${in.x}"], env: {LC_ALL: C}, in: {x: a}, out: [y], stdout: y}
outputs: [{from: b, to: out/}]
`
	read := func(text string) string {
		path := filepath.Join(t.TempDir(), "job.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	code := Read(t, read(job))
	tests := []struct{ name, old, new, want string }{
		{"same", "job", "job", ""},
		{"optional parameter", ", zero: 0", "", ""},
		{"parameter", "n: 1", "n: 2", "Value:2"},
		{"function", "run: f", "run: g", "function:g"},
		{"word", "sort", "tac", "tac"},
		{"environment variable", "LC_ALL: C", "LC_ALL: de_DE", "de_DE"},
		{"standard input", "in: {x: a}", "in: {x: a}, stdin: x", "stdin:x"},
		{"output", "to: out/", "to: there/", "there/"},
		{"name", "job: j", "job: k", "job k"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := Read(t, read(strings.Replace(job, tt.old, tt.new, 1)))
			err := Differences(code, file)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
