package perf

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade"
)

// Actors that programs call, once Register has made them known.
var (
	actors   cascade.Class0[counter]
	actorAdd cascade.ActorMethod1x1[counter, int64, int64]
	actorPID cascade.ActorMethod0x1[counter, int64]
)

var actorFigures = []string{"actor_call", "actor_call_exact", "actor_calls_async", "actor_calls_async_cpu",
	"actor_calls_exact", "actor_calls_exact_cpu", "actor_create", "actor_restart"}

// counter is an actor.
type counter struct{ n int64 }

func newCounter(context.Context) (*counter, error) { return &counter{}, nil }

func (c *counter) add(_ context.Context, by int64) (int64, error) {
	c.n += by
	return c.n, nil
}

func (c *counter) pid(context.Context) (int64, error) { return int64(os.Getpid()), nil }

// MarshalBinary implements encoding.BinaryMarshaler.
func (c *counter) MarshalBinary() ([]byte, error) { return binary.AppendVarint(nil, c.n), nil }

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (c *counter) UnmarshalBinary(state []byte) error {
	c.n, _ = binary.Varint(state)
	return nil
}

func registerActors() {
	actors = cascade.Actor0(classCounter, newCounter)
	actorAdd = cascade.Method1(actors, "Add", (*counter).add, "by -> n")
	actorPID = cascade.Method0(actors, "PID", (*counter).pid, "-> pid")
}

// saveEvery is behind how many calls the state of an actor with exactly once is saved.
const saveEvery = 50

// exactly are the options of an actor; every is 0 for one that is not restarted.
func exactly(every int) []cascade.ActorOption {
	if every == 0 {
		return nil
	}
	return []cascade.ActorOption{cascade.ExactlyOnce(), cascade.SaveEvery(every)}
}

// A program does the following.

// actorLatency is what each of n calls of one actor takes, one after another, in microseconds.
func (p *caller) actorLatency(ctx context.Context, n, every int) ([]float64, error) {
	a := actors.Spawn(ctx, exactly(every)...)
	took := make([]float64, 0, n)
	for i := range n + n/10 {
		began := time.Now()
		if _, err := actorAdd.Go(ctx, a, cascade.Val(int64(1))).Get(ctx); err != nil {
			return nil, err
		}
		if i >= n/10 { // warm
			took = append(took, microseconds(time.Since(began)))
		}
	}
	return took, nil
}

// actorBurst makes n calls of one actor and waits for all.
func (p *caller) actorBurst(ctx context.Context, n, every int) error {
	a := actors.Spawn(ctx, exactly(every)...)
	all := make([]cascade.Future[int64], n)
	for i := range all {
		all[i] = actorAdd.Go(ctx, a, cascade.Val(int64(1)))
	}
	got, err := cascade.GetAll(ctx, all)
	if err == nil && got[n-1] != int64(n) {
		err = fmt.Errorf("the actor counts %d of %d calls", got[n-1], n)
	}
	return err
}

// actorCreate makes n actors and calls each.
func (p *caller) actorCreate(ctx context.Context, n int) error {
	all := make([]cascade.Future[int64], n)
	for i := range all {
		all[i] = actorAdd.Go(ctx, actors.Spawn(ctx), cascade.Val(int64(1)))
	}
	_, err := cascade.GetAll(ctx, all)
	return err
}

// actorRestart has a process with n actors die behind some calls of each. It returns how long one more call of each takes
// before that, and from the death on.
func (p *caller) actorRestart(ctx context.Context, n int) ([]float64, error) {
	const before = 2*saveEvery - 10 // calls: the last 40 run again
	all := make([]cascade.Actor[counter], n)
	for i := range all {
		all[i] = actors.Spawn(ctx, exactly(saveEvery)...)
	}
	count := 0
	each := func() error {
		count++
		fs := make([]cascade.Future[int64], n)
		for i := range fs {
			fs[i] = actorAdd.Go(ctx, all[i], cascade.Val(int64(1)))
		}
		got, err := cascade.GetAll(ctx, fs)
		for _, v := range got {
			if err == nil && v != int64(count) {
				err = fmt.Errorf("an actor counts %d calls, want %d", v, count)
			}
		}
		return err
	}
	for range before {
		if err := each(); err != nil {
			return nil, err
		}
	}
	alive, err := timedOnce(each)
	if err != nil {
		return nil, err
	}
	pid, err := actorPID.Go(ctx, all[0]).Get(ctx)
	if err != nil {
		return nil, err
	}
	died, err := timedOnce(func() error { return errors.Join(unix.Kill(int(pid), unix.SIGKILL), each()) })
	return append(alive, died...), err
}

