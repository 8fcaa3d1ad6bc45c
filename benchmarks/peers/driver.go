package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// plan says what a run measures.
type plan struct {
	workloads []workload
	systems   []system
	short     bool
	rounds    int
	budget    time.Duration // after which nothing more is measured
}

// bench is a run.
type bench struct {
	plan
	place
	say      func(string)
	began    time.Time
	versions map[string]string
	models   map[string]model
	happened []entry
	spent    []spent
}

// spent is how long a suite took with a system in all rounds: with its start and its end, in seconds.
type spent struct {
	Suite   string  `json:"suite"`
	System  string  `json:"system"`
	Seconds float64 `json:"seconds"`
}

// args of a workload in this run; nil when it is left out.
func (p plan) args(w workload) args {
	if p.short {
		return w.short
	}
	return w.full
}

// suites lists the suites in the order of the table.
func (p plan) suites() (names []string) {
	for _, w := range p.workloads {
		if p.args(w) != nil && !slices.Contains(names, w.suite) {
			names = append(names, w.suite)
		}
	}
	return names
}

// turn is the order of the systems in a round: each is first once, in its turn.
func turn(of []system, round int) []system {
	k := round % len(of)
	return slices.Concat(of[k:], of[:k])
}

// long is what is measured once only: a further round would take more of the time for all than it tells.
const long = 15 * time.Second

// due tells whether a workload is measured with a system in a round. One that failed
// or took long is not asked again, nor what is larger on the same ladder.
func (b *bench) due(w workload, s system, round int) bool {
	if b.args(w) == nil || w.rounds > 0 && round >= w.rounds {
		return false
	}
	return !slices.ContainsFunc(b.happened, func(e entry) bool {
		return e.workload == w.name && e.system == s.name && (e.err != "" || e.took > long)
	})
}

// tooLarge says why a workload is not tried: a smaller one of its ladder has failed, or took so
// long that this one would not end in its time.
func (b *bench) tooLarge(w workload, s system) error {
	for _, smaller := range b.workloads {
		like := w.axis != "" && smaller.axis == w.axis && smaller.size < w.size
		if !like && smaller.name != w.after {
			continue
		}
		for _, e := range b.happened {
			if e.workload != smaller.name || e.system != s.name {
				continue
			}
			if e.err != "" {
				return fmt.Errorf("%w: %s", errSmaller, smaller.name)
			}
			if next := time.Duration(float64(e.took) * w.size / smaller.size); like && b.largestBelow(w) == smaller.name && next > w.limit {
				return fmt.Errorf("%w: at the pace of %s %s, and has %s", errPace, smaller.name, next.Round(time.Second), w.limit)
			}
		}
	}
	return nil
}

// largestBelow names the next smaller workload of a ladder; small ones tell of what is the same for all sizes.
func (b *bench) largestBelow(w workload) (name string) {
	size := 0.0
	for _, x := range b.workloads {
		if x.axis == w.axis && x.size < w.size && x.size > size {
			name, size = x.name, x.size
		}
	}
	return name
}

var (
	errSmaller = errors.New("not tried, a smaller one failed")
	errPace    = errors.New("not tried, it would take too long")
)

var errBudget = errors.New("not measured, the time for all was over")

// grace is for what is being measured when the budget is over.
const grace = 3 * time.Minute

