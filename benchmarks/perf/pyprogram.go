package perf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cascade-run/cascade/agent/runtimeenv"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/statedir"
)

var pythonCallFigures = []string{"python_call_latency_p50", "python_calls_async", "python_calls_async_cpu", "python_wait_1k", "python_put_1KiB", "python_get_1GiB",
	"python_actor_call", "python_actor_calls_async", "python_actor_calls_async_cpu", "python_actor_create"}

// pythonPrograms is the Python in which programs run that this bench starts.
func pythonPrograms() dag.Environment {
	return dag.Environment{Name: "program", Python: &dag.Python{Pip: []string{"numpy", "cloudpickle"}}}
}

// pythonCommand runs the package's own measurements in Python. It is nil where there is no Python, and the
// figures are left out.
func (b *bench) pythonCommand(ctx context.Context, names []string, args ...string) (cmd *exec.Cmd, err error) {
	dir, err := runtimeenv.DefaultDir()
	if err != nil {
		return nil, err
	}
	cache := runtimeenv.New(dir)
	built, err := cache.Prepare(ctx, pythonPrograms(), nil)
	if err = errors.Join(err, cache.Close()); err != nil {
		if os.Getenv("CASCADE_REQUIRE_PYTHON") != "" || ctx.Err() != nil {
			return nil, err
		}
		for _, name := range names {
			b.skip(name, "no Python environment: "+err.Error())
		}
		return nil, nil
	}
	cmd = exec.CommandContext(ctx, built.Command[0], append([]string{"-m", "cascade.perf"}, args...)...)
	cmd.Env, cmd.Stderr = slices.Concat(os.Environ(), built.Env), os.Stderr
	return cmd, nil
}

// pythonCalls is what a program in Python calls.
func pythonCalls(ctx context.Context, b *bench) (err error) {
	if _, err := b.local(ctx); err != nil {
		return err
	}
	at, err := statedir.FindLocal(b.state("embedded"))
	if err != nil {
		return err
	}
	cmd, err := b.pythonCommand(ctx, pythonCallFigures, "ipc://"+at.Controller)
	if cmd == nil || err != nil {
		return err
	}
	return converse(cmd, question{What: "open"}, b.pythonFigures)
}

