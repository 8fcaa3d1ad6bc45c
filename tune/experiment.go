package tune

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cascade-run/cascade/tune/core"
	"github.com/cascade-run/cascade/tune/journal"
	"github.com/cascade-run/cascade/tune/search"
)

// Experiment is an experiment that runs.
type Experiment struct {
	tuner    *Tuner
	folder   string
	core     *core.Core // of the loop's goroutine
	journal  *journal.Writer
	searcher search.Searcher
	asked    core.ID // the number of the next suggestion

	base    time.Duration // for how long it ran before
	begun   time.Time
	events  chan core.Event
	orders  chan order // of other processes
	ctx     context.Context
	cancel  context.CancelFunc
	over    chan struct{} // the loop has ended
	err     error
	workers sync.WaitGroup
	aside   sync.WaitGroup // searcher, callbacks, deletions
	running map[place]*attempts
	pool    pool
	search  line[core.Action]
	told    chan struct{} // the searcher is told of no more
	asking  atomic.Bool   // the searcher is asked for a suggestion
	notices line[core.Action]

	// Of a replay: what the searcher was to hear when it answered an Ask.
	owed []core.Action
}

type place struct {
	trial   core.ID
	attempt int
}

const most = 256 // events of one commit

func newExperiment(t *Tuner, folder string, c *core.Core, s search.Searcher) *Experiment {
	return &Experiment{tuner: t, folder: folder, core: c, searcher: s, events: make(chan core.Event, 4*most), orders: make(chan order), over: make(chan struct{}), told: make(chan struct{}), running: map[place]*attempts{}}
}

// replay has an event of the journal happen once more. Nothing is done, and the searcher hears what it heard.
func (x *Experiment) replay(r *journal.Record) error {
	actions := x.core.Step(&r.Event)
	if err := differ(r, actions); err != nil {
		return err
	}
	switch r.Event.Kind {
	case core.Suggested:
		x.hear(&r.Event)
	case core.Begun: // questions that were not answered were never asked
		x.hear(nil)
	}
	for _, a := range actions {
		if a.Kind == core.Ask || a.Kind == core.Tell || a.Kind == core.Complete {
			x.owed = append(x.owed, a)
		}
	}
	return nil
}

// hear passes on to the searcher what it was told before it answered a question, and its answer; without one, all
// that it was told.
func (x *Experiment) hear(answer *core.Event) {
	for len(x.owed) > 0 {
		a := x.owed[0]
		x.owed = x.owed[1:]
		if a.Kind != core.Ask {
			search.Heed(x.searcher, &a)
			continue
		}
		if answer == nil {
			continue
		}
		if a.N -= answer.N; a.N > 0 { // more answers to this question follow
			x.owed = append([]core.Action{a}, x.owed...)
		}
		for _, config := range answer.Configs {
			if s, ok := x.searcher.(search.Adopter); ok {
				s.Adopt(x.asked, config)
			} else if _, err := x.searcher.Suggest(x.asked); err != nil {
				x.log("the searcher does not repeat its suggestion for trial %d: %v", x.asked, err)
			}
			x.asked++
		}
		if answer.Cause != "" { // it has said so once more
			_ = search.Answer(x.searcher, x.asked, 1)
		}
		return
	}
}

// ErrDiffers says that a core has decided otherwise than its record says.
var ErrDiffers = errors.New("the decision differs from the recorded one")

// differ compares actions with those of a record.
func differ(r *journal.Record, actions []core.Action) error {
	var kept []core.Action
	for _, a := range actions {
		if !a.Kind.Derived() {
			kept = append(kept, a)
		}
	}
	if len(kept) == 0 && len(r.Do) == 0 {
		return nil
	}
	is, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	was, err := json.Marshal(r.Do)
	if err != nil {
		return err
	}
	if string(is) != string(was) {
		return fmt.Errorf("event %d, %s of trial %d: %w\n  recorded: %s\n  now:      %s", r.N, r.Event.Kind, r.Event.Trial, ErrDiffers, was, is)
	}
	return nil
}

