package tune

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"sync"

	"github.com/cascade-run/cascade/tune/core"
	"github.com/cascade-run/cascade/tune/journal"
)

// Outcome is what became of one trial.
type Outcome struct {
	ID          core.ID           `json:"id"`
	Name        string            `json:"name"`
	Status      core.Status       `json:"status"`
	Phase       core.Phase        `json:"phase,omitempty"`
	Config      core.Values       `json:"config"`
	Tag         string            `json:"tag,omitempty"` // how population based training has changed it
	Last        *core.Result      `json:"last,omitempty"`
	Results     int               `json:"results"`
	Attempts    int               `json:"attempts"`
	Failures    int               `json:"failures,omitempty"`
	End         core.End          `json:"end,omitempty"`
	Reason      string            `json:"reason,omitempty"`
	Error       string            `json:"error,omitempty"`
	Checkpoints []core.Checkpoint `json:"checkpoints,omitempty"`
	Unsaved     int               `json:"unsaved,omitempty"`    // checkpoints that could not be saved
	SaveError   string            `json:"save_error,omitempty"` // why the last of them could not

	trial *core.Trial
}

// Grid is the results of an experiment. It may be used from any goroutine.
type Grid struct {
	Folder  string
	Options Options
	Trials  []Outcome // by their number
	Halted  string    // why the experiment was stopped; empty: it was not
	Missing []string  // metrics that rules name and no result has had: a text for each

	// Interrupted says that the experiment has not ended, and that no process ran it when it was opened.
	Interrupted bool

	once    sync.Once
	history [][]core.Result
	err     error
}

func newGrid(folder string, c *core.Core, o Options) *Grid {
	g := &Grid{Folder: folder, Options: o, Halted: c.Halted(), Missing: c.Missing()}
	for _, t := range c.Trials() {
		g.Trials = append(g.Trials, Outcome{ID: t.ID, Name: core.TrialName(t.ID), Status: t.Status, Phase: t.Phase, Config: t.Config, Tag: t.Tag, Last: t.Last,
			Results: len(t.Scores), Attempts: t.Attempt, Failures: t.Failures, End: t.End, Reason: t.Reason, Error: t.Error, Checkpoints: t.Checkpoints,
			Unsaved: t.Unsaved, SaveError: t.SaveError, trial: t})
	}
	return g
}

// Open reads the results of the experiment in a folder, also while it runs. Its scheduler has to be one of package sched,
// or given.
func Open(folder string, own ...core.Scheduler) (*Grid, error) {
	runs, err := journal.Busy(folder) // before its journal is read, which may end the experiment
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	c, o, err := load(folder, nil, own...)
	if err != nil {
		return nil, err
	}
	folder, err = filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	g := newGrid(folder, c, o)
	g.Interrupted = !runs && !c.Finished()
	return g, nil
}

// load rebuilds the core of a folder. each is called for each record with what the core does; it may be nil.
func load(folder string, each func(*journal.Record, []core.Action) error, own ...core.Scheduler) (*core.Core, Options, error) {
	s, err := ReadSpec(folder)
	if err != nil {
		return nil, Options{}, err
	}
	scheduler := s.Scheduler.Scheduler
	if len(own) > 0 {
		scheduler = own[0]
	}
	for _, o := range s.Own {
		if o == "stopper" || o == "scheduler" && len(own) == 0 {
			return nil, Options{}, fmt.Errorf("the %s of experiment %s is Go code: only the program that ran it can read it", o, s.Name)
		}
	}
	o := s.Options
	o.Samples = s.Trials
	c := core.New(o, scheduler)
	err = journal.Read(folder, func(r *journal.Record) error {
		actions := c.Step(&r.Event)
		if each != nil {
			return each(r, actions)
		}
		return nil
	})
	return c, s.Options, err
}

// Count returns how many trials have a status.
func (g *Grid) Count(s core.Status) (n int) {
	for i := range g.Trials {
		if g.Trials[i].Status == s {
			n++
		}
	}
	return n
}

