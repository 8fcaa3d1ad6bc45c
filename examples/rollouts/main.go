// Command rollouts trains a policy on rollouts of ten simulators, each an actor. It is rollouts.py in Go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"

	"github.com/cascade-run/cascade"
)

func main() {
	cascade.Main()
	simulators, steps := flag.Int("simulators", 10, "number of simulators"), flag.Int("steps", 100, "steps of training")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *simulators, *steps); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, simulators, steps int) (err error) {
	cluster, err := cascade.Local(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	session, err := cluster.Session(ctx)
	if err != nil {
		return err
	}
	policy, err := TrainPolicy.Go(session.Context(), cascade.Val(simulators), cascade.Val(steps)).Get(session.Context())
	if err == nil {
		fmt.Printf("gain %.12f after %d steps of %d simulators\n", policy.Gain, steps, simulators)
	}
	return errors.Join(err, session.Close(ctx))
}

// Environment is a ball on a saddle, which rolls off by itself.
type Environment struct {
	random uint64
	x, v   float64
}

// Reset places the ball beside the middle, each time elsewhere.
func (e *Environment) Reset() {
	e.random = (e.random*1103515245 + 12345) % (1 << 31)
	e.x, e.v = float64(e.random)/(1<<31)-0.5, 0
}

// Step pushes the ball, and returns where it is and how fast.
func (e *Environment) Step(action float64) [2]float64 {
	e.v += float64((e.x + action) * 0.125) // the conversions keep processors from rounding once for both operations
	e.x += float64(e.v * 0.125)
	if math.Abs(e.x) > 1 {
		e.Reset()
	}
	return [2]float64{e.x, e.v}
}

// Policy pushes against where the ball is and where it goes.
type Policy struct{ Gain float64 }

func (p Policy) action(observation [2]float64) float64 {
	return min(max(-p.Gain*(observation[0]+observation[1]), -1), 1)
}

// Simulator is the actor.
type Simulator struct{ env Environment }

func newSimulator(_ context.Context, seed int) (*Simulator, error) {
	s := &Simulator{Environment{random: uint64(seed)}}
	s.env.Reset()
	return s, nil
}

// Rollout has a policy push for some steps, and returns what it observed.
func (s *Simulator) Rollout(_ context.Context, policy Policy, steps int) ([][2]float64, error) {
	observations := make([][2]float64, steps)
	observation := [2]float64{s.env.x, s.env.v}
	for i := range observations {
		observation = s.env.Step(policy.action(observation))
		observations[i] = observation
	}
	return observations, nil
}

func createPolicy(context.Context) (Policy, error) { return Policy{}, nil }

// updatePolicy pushes the harder, the further the balls are.
func updatePolicy(_ context.Context, policy Policy, rollouts cascade.List[[][2]float64]) (Policy, error) {
	away, n := 0.0, 0
	for _, rollout := range rollouts.All() {
		for _, observation := range rollout {
			away += math.Abs(observation[0])
			n++
		}
	}
	return Policy{policy.Gain + 0.125*(away/float64(n))}, nil
}

func trainPolicy(ctx context.Context, simulators, steps int) (Policy, error) {
	policy := CreatePolicy.Go(ctx)
	actors := make([]cascade.Actor[Simulator], simulators)
	for i := range actors {
		actors[i] = Simulators.Spawn(ctx, cascade.Val(i))
	}
	for range steps {
		rollouts := make([]cascade.Future[[][2]float64], len(actors))
		for i, a := range actors {
			rollouts[i] = Rollout.Go(ctx, a, policy, cascade.Val(20))
		}
		policy = UpdatePolicy.Go(ctx, policy, cascade.Futures(rollouts...))
	}
	return policy.Get(ctx)
}

// The functions and the actor as the cluster knows them.
var (
	CreatePolicy = cascade.Func0("CreatePolicy", createPolicy, "-> policy")
	UpdatePolicy = cascade.Func2("UpdatePolicy", updatePolicy, "policy, rollouts -> policy")
	TrainPolicy  = cascade.Func2("TrainPolicy", trainPolicy, "simulators, steps -> policy")
	Simulators   = cascade.Actor1("Simulator", newSimulator, "seed")
	Rollout      = cascade.Method2(Simulators, "Rollout", (*Simulator).Rollout, "policy, steps -> observations")
)
