package cascade_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/internal/testing/tier"
)

// A random program calls functions that run random programs, and compares each result with a serial
// model: what a call returns follows from its number and its arguments. Some calls fail on purpose, and some
// end their process once. sim/program.go has the same under more faults.

type randomOf struct {
	Key   int
	Depth int
	Dir   string
}

var (
	randomTask     cascade.Function2x1[cascade.List[int], randomOf, int]
	randomElements = cascade.Gen1("callsRandomElements", elementsOf, "key -> i")
)

func init() { //nolint:gochecknoinits // Go has no other place for a function that calls itself
	randomTask = cascade.Func2("callsRandom", randomCall, "l, with -> sum")
}

// randomCall is a called task.
func randomCall(ctx context.Context, l cascade.List[int], with randomOf) (int, error) {
	var args []int
	for _, v := range l.All() {
		args = append(args, v)
	}
	if with.Depth > 0 {
		if err := runRandom(ctx, with); err != nil {
			return 0, err
		}
	}
	if with.Key%9 == 4 {
		if n, err := mark(with.Dir, fmt.Sprint("dies", with.Key)); err != nil || n == 1 {
			return 0, errors.Join(err, syscall.Kill(os.Getpid(), syscall.SIGKILL))
		}
	}
	if failsOnPurpose(with.Key) {
		return 0, errNoData
	}
	return modelOf(with.Key, args), nil
}

func failsOnPurpose(key int) bool { return key%8 == 1 }

// modelOf is what a call must return.
func modelOf(key int, args []int) int {
	h := fnv.New32a()
	fmt.Fprint(h, key, args)
	return int(h.Sum32())
}

func elementsOf(_ context.Context, key int) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		for i := range 1 + key%4 {
			if !yield(modelOf(key, []int{i}), nil) {
				return
			}
		}
	}
}

// randomVar is a call that was made, a value that was put, or an element of a stream.
type randomVar struct {
	f         cascade.Future[int]
	want      int
	reads     []*randomVar
	call      bool
	element   bool // to release it releases all of its stream
	fails     bool // itself, or what it reads
	cancelled bool
	off       bool // released
}

// mayBeCancelled tells whether it, or what it reads, was cancelled, perhaps too late.
func (v *randomVar) mayBeCancelled() bool {
	return v.cancelled || slices.ContainsFunc(v.reads, (*randomVar).mayBeCancelled)
}

// randomRun is a program that runs.
type randomRun struct {
	ctx  context.Context
	r    *rand.Rand
	with randomOf
	vars []*randomVar
	next int
}

func runRandom(ctx context.Context, with randomOf) error {
	p := &randomRun{ctx: ctx, r: rand.New(rand.NewPCG(uint64(with.Key), 1)), with: with}
	for range 2 + p.r.IntN(7) {
		if err := p.act(); err != nil {
			return err
		}
	}
	for _, v := range p.vars {
		if err := p.get(v); err != nil {
			return err
		}
	}
	return nil
}

func (p *randomRun) act() error {
	switch kind := p.r.IntN(9); {
	case kind < 4 || len(p.vars) == 0:
		p.call()
	case kind == 4:
		v := &randomVar{want: p.number()}
		var err error
		if v.f, err = cascade.Put(p.ctx, v.want); err != nil {
			return err
		}
		p.vars = append(p.vars, v)
	case kind == 5:
		return p.stream()
	case kind == 6:
		return p.wait()
	case kind == 7:
		v := p.any()
		if p.r.IntN(2) == 0 && !v.off && !v.element {
			v.off = true
			v.f.Release()
		} else if v.call && !v.off {
			v.cancelled = true
			v.f.Cancel("by lot")
		}
	default:
		return p.get(p.any())
	}
	return nil
}

func (p *randomRun) any() *randomVar { return p.vars[p.r.IntN(len(p.vars))] }

// number names what the program makes next.
func (p *randomRun) number() int {
	p.next++
	return modelOf(p.with.Key, []int{p.next, p.with.Depth})
}

func (p *randomRun) call() {
	v := &randomVar{call: true}
	var args []cascade.CallArg[int]
	var words []int
	for range p.r.IntN(3) {
		if of := p.r.IntN(2 * (len(p.vars) + 1)); of < len(p.vars) && !p.vars[of].off {
			o := p.vars[of]
			v.reads, v.fails = append(v.reads, o), v.fails || o.fails
			args, words = append(args, o.f), append(words, o.want)
			continue
		}
		n := p.number()
		args, words = append(args, cascade.Val(n)), append(words, n)
	}
	with := randomOf{p.number(), p.with.Depth - 1, p.with.Dir}
	v.want, v.fails = modelOf(with.Key, words), v.fails || failsOnPurpose(with.Key)
	ctx := p.ctx
	if p.r.IntN(3) == 0 {
		ctx = cascade.Strand(ctx, "other")
	}
	v.f = randomTask.Go(ctx, cascade.Args(args...), cascade.Val(with))
	p.vars = append(p.vars, v)
}

func (p *randomRun) stream() error {
	key, n := p.number(), 0
	for f, err := range randomElements.Go(p.ctx, cascade.Val(key)).Elements(p.ctx) {
		if err != nil {
			return fmt.Errorf("model: element %d: %w", n, err)
		}
		p.vars = append(p.vars, &randomVar{f: f, want: modelOf(key, []int{n}), element: true})
		n++
	}
	if n != 1+key%4 {
		return fmt.Errorf("model: a stream has %d elements of %d", n, 1+key%4)
	}
	return nil
}

func (p *randomRun) wait() error {
	var fs []cascade.Future[int]
	for _, v := range p.vars {
		if !v.off && p.r.IntN(2) == 0 {
			fs = append(fs, v.f)
		}
	}
	k, ctx, timed := p.r.IntN(len(fs)+1), p.ctx, p.r.IntN(2) == 0
	if timed {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, time.Millisecond)
		defer stop()
	}
	ready, err := cascade.Wait(ctx, fs, k)
	if err != nil || len(ready) > k || len(ready) < k && !timed {
		return fmt.Errorf("model: %d of %d are ready, timed: %v: %w", len(ready), k, timed, errors.Join(err))
	}
	for _, i := range ready {
		if !fs[i].Done() {
			return fmt.Errorf("model: %d is ready and not done", i)
		}
	}
	return nil
}

// get compares a result with the model.
func (p *randomRun) get(v *randomVar) error {
	if v.off {
		return nil
	}
	got, err := v.f.Get(p.ctx)
	switch {
	case err == nil && (got != v.want || v.fails):
		return fmt.Errorf("model: a call returned %d, not %d; it is to fail: %v", got, v.want, v.fails)
	case err == nil, errors.Is(err, errNoData) && v.fails, errors.Is(err, cascade.ErrCancelled) && v.mayBeCancelled():
		return nil
	}
	return fmt.Errorf("model: a call failed for no cause: %w", err)
}

// TestRandomPrograms runs random programs in sessions, and in tasks that they call.
func TestRandomPrograms(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(2))
	for seed := range tier.Rounds(6, 200) {
		s := open(t, c.Client)
		if err := runRandom(s.Context(), randomOf{seed, 2, t.TempDir()}); err != nil {
			t.Errorf("program %d: %v", seed, err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
