package controller

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/memo"
)

// texts makes graphs of texts of job files, which clients in other languages send. It
// remembers the last few: a program that submits the same text again and again has
// it read once. Its zero value knows none; any goroutine may use it.
type texts struct {
	mu    sync.Mutex
	known map[string]*readText // by the text and the parameters
	order []string             // what was read first comes first
}

type readText struct {
	graph []byte // encoded; it is never changed
	hash  comms.Hash
}

// Bounds of what is remembered.
const (
	maxTexts = 16
	maxText  = 64 << 10 // bytes
)

// parseText returns the graph that a text describes.
func parseText(text, params []byte) (*dag.Graph, error) {
	over := dag.Override{}
	if len(params) > 0 {
		over = dag.Override{File: "params", Data: params}
	}
	return dag.ParseYAML("job", text, over, dag.Options{})
}

// graph returns the graph that a text describes, encoded, and its hash. With retain it keeps
// every dataset.
func (ts *texts) graph(text, params []byte, retain bool) ([]byte, comms.Hash, error) {
	key := text
	if len(params) > 0 || retain {
		key = slices.Concat(text, []byte{0}, params) // no job file has a zero byte
	}
	if retain {
		key = append(key, 0)
	}
	if r := ts.find(key); r != nil {
		return r.graph, r.hash, nil
	}
	g, err := parseText(text, params)
	if err != nil {
		return nil, "", err
	}
	if retain {
		g = g.Retaining()
	}
	b := g.Encode()
	r := &readText{slices.Clip(b), hashOf(b)}
	ts.note(key, r)
	return r.graph, r.hash, nil
}

func (ts *texts) find(text []byte) *readText {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.known[string(text)]
}

func (ts *texts) note(text []byte, r *readText) {
	if len(text) > maxText {
		return
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.known == nil {
		ts.known = map[string]*readText{}
	}
	key := string(text)
	if ts.known[key] != nil { // another link was faster
		return
	}
	if len(ts.order) == maxTexts {
		delete(ts.known, ts.order[0])
		ts.order = slices.Delete(ts.order, 0, 1)
	}
	ts.known[key], ts.order = r, append(ts.order, key)
}

// nameGraph sets the hash of a graph that came with its submit. The text of a job
// file becomes the graph that it describes.
func (ts *texts) nameGraph(m *comms.Submit) (err error) {
	if len(m.Graph) == 0 {
		if m.GraphHash == "" {
			return errors.New("submit: there is no graph")
		}
		return nil
	}
	var h comms.Hash
	if m.Graph[0] < 0x80 { // an encoded graph begins with the head of an array
		if m.Graph, h, err = ts.graph(m.Graph, m.Params, m.Resume != nil); err != nil {
			return err
		}
		m.Params = nil // they are in the graph
		if m.Resume != nil && m.Resume.Job.IsZero() {
			m.Resume = nil
		}
	} else {
		h = hashOf(m.Graph)
	}
	if m.GraphHash != "" && m.GraphHash != h {
		return fmt.Errorf("submit: the graph's hash is %s, and not %s as it says", h, m.GraphHash)
	}
	m.GraphHash = h
	return nil
}

// maxNamed is the most bytes of names in one answer.
const maxNamed = 8 << 20

// answerNamed answers a NamedReq. It opens no file: the client looks at those that are named.
func answerNamed(m *comms.NamedReq) comms.Message {
	bad := func(why string) comms.Message {
		return &comms.Reply{Req: m.Req, Code: comms.CodeBadRequest, Message: why}
	}
	g, err := parseText(m.Text, m.Params)
	if err != nil {
		return bad(err.Error())
	}
	answer, size := &comms.Named{Req: m.Req, Name: g.Name}, 0
	memo.Files(g, func(path string) bool {
		if size += len(path) + 5; size <= maxNamed {
			answer.Files = append(answer.Files, path)
		}
		return size <= maxNamed
	})
	if size > maxNamed {
		return bad(fmt.Sprintf("resume: the job's tasks have more than %d bytes of texts that may name files, the most that a client is told: cascade run --resume looks at them itself", maxNamed))
	}
	return answer
}
