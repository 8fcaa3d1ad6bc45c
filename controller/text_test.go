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

// A text that resumes keeps every dataset, whether or not there is a job to resume from; and what it
// names is told to a client that cannot read it.
func TestTextThatResumes(t *testing.T) {
	const text = "job: j\nparams: {f: a.txt}\ntasks:\n  a: {command: [cat, \"${params.f}\"], out: []}\n"
	var known texts
	for _, c := range []struct {
		resume *comms.Resume
		retain bool
		from   bool
	}{{nil, false, false}, {&comms.Resume{}, true, false}, {&comms.Resume{Job: comms.JobID{1}}, true, true}, {nil, false, false}} {
		m := &comms.Submit{Graph: []byte(text), Resume: c.resume}
		if err := known.nameGraph(m); err != nil {
			t.Fatal(err)
		}
		if g, err := dag.Decode(m.Graph); err != nil || g.Retain != c.retain || (m.Resume != nil) != c.from {
			t.Errorf("resume %v: the graph retains: %v, it resumes: %v (%v)", c.resume, g.Retain, m.Resume != nil, err)
		}
	}
	for _, c := range []struct{ text, params, want string }{
		{text, "", "&{9 j [cat a.txt]}"},
		{text, "{f: b.txt}", "&{9 j [cat b.txt]}"},
		{"job: j\n", "", "the job has no tasks"},
		{"job: j\ntasks:\n  t: {for: {i: \"0..3000\"}, command: [\"" + strings.Repeat("x", 4000) + "${i}\"]}\n", "", "texts that may name files"},
	} {
		got := answerNamed(&comms.NamedReq{Req: 9, Text: []byte(c.text), Params: []byte(c.params)})
		if !strings.Contains(fmt.Sprint(got), c.want) {
			t.Errorf("%.80s %s is %v, want %s", c.text, c.params, got, c.want)
		}
	}
}

// Of many texts the last are remembered, and none that is large.
func TestTextsAreBounded(t *testing.T) {
	var known texts
	for i := range 3 * maxTexts {
		if _, _, err := known.graph(fmt.Appendf(nil, "job: j%d\ntasks:\n  a: {command: [echo], out: []}\n", i), nil, false); err != nil {
			t.Fatal(err)
		}
	}
	large := "job: large\ntasks:\n  a: {command: [echo], out: []}\n" + strings.Repeat("# more\n", maxText/6)
	if _, _, err := known.graph([]byte(large), nil, false); err != nil {
		t.Fatal(err)
	}
	if len(known.known) != maxTexts || len(known.order) != maxTexts || known.find([]byte(large)) != nil {
		t.Errorf("%d texts are known in an order of %d, want %d", len(known.known), len(known.order), maxTexts)
	}
}