// The bench measures the following.

// goActors is what a program calls of actors.
func goActors(ctx context.Context, b *bench) error {
	return b.withProgram(ctx, func(p *program) error {
		for _, m := range []struct {
			name string
			run  func(*program) error
		}{{"actor_call", b.actorCalls}, {"actor_calls_async", b.actorBursts}, {"actor_create", b.actorCreates}, {"actor_restart", b.actorRestarts}} {
			wanted := b.wants(m.name)
			switch m.name {
			case "actor_call":
				wanted = wanted || b.wants("actor_call_exact")
			case "actor_calls_async":
				wanted = wanted || b.wants("actor_calls_async_cpu") || b.wants("actor_calls_exact") || b.wants("actor_calls_exact_cpu")
			}
			if !wanted {
				continue
			}
			if err := m.run(p); err != nil {
				return err
			}
		}
		return nil
	})
}

const echoName = "round trip of 64 bytes over a Unix socket (Go's net) to another process, p50"

func (b *bench) actorCalls(p *program) error {
	n := b.size(20_000, 50)
	var echo []float64
	var plain, exact []float64
	for _, q := range []struct {
		question
		to *[]float64
	}{{question{What: "echo", N: n}, &echo}, {question{What: "actor", N: n}, &plain}, {question{What: "actor", N: n, M: saveEvery}, &exact}, {question{What: "echo", N: n}, &echo}} {
		took, err := p.do(q.question)
		if err != nil {
			return err
		}
		*q.to = append(*q.to, took...)
	}
	return errors.Join(
		b.tell(Figure{Name: "actor_call", Value: quantile(plain, 0.5), Unit: "us", Baseline: (echo[0] + echo[1]) / 2, BaselineOf: echoName,
			Note: fmt.Sprintf("%d calls of a method and their Get, one after another; p99 %.0f us", n, quantile(plain, 0.99))}),
		b.tell(Figure{Name: "actor_call_exact", Value: quantile(exact, 0.5), Unit: "us", Baseline: quantile(plain, 0.5), BaselineOf: "actor_call",
			Note: fmt.Sprintf("the same of an actor with ExactlyOnce whose state is saved behind every %d calls; p99 %.0f us", saveEvery, quantile(exact, 0.99))}))
}

func (b *bench) actorBursts(p *program) error {
	n := b.size(50_000, 5000)
	return errors.Join(
		b.rate(p, question{What: "actor burst", N: n}, n, "actor_calls_async", "of a method of one actor, made in a burst by a program and collected by GetAll"),
		b.rate(p, question{What: "actor burst", N: n, M: saveEvery}, n, "actor_calls_exact", fmt.Sprintf("the same of an actor with ExactlyOnce whose state is saved behind every %d calls", saveEvery)))
}

func (b *bench) actorCreates(p *program) error {
	n := b.size(2000, 50)
	rtt, err := socketRTT()
	if err != nil {
		return err
	}
	var took []float64
	for range 4 {
		t, err := p.do(question{What: "actor create", N: n})
		if err != nil {
			return err
		}
		took = append(took, t[0]/1e9)
	}
	return b.tell(Figure{Name: "actor_create", Value: float64(n) / median(took[1:]), Unit: "actors/s", Baseline: 1 / rtt.Seconds(), BaselineOf: rttName + ", one after another",
		Note: fmt.Sprintf("%d actors that are made and called once, in a process that is there; median of 3", n)})
}

func (b *bench) actorRestarts(p *program) error {
	n := b.size(2000, 20)
	took, err := p.do(question{What: "actor restart", N: n})
	if err != nil {
		return err
	}
	return b.tell(Figure{Name: "actor_restart", Value: took[1] / 1e6, Unit: "ms", Baseline: took[0] / 1e6, BaselineOf: "the same calls of actors whose process lives",
		Note: fmt.Sprintf("from the death of a process with %d actors with ExactlyOnce to the answer of the next call of each; 40 calls of each run again", n)})
}
