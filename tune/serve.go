package tune

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cascade-run/cascade/tune/core"
)

// ServeSpec is a training that is a program which serves trial after trial, such as the worker of the Python library.
// Each worker of the executor has one process of it. In the arguments {experiment} is replaced by the folder of the
// experiment.
//
// The process reads requests and writes answers, one object of JSON a line:
//
//	{"do": "start", "trial": "t00003", "id": 3, "attempt": 1, "config": {…}, "folder": …, "checkpoint": …, "iteration": 5}
//
// begins a trial. Of a function, reports follow, each of which is answered when it may go on, and then the end:
//
//	{"report": {"loss": 0.5}, "checkpoint": "/tmp/x"}      {"go": true} or {"stop": true}
//	{"done": true} or {"error": "…"}
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
}

type serveRequest struct {
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
	Report     core.Values `json:"report"`
	Checkpoint string      `json:"checkpoint"`
	OK         bool        `json:"ok"`
	Done       bool        `json:"done"`
	Error      string      `json:"error"`

	Config   core.Values `json:"config"` // of a searcher
	NotNow   bool        `json:"not_now"`
	Finished bool        `json:"finished"`
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
func (s *ServeSpec) run(ctx context.Context, t *Trial) (err error) {
	w := t.attempt.worker
	p := w.serving.Load()
	if p == nil {
		if p, err = startProcess(s.Args, s.Dir, t.request.Folder); err != nil {
			return err
		}
		w.serving.Store(p)
	}
	defer func() {
		if p.ended() {
			w.serving.CompareAndSwap(p, nil)
		}
	}()
	request, err := startRequest(t)
	if err != nil {
		return err
	}
	p.log = filepath.Join(request.Folder, "output.log")
	for {
		a, err := p.ask(ctx, request)
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
		request = &serveRequest{Go: true}
		if err := t.Report(ctx, Metrics(a.Report), opts...); err != nil {
			// The function is told in any case, so that the process can serve the next trial.
			a, e := p.ask(ctx, &serveRequest{Stop: true})
			if e == nil && !a.Done && a.Error == "" {
				e = fmt.Errorf("%s reports although it was stopped", s.Args[0])
			}
			if e != nil {
				p.kill()
			}
			return err
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
	_, err = s.ask(ctx, request)
	return true, err
}

// Step trains a little.
func (s *served) Step(ctx context.Context) (Metrics, error) {
	a, err := s.ask(ctx, &serveRequest{Do: "step"})
	return Metrics(a.Report), err
}

// Save writes a checkpoint.
func (s *served) Save(ctx context.Context, folder string) error {
	_, err := s.ask(ctx, &serveRequest{Do: "save", Path: folder})
	return err
}

// Load continues from a checkpoint.
func (s *served) Load(ctx context.Context, folder string) error {
	_, err := s.ask(ctx, &serveRequest{Do: "load", Path: folder, Iteration: s.trial.Iteration()})
	return err
}

// Close ends the process.
func (s *served) Close() error {
	if s.process == nil || s.process.ended() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), serveGrace)
	defer cancel()
	_, err := s.ask(ctx, &serveRequest{Do: "close"})
	s.process.kill()
	return err
}

func (s *served) ask(ctx context.Context, r *serveRequest) (serveAnswer, error) {
	a, err := s.process.ask(ctx, r)
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	return a, err
}

// serveGrace is how long a process has for an answer when its trial is to end.
const serveGrace = 5 * time.Second

// process is a program that serves trials. Its methods, but for kill, are called one after another.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan []byte   // of its output, until that ends
	over  chan struct{} // it has ended, and was waited for
	last  *tail         // of its standard error
	log   string        // where what it serves writes its standard error instead, or empty
}

// startProcess starts a program in a folder, for an experiment.
func startProcess(args []string, dir, experiment string) (*process, error) {
	if len(args) == 0 {
		return nil, errors.New("the program has no arguments: name it")
	}
	if dir == "" {
		dir = experiment
	}
	args = slices.Clone(args)
	for i, a := range args {
		args[i] = strings.ReplaceAll(a, "{experiment}", experiment)
	}
	p := &process{cmd: exec.Command(args[0], args[1:]...), lines: make(chan []byte), over: make(chan struct{}), last: &tail{to: io.Discard}}
	p.cmd.Dir, p.cmd.Stderr = dir, p.last
	group(p.cmd)
	p.cmd.Cancel = nil // it has no context
	p.cmd.WaitDelay = serveGrace
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		p.in, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", strings.Join(args, " "), err)
	}
	go p.read(out)
	return p, nil
}

func (p *process) read(out io.Reader) {
	from := bufio.NewReaderSize(out, 64<<10)
	for {
		line, err := from.ReadBytes('\n')
		if err != nil || len(line) > lineLimit {
			break
		}
		p.lines <- line
	}
	close(p.lines)
	endGroup(p.cmd)
	_ = p.cmd.Wait() // why it ended is in the log of its trial
	close(p.over)
}

// kill ends the process and all that it has started.
func (p *process) kill() {
	endGroup(p.cmd)
	for range p.lines { // so that its reader ends
	}
	<-p.over
}

func (p *process) ended() bool {
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

// ask sends a request and returns the answer. When ctx has ended it comes soon, or the process is killed.
func (p *process) ask(ctx context.Context, r *serveRequest) (a serveAnswer, err error) {
	b, err := json.Marshal(r)
	if err != nil {
		return a, fmt.Errorf("encode the configuration: %w", err)
	}
	if _, err := p.in.Write(append(b, '\n')); err != nil {
		return a, p.crashed()
	}
	var line []byte
	var there bool
	select {
	case line, there = <-p.lines:
	case <-ctx.Done():
		late := time.NewTimer(serveGrace)
		defer late.Stop()
		select {
		case line, there = <-p.lines:
		case <-late.C:
			p.kill()
			return a, ctx.Err()
		}
	}
	if !there {
		return a, p.crashed()
	}
	if err := json.Unmarshal(line, &a); err != nil {
		p.kill()
		return a, fmt.Errorf("read the answer %.100q: %w", line, err)
	}
	return a, nil
}

// crashed says how the process ended, with the last lines of its log.
func (p *process) crashed() error {
	p.kill()
	text := p.last.text()
	if b, err := os.ReadFile(p.log); err == nil && len(b) > 0 {
		text = strings.TrimSpace(string(b[max(0, len(b)-2000):]))
	}
	return fmt.Errorf("%s: %s\n%s", p.cmd.Args[0], p.cmd.ProcessState, text)
}
