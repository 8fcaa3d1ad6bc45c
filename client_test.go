package cascade

import (
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
