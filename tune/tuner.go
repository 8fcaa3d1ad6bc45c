package tune

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/cascade-run/cascade/internal/near"
	"github.com/cascade-run/cascade/tune/core"
	"github.com/cascade-run/cascade/tune/journal"
	"github.com/cascade-run/cascade/tune/search"
	"github.com/cascade-run/cascade/tune/space"
)

// Options are the rules of an experiment; see core.Options.
type Options = core.Options

// Tuner describes an experiment. Trainable and Space, or Searcher, are required.
type Tuner struct {
	Name      string // of the folder in Storage: letters, digits, and . _ - within
	Storage   string // a folder; the default is ./experiments
	Trainable Trainable
	Space     space.Space
	Options   Options

	Points    []map[string]any // configurations, by path, that are tried first
	Constant  bool             // the points of a grid have the same draws
	Searcher  search.Searcher  // nil: the grid and random draws of Space, or
	Program   *SearcherSpec    // a searcher that is a program
	Limit     int              // so many trials of the searcher have not ended at any time; 0: no bound
	Scheduler core.Scheduler   // nil: core.FIFO
	Executor  Executor         // nil: Local(0)
	Reuse     bool             // objects that are a Resetter go on with the next trial
	Callbacks []Callback
	Log       func(text string) // gets a line for what people should know; nil: none
}

// Notice is what callbacks are told: actions of the kinds Start, Tell, Complete, Recover, Warn and Finish.
type Notice = core.Action

// Callback is told what happens, in order, beside the trials. An error of it is logged and changes nothing.
type Callback func(n Notice) error

// ErrExists says that the folder of a new experiment has one.
var ErrExists = errors.New("there is an experiment of this name")

var goodName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,100}$`)

// Folder returns the folder of the experiment.
func (t *Tuner) Folder() string {
	storage := t.Storage
	if storage == "" {
		storage = "experiments"
	}
	return filepath.Join(storage, t.Name)
}

// Check says what is wrong with the description.
func (t *Tuner) Check() error {
	if !goodName.MatchString(t.Name) {
		return fmt.Errorf("the name %q of the experiment: use letters, digits, and . _ - within", t.Name)
	}
	if _, err := t.Trainable.find(); err != nil {
		return err
	}
	if t.Space == nil && t.Searcher == nil && t.Program == nil {
		return errors.New("the experiment has no space: name parameters, or give it a searcher")
	}
	if err := t.misspelt(); err != nil {
		return err
	}
	if t.Options.KeepBy == "" && t.Options.KeepMin {
		return errors.New("keep_min without keep_by: name the metric of the best checkpoints")
	}
	return checked(t.Scheduler)
}

var placeholder = regexp.MustCompile(`\{([\w./-]+)\}`)

// misspelt says which names mean nothing: of domains, of parameters that a scheduler changes, and that a program gets.
func (t *Tuner) misspelt() error {
	if err := t.Space.Misspelt(); err != nil {
		return err
	}
	if t.Searcher != nil || t.Program != nil || len(t.Space) == 0 {
		return nil // it knows the parameters
	}
	if s, ok := t.Scheduler.(interface{ Parameters() []string }); ok {
		for _, path := range s.Parameters() {
			if err := t.Space.Has(path); err != nil {
				return fmt.Errorf("the scheduler changes %s: %w", path, err)
			}
		}
	}
	if t.Trainable.Command == nil {
		return nil
	}
	texts := slices.Concat(t.Trainable.Command.Args, slices.Sorted(maps.Values(t.Trainable.Command.Env)))
	for _, m := range placeholder.FindAllStringSubmatch(strings.Join(texts, "\n"), -1) {
		known := t.Space.Paths() // others in braces may be text of the program
		if meant := near.Name(m[1], known); meant != "" && !slices.Contains(known, m[1]) {
			return fmt.Errorf("the program gets %s: the space has no parameter %q: did you mean %q?", m[0], m[1], meant)
		}
	}
	return nil
}

// Run runs a new experiment to its end and returns its results. When ctx ends the experiment is interrupted, and
// Resume goes on with it. Failed trials are no error of Run: see Grid.Errors.
func (t *Tuner) Run(ctx context.Context) (*Grid, error) {
	x, err := t.Start(ctx)
	if err != nil {
		return nil, err
	}
	return x.Wait()
}

// Resume goes on with the experiment of a folder, which may have been moved. The specification in the folder
// holds; the tuner provides its Executor, Callbacks, and what is Go code.
func (t *Tuner) Resume(ctx context.Context, folder string, redo core.Redo) (*Grid, error) {
	x, err := t.StartAgain(ctx, folder, redo)
	if err != nil {
		return nil, err
	}
	return x.Wait()
}

// Start begins a new experiment.
func (t *Tuner) Start(ctx context.Context) (*Experiment, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	folder := t.Folder()
	if _, err := os.Stat(filepath.Join(folder, journal.File)); err == nil {
		return nil, fmt.Errorf("%s: %w: resume it, or choose another name", folder, ErrExists)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of the experiment: %w", err)
	}
	copied := *t
	return copied.start(ctx, folder, core.Redo{}, true)
}

// StartAgain begins to resume an experiment; see Resume.
func (t *Tuner) StartAgain(ctx context.Context, folder string, redo core.Redo) (*Experiment, error) {
	s, err := ReadSpec(folder)
	if err != nil {
		return nil, err
	}
	copied := *t
	if err := s.complete(&copied); err != nil {
		return nil, err
	}
	if err := copied.Check(); err != nil {
		return nil, err
	}
	return copied.start(ctx, folder, redo, false)
}

func (t *Tuner) start(ctx context.Context, folder string, redo core.Redo, fresh bool) (_ *Experiment, err error) {
	folder, err = filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	if t.Executor == nil {
		t.Executor = Local(0)
	}
	if t.Program != nil && t.Searcher == nil {
		p, err := t.Program.start(ctx, folder)
		if err != nil {
			return nil, err
		}
		t.Searcher = p
		defer func() {
			if err != nil {
				_ = p.Close() // it has not begun
			}
		}()
	}
	searcher, trials, err := t.searcher()
	if err != nil {
		return nil, err
	}
	spec, err := t.spec()
	if err != nil {
		return nil, err
	}
	spec.Trials = trials
	options := t.Options
	options.Samples = trials
	x := newExperiment(t, folder, core.New(options, t.Scheduler), searcher)
	if x.journal, err = journal.Open(folder, x.replay); err != nil {
		return nil, err
	}
	if fresh {
		if err := spec.write(folder); err != nil {
			return nil, errors.Join(err, x.journal.Close())
		}
	}
	x.begin(ctx, redo)
	return x, nil
}