// pythonFigures measures what a program in Python does.
func (b *bench) pythonFigures(p *program) error {
	for _, m := range []struct {
		name string
		run  func(*program) error
	}{{"python_call_latency_p50", b.pythonLatency}, {"python_calls_async", b.pythonBurst}, {"python_calls_async_cpu", b.pythonBurst},
		{"python_wait_1k", b.pythonWaits}, {"python_put_1KiB", b.pythonPuts}, {"python_get_1GiB", b.pythonGet},
		{"python_actor_call", b.pythonActorCall}, {"python_actor_calls_async", b.pythonActorBurst}, {"python_actor_calls_async_cpu", b.pythonActorBurst},
		{"python_actor_create", b.pythonActorCreate}} {
		if rate, cpu := strings.CutSuffix(m.name, "_cpu"); !b.wants(m.name) || cpu && b.wants(rate) {
			continue
		}
		if err := m.run(p); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) pythonLatency(p *program) error {
	n := b.size(5000, 50)
	rtt, err := netRTT(n, true)
	if err != nil {
		return err
	}
	took, err := p.do(question{What: "latency", N: n})
	if err != nil {
		return err
	}
	return b.tell(Figure{Name: "python_call_latency_p50", Value: quantile(took, 0.5), Unit: "us", Baseline: microseconds(rtt), BaselineOf: relayName,
		Note: fmt.Sprintf("%d calls of a Python function by a Python program, with their results, one after another; p99 %.0f us", n, quantile(took, 0.99))})
}

func (b *bench) pythonBurst(p *program) error {
	n := b.size(20_000, 2000)
	return b.rate(p, question{What: "burst", N: n}, n, "python_calls_async", "of a Python function, made in a burst by a Python program and collected by get")
}

func (b *bench) pythonWaits(p *program) error {
	n := b.size(1000, 50)
	var each, all []float64
	for range 6 {
		for what, to := range map[string]*[]float64{"completed": &each, "burst": &all} {
			t, err := p.do(question{What: what, N: n})
			if err != nil {
				return err
			}
			*to = append(*to, t[0]/1e3/float64(n))
		}
	}
	wait, err := p.do(question{What: "wait", N: n})
	if err != nil {
		return err
	}
	return b.tell(Figure{Name: "python_wait_1k", Value: median(each[1:]), Unit: "us", Baseline: median(all[1:]), BaselineOf: "the same calls, collected by get",
		Note: fmt.Sprintf("for each of %d calls, made and then collected one at a time by as_completed; by wait for one of the rest, again and again, %.1f us", n, wait[0]/1e3/float64(n))})
}

func (b *bench) pythonPuts(p *program) error {
	return b.puts(p, "python_put_1KiB", b.size(20_000, 500), "by a Python program")
}

func (b *bench) pythonGet(p *program) error {
	rtt, err := socketRTT()
	if err != nil {
		return err
	}
	size := b.size(1<<30, 8<<20)
	took, err := p.do(question{What: "get", N: size, M: b.size(10, 3)})
	if err != nil {
		return err
	}
	return b.tell(Figure{Name: "python_get_1GiB", Value: median(took) / 1e3, Unit: "us", Baseline: microseconds(rtt), BaselineOf: rttName,
		Note: fmt.Sprintf("an array that a task has made in the store, as the program holds its view; median of %d", len(took))})
}

func (b *bench) pythonActorCall(p *program) error {
	n := b.size(5000, 50)
	rtt, err := socketRTT()
	if err != nil {
		return err
	}
	took, err := p.do(question{What: "actor_call", N: n})
	if err != nil {
		return err
	}
	return b.tell(Figure{Name: "python_actor_call", Value: quantile(took, 0.5), Unit: "us", Baseline: microseconds(rtt), BaselineOf: rttName,
		Note: fmt.Sprintf("%d calls of a method by a Python program, with their results, one after another; p99 %.0f us", n, quantile(took, 0.99))})
}

func (b *bench) pythonActorBurst(p *program) error {
	n := b.size(20_000, 2000)
	return b.rate(p, question{What: "actor_burst", N: n}, n, "python_actor_calls_async", "of a method, made in a burst by a Python program and collected by get")
}

func (b *bench) pythonActorCreate(p *program) error {
	n := b.size(8, 2)
	rtt, err := socketRTT()
	if err != nil {
		return err
	}
	var took []float64
	for range 4 { // processes of the first are those of the others
		t, err := p.do(question{What: "actor_create", N: n})
		if err != nil {
			return err
		}
		took = append(took, t[0]/1e9)
	}
	return b.tell(Figure{Name: "python_actor_create", Value: float64(n) / median(took[1:]), Unit: "actors/s", Baseline: 1 / rtt.Seconds(), BaselineOf: rttName + ", one after another",
		Note: fmt.Sprintf("%d actors in processes that are warm, made and called once; in cold ones %.1f/s", n, float64(n)/took[0])})
}

// pythonInit is from the start of a program in Python to its first result, with a cluster of its own.
func pythonInit(ctx context.Context, b *bench) error {
	const name = "python_init"
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	path := filepath.Dir(self) + string(filepath.ListSeparator) + os.Getenv("PATH")
	for _, daemon := range []string{"cascade-controller", "cascade-agent"} {
		_, beside := os.Stat(filepath.Join(filepath.Dir(self), daemon))
		if _, err := exec.LookPath(daemon); err != nil && beside != nil {
			b.skip(name, daemon+" is neither beside this program nor on PATH")
			return nil
		}
	}
	var took, bare []float64
	for range b.size(5, 2) {
		for what, to := range map[string]*[]float64{"init": &took, "start": &bare} {
			cmd, err := b.pythonCommand(ctx, []string{name}, what)
			if cmd == nil || err != nil {
				return err
			}
			cmd.Env = append(cmd.Env, "PATH="+path, "CASCADE_TO=")
			*to = append(*to, nanoseconds(func() { err = cmd.Run() })/1e6)
			if err != nil {
				return fmt.Errorf("run a program in Python: %w", err)
			}
		}
	}
	return b.tell(Figure{Name: name, Value: median(took), Unit: "ms", Baseline: median(bare), BaselineOf: "an interpreter that imports cascade and ends",
		Note: fmt.Sprintf("a program that imports cascade, starts a cluster, calls a function, and ends with its cluster; median of %d", len(took))})
}
