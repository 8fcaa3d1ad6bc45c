package tune

import (
	"context"
	"errors"
	"fmt"

	"github.com/cascade-run/cascade/tune/core"
	"github.com/cascade-run/cascade/tune/search"
)

// SearcherSpec is a searcher that is a program, such as the one of the Python library. It reads requests and writes
// answers, one object of JSON a line:
//
//	{"do": "suggest", "id": 3}                             {"config": {…}}, {"not_now": true} or {"finished": true}
//	{"do": "adopt", "id": 3, "config": {…}}                {"ok": true}
//	{"do": "result", "id": 3, "iteration": 5, "metrics": {…}}   {"ok": true}
//	{"do": "complete", "id": 3, "iteration": 9, "metrics": {…}, "how": "done"}   {"ok": true}
//
// Each request has a number, "n", as in ServeSpec. An answer {"error": "…"} ends the experiment. When an experiment is resumed the program is told of all that it was
// told before, and adopts what it had suggested.
type SearcherSpec struct {
	Args []string `json:"args"`
	Dir  string   `json:"dir,omitempty"` // as in ServeSpec
}

// suggesting is a search.Searcher in a process. It ends with the experiment.
type suggesting struct {
	ctx     context.Context // of the experiment: when it has ended an answer comes soon, or the process is killed
	process *process
	failed  error // of what has no answer of its own; the next suggestion says so
}

func (s *SearcherSpec) start(ctx context.Context, experiment string) (*suggesting, error) {
	p, err := startProcess(s.Args, s.Dir, experiment)
	if err != nil {
		return nil, fmt.Errorf("the searcher: %w", err)
	}
	return &suggesting{ctx: ctx, process: p}, nil
}

func (s *suggesting) ask(r *serveRequest, wanted ...string) (a serveAnswer, err error) {
	if s.failed != nil {
		return a, s.failed
	}
	a, err = s.process.ask(s.ctx, r, wanted...)
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	if err != nil {
		s.failed = err
	}
	return a, err
}

// Suggest asks the program.
func (s *suggesting) Suggest(trial core.ID) (core.Values, error) {
	a, err := s.ask(&serveRequest{Do: "suggest", ID: &trial}, "config", "not_now", "finished")
	switch {
	case err != nil:
		return nil, err
	case a.Finished:
		return nil, search.ErrFinished
	case a.NotNow:
		return nil, search.ErrNotNow
	}
	config, err := core.Canonical(map[string]any(a.Config))
	if err != nil {
		return nil, err
	}
	return core.Values(config.(map[string]any)), nil
}

// Adopt tells the program what it has suggested before.
func (s *suggesting) Adopt(trial core.ID, config core.Values) {
	_, _ = s.ask(&serveRequest{Do: "adopt", ID: &trial, Config: config}, "ok") // the next suggestion says what failed
}

// Result tells the program.
func (s *suggesting) Result(trial core.ID, r *core.Result) {
	_, _ = s.ask(&serveRequest{Do: "result", ID: &trial, Iteration: r.Iteration, Metrics: r.Metrics}, "ok") // as above
}

// Complete tells the program.
func (s *suggesting) Complete(trial core.ID, last *core.Result, how core.End) {
	r := &serveRequest{Do: "complete", ID: &trial, How: string(how)}
	if last != nil {
		r.Iteration, r.Metrics = last.Iteration, last.Metrics
	}
	_, _ = s.ask(r, "ok") // as above
}

// Close ends the program, also while it is asked.
func (s *suggesting) Close() error {
	s.process.kill()
	return nil
}