// run measures everything: all suites in the first round, then all again. Errors of
// systems become rows; an error of its own is the context's.
func (b *bench) run(ctx context.Context) error {
	for round := range b.rounds {
		for _, suite := range b.suites() {
			if round > 0 && b.over() {
				b.say(fmt.Sprintf("round %d ends before %s: %s are over", round+1, suite, b.budget))
				return nil
			}
			for _, s := range turn(b.systems, round) {
				var todo []workload
				for _, w := range b.workloads {
					if w.suite == suite && b.due(w, s, round) {
						todo = append(todo, w)
					}
				}
				began := time.Now()
				b.measure(ctx, s, round, b.possible(todo, s, round))
				b.spend(suite, s.name, time.Since(began))
				if err := ctx.Err(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// possible are the workloads that a system is started for; the others have a row that says why not.
func (b *bench) possible(todo []workload, s system, round int) []workload {
	return slices.DeleteFunc(todo, func(w workload) bool {
		err := b.refused(w, s)
		if err != nil {
			b.record(entry{workload: w.name, system: s.name, err: err.Error()}, round)
		}
		return err != nil
	})
}

func (b *bench) over() bool { return time.Since(b.began) > b.budget }

// measure does some workloads with one system.
func (b *bench) measure(ctx context.Context, s system, round int, todo []workload) {
	ctx, stop := context.WithDeadline(ctx, b.began.Add(b.budget+grace))
	defer stop()
	for len(todo) > 0 {
		r, err := b.up(ctx, s, todo[0].hosts)
		if err != nil {
			for _, w := range todo {
				b.record(entry{workload: w.name, system: s.name, err: err.Error()}, round)
			}
			return
		}
		b.versions[s.name] = r.Version
		if _, known := b.models[s.name]; !known && r.hosts.count() == 0 {
			b.models[s.name] = r.model(s)
		}
		alive := true
		for alive && len(todo) > 0 {
			w := todo[0]
			todo = todo[1:]
			if err := b.refused(w, s); err != nil {
				b.record(entry{workload: w.name, system: s.name, err: err.Error()}, round)
				continue
			}
			asked := time.Now()
			a, err := r.ask(ctx, request{w.kind, b.args(w)}, w.limit)
			e := entry{workload: w.name, system: s.name, values: a.Values, took: time.Since(asked)}
			if err != nil {
				e.err = err.Error()
				alive = !errors.Is(err, errTime) && !errors.Is(err, errGone)
			}
			if err == nil && a.Workers != nil {
				if e.values["control_bytes"], err = r.controlMemory(a.Workers); err != nil {
					e.err = err.Error()
				}
			}
			b.record(e, round)
		}
		if err := r.stop(); err != nil {
			b.say(s.name + " left something: " + err.Error())
		}
	}
}

// up starts a system; one that ends at once has a second try.
func (b *bench) up(ctx context.Context, s system, hosts int) (r *runner, err error) {
	if b.over() {
		return nil, errBudget
	}
	r, err = b.start(ctx, s, hosts)
	if errors.Is(err, errGone) {
		b.say(fmt.Sprintf("%s is started again: %v", s.name, err))
		r, err = b.start(ctx, s, hosts)
	}
	return r, err
}

// refused says why a workload is not tried.
func (b *bench) refused(w workload, s system) error {
	if b.over() {
		return errBudget
	}
	return b.tooLarge(w, s)
}

// spend adds to what a suite has taken with a system.
func (b *bench) spend(suite, system string, took time.Duration) {
	k := slices.IndexFunc(b.spent, func(x spent) bool { return x.Suite == suite && x.System == system })
	if k < 0 {
		k = len(b.spent)
		b.spent = append(b.spent, spent{Suite: suite, System: system})
	}
	b.spent[k].Seconds += took.Seconds()
}

// record keeps what happened, and says when it was, how long it took, and what came out.
func (b *bench) record(e entry, round int) {
	b.happened = append(b.happened, e)
	say := func(what, text string) {
		b.say(fmt.Sprintf("%4.0fs round %d  %-14s %5.1fs %-22s %s", time.Since(b.began).Seconds(), round+1, e.system, e.took.Seconds(), what, text))
	}
	if e.err != "" {
		say(e.workload, firstLine(e.err))
		return
	}
	for _, w := range b.workloads {
		if w.name != e.workload {
			continue
		}
		for _, m := range w.metrics {
			if x, ok := m.of(e.values); ok {
				say(w.row(m), number(x)+" "+m.unit)
			}
		}
	}
}