func (x *Experiment) log(format string, args ...any) {
	if x.tuner.Log != nil {
		x.tuner.Log(fmt.Sprintf(format, args...))
	}
}

// Folder returns the folder of the experiment.
func (x *Experiment) Folder() string { return x.folder }

// Order has a user's order happen, such as core.OrderStop. It may be called from any goroutine.
func (x *Experiment) Order(what string, trial core.ID, n int) {
	x.send(core.Event{Kind: core.Ordered, Order: what, Trial: trial, N: n})
}

// send puts an event in front of the core, unless the loop has ended.
func (x *Experiment) send(e core.Event) {
	select {
	case x.events <- e:
	case <-x.over:
	}
}

func (x *Experiment) begin(ctx context.Context, redo core.Redo) {
	x.hear(nil)
	x.owed = nil
	x.base, x.begun = x.core.Now(), time.Now()
	x.asked = core.ID(len(x.core.Trials()))
	x.ctx, x.cancel = context.WithCancel(ctx)
	x.pool.executor = x.tuner.Executor
	x.search.changed.L, x.notices.changed.L = &x.search.mu, &x.notices.mu
	x.aside.Add(2)
	go x.suggest()
	go x.notify()
	x.listen()
	go x.loop(core.Event{Kind: core.Begun, Slots: x.tuner.Executor.Slots(), Redo: redo})
}

// Wait returns the results when the experiment has ended. If it was interrupted its error says so.
func (x *Experiment) Wait() (*Grid, error) {
	<-x.over
	if x.err != nil {
		return nil, x.err
	}
	return newGrid(x.folder, x.core, x.tuner.Options), nil
}

// loop takes events, commits them with what they decide, and does it.
func (x *Experiment) loop(first core.Event) {
	defer close(x.over)
	var budget <-chan time.Time
	if b := x.tuner.Options.Budget; b > 0 {
		timer := time.NewTimer(max(0, b-x.base))
		defer timer.Stop()
		budget = timer.C
	}
	err := x.commit([]core.Event{first})
	batch := make([]core.Event, 0, most)
	for err == nil && !x.core.Finished() {
		batch = batch[:0]
		select {
		case e := <-x.events:
			batch = append(batch, e)
		case <-budget:
			batch = append(batch, core.Event{Kind: core.Ticked})
		case o := <-x.orders:
			err = x.obey(o)
			continue
		case <-x.ctx.Done():
			err = fmt.Errorf("the experiment in %s was interrupted, resume it to go on: %w", x.folder, context.Cause(x.ctx))
			continue
		}
	more:
		for len(batch) < most {
			select {
			case e := <-x.events:
				batch = append(batch, e)
			default:
				break more
			}
		}
		err = x.commit(batch)
	}
	x.end(err)
}

// commit records events with the actions that follow, and then carries those out.
func (x *Experiment) commit(events []core.Event) error {
	var actions []core.Action
	for i := range events {
		e := &events[i]
		e.At = x.base + time.Since(x.begun)
		a := x.core.Step(e)
		if err := x.journal.Add(e, a); err != nil {
			return err
		}
		actions = append(actions, a...)
		if x.core.Finished() { // what comes behind changes nothing
			break
		}
	}
	if err := x.journal.Sync(); err != nil {
		return fmt.Errorf("%w: nothing was decided since the last commit; make room and resume the experiment in %s", err, x.folder)
	}
	for i := range actions {
		x.perform(actions[i])
	}
	return nil
}

func (x *Experiment) perform(a core.Action) {
	at := place{a.Trial, a.Attempt}
	switch a.Kind {
	case core.Ask:
		x.search.put(a)
	case core.Start:
		x.running[at] = x.attempt(a)
		x.notices.put(a)
	case core.Go, core.Save, core.Stop:
		x.running[at].tell(a)
		if a.Kind == core.Stop {
			delete(x.running, at)
		}
	case core.Delete:
		x.aside.Go(func() { x.remove(a.Names) })
	case core.Tell, core.Complete, core.Recover:
		x.search.put(a)
		x.notices.put(a)
		if a.Kind == core.Complete {
			x.running[at].tell(a)
			delete(x.running, at)
		}
	case core.Warn:
		x.log("%s", a.Reason)
		x.notices.put(a)
	case core.Finish:
		x.notices.put(a)
	}
}

