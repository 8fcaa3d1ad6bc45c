package tune

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/cascade-run/cascade/tune/core"
)

// Metrics are what a trainable reports: numbers, texts, and maps of them.
type Metrics = map[string]any

// ErrStopped is returned by Report when the trial has to end. A trainable returns it.
var ErrStopped = errors.New("the trial is stopped")

// Func is a trainable as a function. It runs on a goroutine of its own, and reports as often as it likes. When it
// returns nil the trial has ended.
type Func func(ctx context.Context, t *Trial) error

// Class is a trainable as an object: one for each attempt at a trial. Its methods are called one after another.
type Class interface {
	// Setup prepares the training with the configuration of the trial.
	Setup(ctx context.Context, t *Trial) error
	// Step trains a little and returns metrics. The metric "done" with the value true ends the trial.
	Step(ctx context.Context) (Metrics, error)
	// Save writes the state of the training to an empty folder.
	Save(ctx context.Context, folder string) error
	// Load continues from a folder that Save has written. It is called after Setup.
	Load(ctx context.Context, folder string) error
}

// Closer is a Class that has something to release when its trial leaves the worker.
type Closer interface{ Close() error }

// Resetter is a Class that can go on with another trial: Reset replaces Setup, and false means that a new object is
// needed.
type Resetter interface {
	Reset(ctx context.Context, t *Trial) (bool, error)
}

// Trainable names a registered training, or one that is a program (Command, Serve).
type Trainable struct {
	Name    string       `json:"name,omitempty"`
	Command *CommandSpec `json:"command,omitempty"`
	Serve   *ServeSpec   `json:"serve,omitempty"`
}

type registered struct {
	run   Func
	class func() Class
}

var (
	registryMu sync.Mutex
	registry   = map[string]registered{}
)

// Register registers a function under a name, in a package-level variable, so that the processes of actors have it too.
// A name that is taken panics.
func Register(name string, f Func) Trainable { return register(name, registered{run: f}) }

// RegisterClass registers a constructor of objects.
func RegisterClass(name string, fresh func() Class) Trainable {
	return register(name, registered{class: fresh})
}

func register(name string, r registered) Trainable {
	registryMu.Lock()
	defer registryMu.Unlock()
	if _, taken := registry[name]; taken || name == "" {
		panic(fmt.Sprintf("tune: the name %q of a trainable is taken or empty: choose another", name))
	}
	registry[name] = r
	return Trainable{Name: name}
}

func (t Trainable) find() (registered, error) {
	if t.Command != nil {
		return registered{run: t.Command.run}, nil
	}
	if t.Serve != nil {
		return t.Serve.registered(), nil
	}
	registryMu.Lock()
	defer registryMu.Unlock()
	r, ok := registry[t.Name]
	if !ok {
		return r, fmt.Errorf("no trainable has the name %q in this program: register it in a package-level variable (tune.Register)", t.Name)
	}
	return r, nil
}

// Trial is what a trainable knows of its trial, and how it reports. Its methods may be called from one goroutine at a time.
type Trial struct {
	request Request
	attempt *attempt
}

// ID returns the number of the trial.
func (t *Trial) ID() core.ID { return t.request.Trial }

// Name returns the name of the trial in files and tables.
func (t *Trial) Name() string { return core.TrialName(t.request.Trial) }

// Attempt returns which attempt at the trial this is, from 1.
func (t *Trial) Attempt() int { return t.request.Attempt }

// Values returns the configuration.
func (t *Trial) Values() core.Values { return t.request.Config }

// Config reads the configuration into a struct, by its JSON names.
func (t *Trial) Config(into any) error {
	b, err := json.Marshal(t.request.Config)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("the configuration of trial %d: %w", t.request.Trial, err)
	}
	return nil
}

// Iteration returns how many results the trial has: those of the checkpoint that it continues, and those of this attempt.
func (t *Trial) Iteration() int64 { return t.attempt.iterations() }

// Checkpoint returns the folder of the checkpoint from which the trial continues. It is read-only.
func (t *Trial) Checkpoint() (folder string, ok bool) {
	if t.request.From == nil {
		return "", false
	}
	return t.request.path(t.request.From.Name), true
}

// ReportOption adds to a report.
type ReportOption func(*report)

type report struct{ checkpoint string }

// WithCheckpoint adds a folder with the state of the training, which is copied.
func WithCheckpoint(folder string) ReportOption {
	return func(r *report) { r.checkpoint = folder }
}

// Report reports metrics. It returns when the training may go on, which is at once unless a decision depends on this
// result. It returns ErrStopped when the trial has to end.
func (t *Trial) Report(ctx context.Context, m Metrics, opts ...ReportOption) error {
	r := report{}
	for _, o := range opts {
		o(&r)
	}
	return t.attempt.report(ctx, m, r)
}
