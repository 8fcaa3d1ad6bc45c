package tune

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cascade-run/cascade/tune/core"
)

// ServeSpec is a training that is a program which serves trial after trial, such as the worker of the Python library.
// Each worker of the executor has one process of it. In the arguments {experiment} is replaced by the folder of the
// experiment.
//
// The process reads requests and writes answers, one object of JSON a line:
//
//	{"n": 1, "do": "start", "trial": "t00003", "id": 3, "attempt": 1, "config": {…}, "folder": …, "checkpoint": …, "iteration": 5}
//
// begins a trial. Of a function, reports follow, each of which is answered when it may go on, and then the end:
//
//	{"report": {"loss": 0.5}, "checkpoint": "/tmp/x"}      {"go": true} or {"stop": true}
//	{"done": true} or {"error": "…"}
//
// Each request has a number, "n", from 1. An answer may repeat it: one that has another number ends the process, as does
// one that is neither an error nor what the request asks for, and a line of more than 1 MiB.
//
// An object (Class) answers {"ok": true} or {"error": "…"}, and is then told to {"do": "step"}, which it answers with a
// report, to {"do": "save", "path": …}, or to {"do": "close"}. A checkpoint is a folder, which is copied before the
// answer. The standard output belongs to the protocol; what the trial prints goes to output.log in its folder.
type ServeSpec struct {
	Args  []string `json:"args"`
	Dir   string   `json:"dir,omitempty"` // the working folder; empty: that of the experiment
	Class bool     `json:"class,omitempty"`
}

// Serve returns the trainable of a program that serves trials.
func Serve(spec ServeSpec) Trainable { return Trainable{Serve: &spec} }

func (s *ServeSpec) registered() registered {
	if s.Class {
		return registered{class: func() Class { return &served{spec: s} }}
	}
	return registered{run: s.run}
}

// served is an object in a process.
type served struct {
	spec    *ServeSpec
	process *process
	trial   *Trial
	used    bool // the process has begun a trial
}

type serveRequest struct {
	N          uint64      `json:"n"` // the number of the request
	Do         string      `json:"do,omitempty"`
	Trial      string      `json:"trial,omitempty"`
	ID         *core.ID    `json:"id,omitempty"`
	Attempt    int         `json:"attempt,omitempty"`
	Config     core.Values `json:"config,omitempty"`
	Folder     string      `json:"folder,omitempty"`
	Checkpoint string      `json:"checkpoint,omitempty"`
	Iteration  int64       `json:"iteration,omitempty"`
	Path       string      `json:"path,omitempty"`
	Go         bool        `json:"go,omitempty"`
	Stop       bool        `json:"stop,omitempty"`

	Metrics core.Values `json:"metrics,omitempty"` // for a searcher
	How     string      `json:"how,omitempty"`
}

type serveAnswer struct {
	N          uint64      `json:"n"` // of the request; 0: the program does not tell
	Report     core.Values `json:"report"`
	Checkpoint string      `json:"checkpoint"`
	OK         bool        `json:"ok"`
	Done       bool        `json:"done"`
	Error      string      `json:"error"`

	Config   core.Values `json:"config"` // of a searcher
	NotNow   bool        `json:"not_now"`
	Finished bool        `json:"finished"`
}

// check says what is wrong with an answer to request n, which is an error or one of those wanted.
func (a *serveAnswer) check(n uint64, wanted []string) error {
	has := map[string]bool{"report": a.Report != nil, "ok": a.OK, "done": a.Done, "config": a.Config != nil, "not_now": a.NotNow, "finished": a.Finished}
	switch {
	case a.N != 0 && a.N != n:
		return fmt.Errorf("it is for request %d, and this was request %d", a.N, n)
	case a.Error == "" && !slices.ContainsFunc(wanted, func(w string) bool { return has[w] }):
		return fmt.Errorf("want one with error, %s", strings.Join(wanted, ", "))
	}
	return nil
}