func (x *Experiment) remove(names []string) {
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(x.folder, filepath.FromSlash(name))); err != nil {
			x.log("delete checkpoint %s: %v", name, err)
		}
	}
}

// end stops what runs, and leaves the folder to others.
func (x *Experiment) end(err error) {
	for _, r := range x.running {
		r.tell(core.Action{Kind: core.Stop})
	}
	x.cancel()
	done := make(chan struct{})
	go func() { // they may have events for the core, which are not read any more
		x.workers.Wait()
		close(done)
	}()
drain:
	for {
		select {
		case <-x.events:
		case <-done:
			break drain
		}
	}
	x.search.close()
	x.notices.close()
	x.pool.close()
	if err == nil { // else it is told when the experiment is resumed
		x.hearOut()
	}
	if c, ok := x.tuner.Searcher.(io.Closer); ok { // it may be asked just now
		_ = c.Close() // nothing is asked any more
	}
	x.aside.Wait()
	x.err = errors.Join(err, x.journal.Close())
}

// hearOut waits until the searcher was told of all that has happened, as long as it goes on to listen. It does not wait
// for a suggestion that no trial needs any more.
func (x *Experiment) hearOut() {
	for before := -1; ; {
		taken, left := x.search.count()
		switch {
		case left == 0 && x.asking.Load():
			return
		case taken == before:
			x.log("the searcher was not told of the last results: it has not answered for %s", serveGrace)
			return
		}
		before = taken
		select {
		case <-x.told:
			return
		case <-time.After(serveGrace):
		}
	}
}

// suggest asks the searcher, and tells it what has happened, in the order of the actions.
func (x *Experiment) suggest() {
	defer x.aside.Done()
	defer close(x.told)
	for {
		a, ok := x.search.take()
		if !ok {
			return
		}
		if a.Kind != core.Ask {
			search.Heed(x.searcher, &a)
			continue
		}
		if a.Reason != "" { // it had none, and nothing runs
			select {
			case <-time.After(100 * time.Millisecond):
			case <-x.ctx.Done():
			}
		}
		x.asking.Store(true)
		x.answer(a.N)
		x.asking.Store(false)
	}
}

// answer passes on n answers of the searcher, each as it comes: the next may take long.
func (x *Experiment) answer(n int) {
	for n > 0 && x.ctx.Err() == nil {
		e := search.Answer(x.searcher, x.asked, 1)
		x.asked += core.ID(len(e.Configs))
		if e.Cause != "" || e.Error != "" {
			e.N = n // there are no more answers to this question
		}
		n -= e.N
		select {
		case x.events <- e:
		case <-x.ctx.Done():
		}
	}
}

func (x *Experiment) notify() {
	defer x.aside.Done()
	for {
		a, ok := x.notices.take()
		if !ok {
			return
		}
		for _, f := range x.tuner.Callbacks {
			if err := f(a); err != nil {
				x.log("a callback failed at %s of trial %d: %v", a.Kind, a.Trial, err)
			}
		}
	}
}

// line is a queue without a bound, for one reader.
type line[T any] struct {
	mu      sync.Mutex
	changed sync.Cond
	items   []T
	taken   int // items so far
	closed  bool
}

func (l *line[T]) put(x T) {
	l.mu.Lock()
	l.items = append(l.items, x)
	l.mu.Unlock()
	l.changed.Signal()
}

func (l *line[T]) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.changed.Signal()
}

// take returns the next item, and false when the line is closed and empty.
func (l *line[T]) take() (x T, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.items) == 0 && !l.closed {
		l.changed.Wait()
	}
	if len(l.items) == 0 {
		return x, false
	}
	x = l.items[0]
	l.items = l.items[1:]
	l.taken++
	return x, true
}

// count tells how many items were taken, and how many there are to take.
func (l *line[T]) count() (taken, left int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.taken, len(l.items)
}
