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

// Parameters come beside the text, with their types.
func TestSubmitOfTextWithParams(t *testing.T) {
	const text = "job: j\nparams: {n: 1, s: a}\ntasks:\n  a: {command: [echo, \"${params.n}\", \"${params.s}\"], out: []}\n"
	var known texts
	for _, c := range []struct{ params, words, err string }{
		{"", "echo 1 a", ""},
		{`{"n": 2, "s": "b: 3"}`, "echo 2 b: 3", ""},
		{`{"n": 3}`, "echo 3 a", ""},
		{`{"n": "x"}`, "", `params:1:7: parameter "n": "x" is a text, the job file's value is a whole number`},
		{`{"m": 2}`, "", `params:1:2: the job has no parameter "m"`},
	} {
		m := &comms.Submit{Graph: []byte(text), Params: []byte(c.params)}
		err := known.nameGraph(m)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %s", c.params, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		g, err := dag.Decode(m.Graph)
		if err != nil {
			t.Fatal(err)
		}
		words, err := g.Command(0)
		if got := strings.TrimSpace(fmt.Sprint(words)); err != nil || !strings.Contains(got, strings.Fields(c.words)[1]) || m.Params != nil {
			t.Errorf("%s: the command is %s, %v, want %s", c.params, got, err, c.words)
		}
	}
}

// Of many texts the last are remembered, and none that is large.
func TestTextsAreBounded(t *testing.T) {
	var known texts
	for i := range 3 * maxTexts {
		if _, _, err := known.graph(fmt.Appendf(nil, "job: j%d\ntasks:\n  a: {command: [echo], out: []}\n", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	large := "job: large\ntasks:\n  a: {command: [echo], out: []}\n" + strings.Repeat("# more\n", maxText/6)
	if _, _, err := known.graph([]byte(large), nil); err != nil {
		t.Fatal(err)
	}
	if len(known.known) != maxTexts || len(known.order) != maxTexts || known.find([]byte(large)) != nil {
		t.Errorf("%d texts are known in an order of %d, want %d", len(known.known), len(known.order), maxTexts)
	}
}
