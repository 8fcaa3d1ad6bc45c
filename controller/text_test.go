package controller

import (
	"strings"
	"testing"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// A submit may carry the text of a job file: it is the job of the graph that the
// text describes, and mistakes are told with their places.
func TestSubmitOfText(t *testing.T) {
	const text = "job: j\ntasks:\n  a: {command: [echo], out: []}\n"
	g, err := dag.ParseYAML("job", []byte(text), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	of := func(graph []byte) (*comms.Submit, error) {
		m := &comms.Submit{Graph: graph}
		return m, nameGraph(m)
	}
	encoded, err := of(g.Encode())
	if err != nil {
		t.Fatal(err)
	}
	written, err := of([]byte(text))
	if err != nil || written.GraphHash != encoded.GraphHash || string(written.Graph) != string(encoded.Graph) {
		t.Errorf("the text is another graph than what it describes: %v", err)
	}
	if _, err := of([]byte("job: j\ntasks:\n  a: {comand: [echo]}\n")); err == nil || !strings.Contains(err.Error(), "job:3:7") {
		t.Errorf("a mistake: %v", err)
	}
	if _, err := of([]byte{0x97}); err != nil { // decoded later
		t.Errorf("what may be a graph: %v", err)
	}
}
