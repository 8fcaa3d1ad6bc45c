package client

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cascade-run/cascade/dag"
)

// What a submit says of this program is what the job runs of it: functions of
// environments and functions that the job leaves alone may differ elsewhere.
func TestOwnFunctions(t *testing.T) {
	g, err := dag.ParseYAML("job.yaml", []byte(`
job: mixed
environments: {e: {go: ./e}}
tasks:
  a: {run: Mine, out: [x]}
  b: {run: "e:Theirs", in: {x: a.x}}
  c: {command: ["true"]}
`), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	own := ownFunctions(g)
	for name, want := range map[string]bool{"Mine": true, "Theirs": false, "true": false, "Other": false, "": false} {
		if own[name] != want {
			t.Errorf("%q: got %v, want %v", name, own[name], want)
		}
	}
}

// A job's folder is the one in which the program is when it submits.
func TestWorkingFolder(t *testing.T) {
	var f folder
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{t.TempDir(), link, link, t.TempDir()} {
		t.Chdir(dir)
		want, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got, err := f.abs(""); err != nil || got != want {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		}
		if got, err := f.abs("data"); err != nil || got != filepath.Join(want, "data") {
			t.Errorf("data is %q, %v", got, err)
		}
	}
}
