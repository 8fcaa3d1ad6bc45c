package controller

import (
	"fmt"
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
	var known texts
	of := func(graph []byte) (*comms.Submit, error) {
		m := &comms.Submit{Graph: graph}
		return m, known.nameGraph(m)
	}
	encoded, err := of(g.Encode())
	if err != nil {
		t.Fatal(err)
	}
	written, err := of([]byte(text))
	if err != nil || written.GraphHash != encoded.GraphHash || string(written.Graph) != string(encoded.Graph) {
		t.Errorf("the text is another graph than what it describes: %v", err)
	}
	again, err := of([]byte(text))
	if err != nil || again.GraphHash != encoded.GraphHash || &again.Graph[0] != &written.Graph[0] {
		t.Errorf("the same text was read again: %v", err)
	}
	if _, err := of([]byte("job: j\ntasks:\n  a: {comand: [echo]}\n")); err == nil || !strings.Contains(err.Error(), "job:3:7") {
		t.Errorf("a mistake: %v", err)
	}
	if _, err := of([]byte{0x97}); err != nil { // decoded later
		t.Errorf("what may be a graph: %v", err)
	}
}

// Of many texts the last are remembered, and none that is large.
func TestTextsAreBounded(t *testing.T) {
	var known texts
	for i := range 3 * maxTexts {
		if _, _, err := known.graph(fmt.Appendf(nil, "job: j%d\ntasks:\n  a: {command: [echo], out: []}\n", i)); err != nil {
			t.Fatal(err)
		}
	}
	large := "job: large\ntasks:\n  a: {command: [echo], out: []}\n" + strings.Repeat("# more\n", maxText/6)
	if _, _, err := known.graph([]byte(large)); err != nil {
		t.Fatal(err)
	}
	if len(known.known) != maxTexts || len(known.order) != maxTexts || known.find([]byte(large)) != nil {
		t.Errorf("%d texts are known in an order of %d, want %d", len(known.known), len(known.order), maxTexts)
	}
}
