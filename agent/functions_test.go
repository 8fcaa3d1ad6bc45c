//go:build linux

package agent

import (
	"context"
	"fmt"
	"math"
	"os"
	osexec "os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	exec "github.com/cascade-run/cascade/executor"
)

// Functions of the tests' executors, which are this binary.

type number struct{ N int }

func one(_ context.Context, p number) (int, error) { return p.N, nil }

func double(_ context.Context, n int) (int, error) { return 2 * n, nil }

func explode(_ context.Context, _ number) (int, error) { panic("boom") }

// crash kills its own process in the first N attempts.
func crash(ctx context.Context, p number) (int, error) {
	if int(exec.TaskOf(ctx).Attempt) <= p.N {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		<-ctx.Done()
	}
	return int(exec.TaskOf(ctx).Attempt), nil
}

// freeze stops its own process in the first N attempts, as a debugger would.
func freeze(ctx context.Context, p number) (int, error) {
	if int(exec.TaskOf(ctx).Attempt) <= p.N {
		if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
			return 0, err
		}
		<-ctx.Done()
	}
	return int(exec.TaskOf(ctx).Attempt), nil
}

// fill makes N numbers: 0, 1, 2, ...
func fill(ctx context.Context, p number) ([]float64, error) {
	v, err := exec.Alloc[float64](ctx, p.N)
	if err != nil {
		return nil, err
	}
	for i := range v.Data {
		v.Data[i] = float64(i)
	}
	return v.Data, nil
}

func add(_ context.Context, v []float64) (float64, error) {
	var sum float64
	for _, x := range v {
		sum += x
	}
	return sum, nil
}

// scribble writes to its input from a goroutine of its own.
func scribble(_ context.Context, v []float64) (float64, error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		v[len(v)/2] = math.Pi
	}()
	<-done
	return 0, nil
}

// explodeElsewhere panics where nobody can recover it.
func explodeElsewhere(ctx context.Context, p number) (int, error) {
	if p.N == 0 {
		var sink [64]byte
		return dive(p.N, sink), nil
	}
	go func() { panic(fmt.Sprint("boom ", p.N)) }()
	<-ctx.Done()
	return 0, ctx.Err()
}

// dive ends with the stack.
func dive(n int, room [64]byte) int {
	if n < 0 {
		return n
	}
	room[n%64]++
	if n < 0 {
		return n
	}
	return dive(n+1, room) + int(room[0])
}

// page makes 4000 bytes, which travel in messages.
func page(_ context.Context, p number) (string, error) { return strings.Repeat("x", 4000), nil }

func lengths(_ context.Context, all exec.List[string]) (int, error) {
	return len(strings.Join(all.Values(), "")), nil
}

// talk writes N lines to its log.
func talk(ctx context.Context, p number) (int, error) {
	for i := range p.N {
		if _, err := fmt.Fprintf(exec.TaskOf(ctx).Log, "line %d\n", i); err != nil {
			return 0, err
		}
	}
	return p.N, nil
}

// hoard takes N MiB of private memory, which neither a collector nor the race detector
// has a part in. When that is so much more than it is granted that what a task before has
// left to be used again does not hide it, it waits for its end.
func hoard(ctx context.Context, p number) (int, error) {
	all, err := unix.Mmap(-1, 0, p.N<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return 0, err
	}
	if int64(len(all)) > exec.TaskOf(ctx).Resources.Memory+64<<20 {
		<-ctx.Done()
	}
	return len(all), unix.Munmap(all)
}

// shout writes N KiB to standard error of the process.
func shout(_ context.Context, p number) (int, error) {
	text := strings.Repeat("shouting", 128)
	for range p.N {
		if _, err := fmt.Fprint(os.Stderr, text); err != nil {
			return 0, err
		}
	}
	return p.N, nil
}

// nest starts a process that leaves its session and group, tells both ids through
// the FIFO named by NEST_FIFO, and waits.
func nest(ctx context.Context, _ number) (int, error) {
	script := `setsid sh -c 'echo '$PPID' $$ > "$NEST_FIFO"; exec sleep 1000' & wait`
	cmd := osexec.Command("/bin/sh", "-c", script)
	if err := cmd.Run(); err != nil {
		return 0, err
	}
	return 0, ctx.Err()
}

func register[A, X any](name string, fn func(context.Context, A) (X, error), names string) bool {
	exec.Default.Register(&exec.Func{Name: name, Call: func(ctx context.Context, in, out []any) error {
		x, err := fn(ctx, exec.As[A](in[0]))
		out[0] = x
		return err
	}}, fn, names)
	return true
}

var _ = register("one", one, "with -> n") &&
	register("double", double, "n -> n2") &&
	register("visible", visible, "with -> d") &&
	register("explode", explode, "with -> n") &&
	register("crash", crash, "with -> n") &&
	register("page", page, "with -> text") &&
	register("lengths", lengths, "all -> n") &&
	register("explodeElsewhere", explodeElsewhere, "with -> n") &&
	register("freeze", freeze, "with -> n") &&
	register("fill", fill, "with -> v") &&
	register("add", add, "v -> sum") &&
	register("scribble", scribble, "v -> x") &&
	register("talk", talk, "with -> n") &&
	register("shout", shout, "with -> n") &&
	register("hoard", hoard, "with -> n") &&
	register("nest", nest, "with -> n")