func startRequest(t *Trial) (*serveRequest, error) {
	id, folder := t.ID(), t.request.path(t.Name())
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of the trial: %w", err)
	}
	r := &serveRequest{Do: "start", Trial: t.Name(), ID: &id, Attempt: t.Attempt(), Config: t.Values(), Folder: folder, Iteration: t.Iteration()}
	r.Checkpoint, _ = t.Checkpoint()
	return r, nil
}

// run is the function of a trial in the process of the worker.
func (s *ServeSpec) run(ctx context.Context, t *Trial) error {
	w := t.attempt.worker
	request, err := startRequest(t)
	if err != nil {
		return err
	}
	p, a, err := s.begin(ctx, t, w.serving.Load(), request)
	if p != nil {
		w.serving.Store(p)
		defer func() {
			if p.ended() {
				w.serving.CompareAndSwap(p, nil)
			}
		}()
	}
	for {
		switch {
		case err != nil:
			return err
		case a.Error != "":
			return errors.New(a.Error)
		case a.Done:
			return ctx.Err()
		}
		var opts []ReportOption
		if a.Checkpoint != "" {
			opts = append(opts, WithCheckpoint(a.Checkpoint))
		}
		if err := t.Report(ctx, Metrics(a.Report), opts...); err != nil {
			// The function is told in any case, so that the process can serve the next trial.
			_, _ = p.ask(ctx, &serveRequest{Stop: true}, "done") // a process that does not end the trial was killed
			return err
		}
		a, err = p.ask(ctx, &serveRequest{Go: true}, "report", "done")
	}
}

// begin starts a function in the process of the trial before. If that has ended since then, in a new one.
func (s *ServeSpec) begin(ctx context.Context, t *Trial, p *process, r *serveRequest) (*process, serveAnswer, error) {
	for {
		fresh := p == nil || p.ended()
		if fresh {
			var err error
			if p, err = startProcess(s.Args, s.Dir, t.request.Folder); err != nil {
				return nil, serveAnswer{}, err
			}
		}
		p.log = filepath.Join(r.Folder, "output.log")
		a, err := p.ask(ctx, r, "report", "done")
		if fresh || !errors.Is(err, errUnread) {
			return p, a, err
		}
	}
}

// Setup begins the trial in a new process.
func (s *served) Setup(ctx context.Context, t *Trial) (err error) {
	if s.process, err = startProcess(s.spec.Args, s.spec.Dir, t.request.Folder); err != nil {
		return err
	}
	if _, err = s.Reset(ctx, t); err != nil {
		s.process.kill()
	}
	return err
}

// Reset begins the next trial in the process that there is. The process knows whether its object can be reset.
func (s *served) Reset(ctx context.Context, t *Trial) (bool, error) {
	if s.process.ended() {
		return false, nil
	}
	request, err := startRequest(t)
	if err != nil {
		return true, err
	}
	request.Checkpoint = "" // Load is called
	s.trial, s.process.log = t, filepath.Join(request.Folder, "output.log")
	_, err = s.ask(ctx, request, "ok")
	if errors.Is(err, errUnread) && s.used {
		return false, nil // it ended while no trial needed it
	}
	s.used = true
	return true, err
}

// Step trains a little.
func (s *served) Step(ctx context.Context) (Metrics, error) {
	a, err := s.ask(ctx, &serveRequest{Do: "step"}, "report")
	return Metrics(a.Report), err
}

// Save writes a checkpoint.
func (s *served) Save(ctx context.Context, folder string) error {
	_, err := s.ask(ctx, &serveRequest{Do: "save", Path: folder}, "ok")
	return err
}

// Load continues from a checkpoint.
func (s *served) Load(ctx context.Context, folder string) error {
	_, err := s.ask(ctx, &serveRequest{Do: "load", Path: folder, Iteration: s.trial.Iteration()}, "ok")
	return err
}

// Close ends the process.
func (s *served) Close() error {
	if s.process == nil || s.process.ended() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), serveGrace)
	defer cancel()
	_, err := s.ask(ctx, &serveRequest{Do: "close"}, "ok")
	s.process.kill()
	return err
}

func (s *served) ask(ctx context.Context, r *serveRequest, wanted ...string) (serveAnswer, error) {
	a, err := s.process.ask(ctx, r, wanted...)
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	return a, err
}
