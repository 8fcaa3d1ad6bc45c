package rehearsal

import (
	"cmp"
	"container/heap"
	"time"

	"github.com/cascade-run/cascade/tune/core"
	"github.com/cascade-run/cascade/tune/search"
)

// Step is what one step of a simulated training does.
type Step struct {
	Metrics    core.Values
	Took       time.Duration
	Done       bool   // it is the last, and has no metrics if those are nil
	Error      string // the step fails
	Lost       bool   // the host is lost
	Checkpoint bool   // a function writes one with this report
}

// Model is the training that is simulated. It is asked for the step with a number, which begins with 1 in a trial that
// starts anew and follows the checkpoint's in another.
type Model func(id core.ID, config core.Values, iteration int64, attempt int) Step

// Stage is an experiment with simulated workers.
type Stage struct {
	Core     *core.Core
	Searcher search.Searcher
	Model    Model
	CanSave  bool
	SaveTime time.Duration
	Slots    int
	Each     func(e *core.Event, actions []core.Action) // is called after each event; it may be nil

	Events []core.Event
	Live   int // workers that run
	Most   int // and ran at once
	now    time.Duration
	due    agenda
	order  int
	at     map[core.ID]*worker
	asked  core.ID
}

type worker struct {
	trial      core.ID
	attempt    int
	config     core.Values
	iteration  int64
	trained    time.Duration
	seq        int
	used       int
	credit     core.Credit
	generation int // what is on the agenda from before an interruption does not count
	idle       bool
}

type item struct {
	at     time.Duration
	order  int
	worker *worker
	gen    int
	event  core.Event
}

type agenda []item

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(a[i].at, a[j].at), cmp.Compare(a[i].order, a[j].order)) < 0
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }

// Push is of heap.Interface.
func (a *agenda) Push(x any) { *a = append(*a, x.(item)) }

// Pop is of heap.Interface.
func (a *agenda) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	*a = (*a)[:last]
	return x
}

// Run runs the experiment to its end, or until so many events have happened; it tells which.
func (s *Stage) Run(most int) (finished bool) {
	if s.at == nil {
		s.at = map[core.ID]*worker{}
		s.Take(core.Event{Kind: core.Begun, Slots: s.Slots})
	}
	for range most {
		if s.Core.Finished() || len(s.due) == 0 {
			break
		}
		next := heap.Pop(&s.due).(item)
		s.now = max(s.now, next.at)
		if next.worker != nil && next.gen != next.worker.generation {
			continue
		}
		s.Take(next.event)
	}
	return s.Core.Finished()
}

// Crash ends all workers, and begins a new runner on a core that has seen all events.
func (s *Stage) Crash(c *core.Core, redo core.Redo) {
	s.due, s.at, s.Live = nil, map[core.ID]*worker{}, 0
	s.Core = c
	for i := range s.Events {
		e := s.Events[i]
		c.Step(&e)
	}
	s.asked = core.ID(len(c.Trials()))
	s.Take(core.Event{Kind: core.Begun, Slots: s.Slots, Redo: redo})
}

// Take has an event happen now.
func (s *Stage) Take(e core.Event) {
	e.At = s.now
	s.Events = append(s.Events, e)
	if w := s.at[e.Trial]; e.Kind == core.Exited && w != nil && w.attempt == e.Attempt {
		s.leave(w)
	}
	actions := s.Core.Step(&e)
	if s.Each != nil {
		s.Each(&e, actions)
	}
	for i := range actions {
		s.perform(&actions[i])
	}
}

func (s *Stage) later(after time.Duration, w *worker, e core.Event) {
	gen := 0
	if w != nil {
		gen = w.generation
		e.Trial, e.Attempt = w.trial, w.attempt
	}
	s.order++
	heap.Push(&s.due, item{s.now + after, s.order, w, gen, e})
}

func (s *Stage) perform(a *core.Action) {
	w := s.at[a.Trial]
	if w != nil && w.attempt != a.Attempt {
		w = nil
	}
	search.Heed(s.Searcher, a)
	switch a.Kind {
	case core.Ask:
		e := search.Answer(s.Searcher, s.asked, a.N)
		s.asked += core.ID(len(e.Configs))
		after := time.Duration(0)
		if a.Reason != "" {
			after = time.Second
		}
		s.later(after, nil, e)
	case core.Start:
		s.start(a)
	case core.Go:
		if w != nil {
			w.credit, w.used, w.idle = *a.Credit, 0, false
			s.train(w)
		}
	case core.Save:
		s.later(s.SaveTime, w, core.Event{Kind: core.Saved, Name: a.Name})
	case core.Stop:
		if w != nil {
			w.generation++
			s.later(0, w, core.Event{Kind: core.Exited, Cause: core.CauseStopped})
			s.leave(w)
		}
	case core.Complete:
		if w != nil {
			s.leave(w)
		}
	}
}

func (s *Stage) start(a *core.Action) {
	if old := s.at[a.Trial]; old != nil {
		s.leave(old)
	}
	w := &worker{trial: a.Trial, attempt: a.Attempt, config: a.Config, credit: *a.Credit}
	if a.From != nil {
		w.iteration, w.trained = a.From.Iteration, time.Duration(a.From.Time*float64(time.Second))
	}
	s.at[a.Trial] = w
	s.Live++
	s.Most = max(s.Most, s.Live)
	s.train(w)
}

func (s *Stage) leave(w *worker) {
	if s.at[w.trial] == w {
		delete(s.at, w.trial)
		s.Live--
	}
}

// train simulates steps until the credit is used, and puts what comes of it on the agenda.
func (s *Stage) train(w *worker) {
	e := core.Event{Kind: core.Reported, Seq: w.seq + 1, CanSave: s.CanSave}
	took := time.Duration(0)
	for {
		step := s.Model(w.trial, w.config, w.iteration+1, w.attempt)
		took += step.Took
		if step.Error != "" || step.Lost {
			cause := core.CauseError
			if step.Lost {
				cause = core.CauseLost
			}
			s.later(took, w, e) // what was reported before arrives
			s.later(took, w, core.Event{Kind: core.Exited, Cause: cause, Error: step.Error})
			return
		}
		if step.Metrics != nil {
			w.iteration++
			w.trained += step.Took
			w.seq++
			w.used++
			r := core.Result{Iteration: w.iteration, Time: w.trained.Seconds(), Metrics: step.Metrics}
			if step.Checkpoint {
				r.Checkpoint = core.CheckpointName(w.trial, w.attempt, w.seq)
			}
			e.Results = append(e.Results, r)
		}
		if e.Done = step.Done; e.Done {
			break
		}
		if n := len(e.Results); n > 0 && w.credit.Used(&e.Results[n-1], w.used) {
			e.Waiting = true
			break
		}
		if len(e.Results) >= 1000 {
			e.Waiting = true // an answer comes, and it goes on
			break
		}
	}
	s.later(took, w, e)
}