// Errors returns the trials that ended with an error.
func (g *Grid) Errors() (failed []Outcome) {
	for i := range g.Trials {
		if g.Trials[i].Status == core.Errored {
			failed = append(failed, g.Trials[i])
		}
	}
	return failed
}

// Query says which trial is the best. The zero Query goes by the experiment's metric in the last results.
type Query struct {
	Metric string // empty: that of the experiment
	Max    bool   // with Metric: more is better
	Scope  string // last, all, avg, last-5-avg or last-10-avg; empty: last
	Any    bool   // NaN and infinite values count too
}

// ErrNoResults says that no trial has a value of the metric.
var ErrNoResults = errors.New("no trial has a value of the metric")

// Best returns the best trial and its value. Of equal ones it is the first.
func (g *Grid) Best(q Query) (*Outcome, float64, error) {
	metric, more := g.Options.Metric, g.Options.Max
	if q.Metric != "" {
		metric, more = q.Metric, q.Max
	}
	if metric == "" {
		return nil, 0, errors.New("neither the experiment nor the query names a metric: set Query.Metric")
	}
	scope := q.Scope
	switch scope {
	case "":
		scope = "last"
	case "all":
		scope = map[bool]string{true: "max", false: "min"}[more]
	case "last", "avg", "last-5-avg", "last-10-avg":
	default:
		return nil, 0, noSuch("scope", scope, []string{"last", "all", "avg", "last-5-avg", "last-10-avg"})
	}
	var best *Outcome
	value, odd := math.NaN(), 0
	for i := range g.Trials {
		t := g.Trials[i].trial
		if metric != g.Options.Metric {
			h, err := g.History(t.ID)
			if err != nil {
				return nil, 0, err
			}
			t = &core.Trial{Scores: scores(h, metric)}
		}
		x := t.Score(scope)
		if math.IsNaN(x) || math.IsInf(x, 0) && !q.Any {
			if len(t.Scores) > 0 {
				odd++
			}
			continue
		}
		if best == nil || more && x > value || !more && x < value {
			best, value = &g.Trials[i], x
		}
	}
	if best == nil {
		err := fmt.Errorf("%w %q", ErrNoResults, metric)
		if odd > 0 {
			err = fmt.Errorf("%w: of %d trials it is not a number, infinite or missing", err, odd)
		}
		return nil, value, err
	}
	return best, value, nil
}

func scores(h []core.Result, metric string) []float64 {
	s := make([]float64, len(h))
	for i := range h {
		x, ok := h[i].Value(metric)
		if !ok {
			x = math.NaN()
		}
		s[i] = x
	}
	return s
}

// History returns the results of a trial, read from the journal at the first call. A result that was trained twice is there once.
func (g *Grid) History(id core.ID) ([]core.Result, error) {
	g.once.Do(func() { g.history, g.err = histories(g.Folder, len(g.Trials)) })
	if g.err != nil || int(id) >= len(g.history) {
		return nil, g.err
	}
	return g.history[id], nil
}

// histories follows the results of the trials through the journal, as the core accepts them.
func histories(folder string, n int) ([][]core.Result, error) {
	all := make([][]core.Result, n)
	_, _, err := load(folder, func(_ *journal.Record, actions []core.Action) error {
		for _, a := range actions {
			if a.Kind == core.Tell && int(a.Trial) < n {
				all[a.Trial] = append(all[a.Trial][:min(a.Index, len(all[a.Trial]))], a.Results...)
			}
		}
		return nil
	})
	return all, err
}

// Checkpoint returns the folder of the newest checkpoint of a trial, or an empty text.
func (g *Grid) Checkpoint(o *Outcome) string {
	if len(o.Checkpoints) == 0 {
		return ""
	}
	return filepath.Join(g.Folder, filepath.FromSlash(o.Checkpoints[len(o.Checkpoints)-1].Name))
}
