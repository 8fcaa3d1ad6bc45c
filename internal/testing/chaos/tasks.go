//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/zeebo/xxh3"

	"github.com/cascade-run/cascade"
)

// journalVar names the journal's pipe to tasks. Its name has no CASCADE_, so that
// commands inherit it too.
const journalVar = "CHAOS_JOURNAL"

// Functions that jobs of tests call. Test binaries that import this package are
// their executors; each says in the journal when it starts and ends.
var (
	_        = cascade.Gen1("chaos_source", source, "with -> part")
	stepTask = cascade.Func2("chaos_step", step, "part, with -> part")
	_        = cascade.Func1("chaos_total", total, "parts -> sum")
	_        = cascade.Func2("chaos_held", heldTotal, "parts, with -> sum")
	partTask = cascade.Func1("chaos_part", part, "with -> part")
	_        = cascade.Func1("chaos_number", number, "with -> sum")
	_        = cascade.Func1("chaos_scale", scale, "x -> sum")
	_        = cascade.Func2("chaos_crash", crash, "part, with -> part")
	_        = cascade.Func2("chaos_plus", plus, "x, part -> sum")
	gateTask = cascade.Func1("chaos_gate", gate, "with -> sum")
	badTask  = cascade.Func1("chaos_bad", bad, "with -> sum")
	_        = cascade.Func1("chaos_flood", flood, "with -> sum")
	_        = cascade.Func2("chaos_wave", wave, "parts, with -> part")
	_        = cascade.Func1("chaos_digest", digest, "parts -> sum")
	_        = cascade.Gen1("chaos_endless", endless, "with -> part")
)

// Say writes a line into the journal of the test that started this executor. note
// is one word or empty.
func Say(ctx context.Context, event string, note string) error {
	t := cascade.Task(ctx)
	pipe, err := os.OpenFile(os.Getenv(journalVar), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("open the journal: %w", err)
	}
	defer pipe.Close()
	if _, err := fmt.Fprintf(pipe, "%s %s %d %d %s %d %s\n", event, t.Name, t.Attempt, os.Getpid(), t.Job, time.Now().UnixNano(), note); err != nil {
		return fmt.Errorf("write to the journal: %w", err)
	}
	return nil
}

// begin says that the task starts, and makes room for the numbers of its result.
func begin(ctx context.Context, n int) (cascade.Array[float64], error) {
	if err := Say(ctx, "start", ""); err != nil {
		return cascade.Array[float64]{}, err
	}
	return cascade.Alloc[float64](ctx, n)
}

// work passes so many microseconds, as computing would: without looking at the context.
func work(micros int) { time.Sleep(time.Duration(micros) * time.Microsecond) }

// sizes are those of the parts, in numbers: inline, in a standing lease, in one of their own.
var sizes = []int{8, 4_000, 100, 90_000, 1, 20_000}

// pass waits until a process has a named pipe open for writing. "" is no pipe.
func pass(gate string) error {
	if gate == "" {
		return nil
	}
	pipe, err := os.Open(gate)
	if err != nil {
		return err
	}
	return pipe.Close()
}

type sourceSettings struct {
	Parts int
	Work  int    // microseconds for each part
	Gate  string `with:",optional"` // named pipe: it goes on when a process has it open for writing; "" for none
}

// source publishes parts of different sizes.
func source(ctx context.Context, s sourceSettings) iter.Seq2[cascade.Array[float64], error] {
	return func(yield func(cascade.Array[float64], error) bool) {
		if err := errors.Join(Say(ctx, "start", ""), pass(s.Gate)); err != nil {
			yield(cascade.Array[float64]{}, err)
			return
		}
		for i := range s.Parts {
			a, err := cascade.Alloc[float64](ctx, sizes[i%len(sizes)])
			for k := range a.Data {
				a.Data[k] = float64(i) + float64(k)/1024
			}
			work(s.Work)
			if err == nil {
				err = Say(ctx, fmt.Sprintf("part-%d", i), sumOf(a.Data))
			}
			if !yield(a, err) {
				return
			}
		}
		if err := Say(ctx, "end", ""); err != nil {
			yield(cascade.Array[float64]{}, err)
		}
	}
}

type stepSettings struct {
	Work int // microseconds
}

// step computes an array of its input's size.
func step(ctx context.Context, in cascade.Array[float64], s stepSettings) (cascade.Array[float64], error) {
	out, err := begin(ctx, len(in.Data))
	if err != nil {
		return out, err
	}
	last := 0.5
	for i, v := range in.Data {
		last = v*1.25 + last/3
		out.Data[i] = last
	}
	work(s.Work)
	return out, Say(ctx, "end", sumOf(in.Data)+">"+sumOf(out.Data))
}

// sumOf is a hash of numbers, so that the journal shows who had which.
func sumOf(v []float64) string {
	return fmt.Sprintf("%08x", uint32(xxh3.Hash(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 8*len(v)))))
}

func total(ctx context.Context, parts cascade.List[cascade.Array[float64]]) (float64, error) {
	return heldTotal(ctx, parts, heldSettings{})
}

type heldSettings struct {
	Gate string // named pipe: the task goes on when a process has it open for writing; "" for none
}

// heldTotal adds up arrays, and does not end before the test permits it.
func heldTotal(ctx context.Context, parts cascade.List[cascade.Array[float64]], s heldSettings) (float64, error) {
	if err := Say(ctx, "start", ""); err != nil {
		return 0, err
	}
	if err := pass(s.Gate); err != nil {
		return 0, err
	}
	sum := 0.0
	for i, p := range parts.All() {
		for _, v := range p.Data {
			sum += v * float64(i+1)
		}
	}
	return sum, Say(ctx, "end", "")
}

type partSettings struct{ Size int }

// part makes an array.
func part(ctx context.Context, s partSettings) (cascade.Array[float64], error) {
	if err := Say(ctx, "start", ""); err != nil {
		return cascade.Array[float64]{}, err
	}
	a, err := cascade.Alloc[float64](ctx, s.Size)
	if err != nil {
		return a, err
	}
	for k := range a.Data {
		a.Data[k] = float64(k) / 7
	}
	return a, Say(ctx, "end", sumOf(a.Data))
}

type numberSettings struct {
	N    float64
	Work int // microseconds
}

func number(ctx context.Context, s numberSettings) (float64, error) {
	if err := Say(ctx, "start", ""); err != nil {
		return 0, err
	}
	work(s.Work)
	return s.N, Say(ctx, "end", "")
}

// scale doubles a number.
func scale(ctx context.Context, x float64) (float64, error) {
	if err := Say(ctx, "start", ""); err != nil {
		return 0, err
	}
	return 2 * x, Say(ctx, "end", "")
}

// plus adds a number to an array's.
func plus(ctx context.Context, x float64, part cascade.Array[float64]) (float64, error) {
	if err := Say(ctx, "start", ""); err != nil {
		return 0, err
	}
	for _, v := range part.Data {
		x += v
	}
	return x, Say(ctx, "end", "")
}

type crashSettings struct {
	Times int    // attempts that kill the executor
	Gate  string // named pipe: later attempts than the first go on when a process has it open for writing; "" for none
}

// crash computes what step does, and kills its executor before in its first attempts.
func crash(ctx context.Context, in cascade.Array[float64], s crashSettings) (cascade.Array[float64], error) {
	if attempt := int(cascade.Task(ctx).Attempt); attempt <= s.Times {
		if attempt > 1 {
			if err := pass(s.Gate); err != nil {
				return in, err
			}
		}
		if err := Say(ctx, "crash", ""); err != nil {
			return in, err
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			return in, err
		}
		<-ctx.Done() // the signal may come a moment later
	}
	return step(ctx, in, stepSettings{})
}

type gateSettings struct {
	Pipe string // named pipe: the task waits for a line in it
}

// gate waits until the test writes a number into a named pipe.
func gate(ctx context.Context, s gateSettings) (float64, error) {
	if err := Say(ctx, "start", ""); err != nil {
		return 0, err
	}
	pipe, err := os.OpenFile(s.Pipe, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		return 0, err
	}
	defer pipe.Close()
	defer context.AfterFunc(ctx, func() { pipe.Close() })()
	var n float64
	if _, err := fmt.Fscanln(pipe, &n); err != nil {
		return 0, errors.Join(err, ctx.Err())
	}
	return n, Say(ctx, "end", "")
}

type badSettings struct {
	How string // error, panic, elsewhere, exit, forever
}

var errBad = cascade.RegisterError("chaos_bad", errors.New("it is bad on purpose"))

func bad(ctx context.Context, s badSettings) (float64, error) {
	if err := Say(ctx, "start", ""); err != nil {
		return 0, err
	}
	switch s.How {
	case "panic":
		panic("a panic on purpose")
	case "elsewhere":
		go panic("a panic of another goroutine")
		<-ctx.Done()
	case "exit":
		os.Exit(7)
	case "forever":
		select {} // it does not look at its context
	}
	return 0, errBad
}

type floodSettings struct{ Lines int }

// flood writes lines of 1 KiB to standard error.
func flood(ctx context.Context, s floodSettings) (float64, error) {
	if err := Say(ctx, "start", ""); err != nil {
		return 0, err
	}
	line := []byte(strings.Repeat("x", 1023) + "\n")
	for range s.Lines {
		if _, err := os.Stderr.Write(line); err != nil {
			return 0, err
		}
	}
	return 1, Say(ctx, "end", "")
}

type endlessSettings struct{ Size int }

// endless publishes for ever.
func endless(ctx context.Context, s endlessSettings) iter.Seq2[cascade.Array[float64], error] {
	return func(yield func(cascade.Array[float64], error) bool) {
		if err := Say(ctx, "start", ""); err != nil {
			yield(cascade.Array[float64]{}, err)
			return
		}
		for {
			a, err := cascade.Alloc[float64](ctx, s.Size)
			for k := range a.Data {
				a.Data[k] = float64(k)
			}
			if !yield(a, err) {
				return
			}
		}
	}
}

type waveSettings struct {
	Seed int
	Size int // numbers
	Work int // microseconds
}

// wave makes an array of all its inputs and its seed. It says nothing in the
// journal: there are many of them.
func wave(ctx context.Context, parts cascade.List[cascade.Array[float64]], s waveSettings) (cascade.Array[float64], error) {
	out, err := cascade.Alloc[float64](ctx, s.Size)
	if err != nil {
		return out, err
	}
	last := float64(s.Seed%1000) / 1000
	for i := range out.Data {
		for k, p := range parts.All() {
			last = last/2 + p.Data[(i+k)%len(p.Data)]/4
		}
		last = last*3.75*(1-last/2) + float64((i+s.Seed)%97)/1024
		if last > 1 {
			last -= float64(int(last))
		}
		out.Data[i] = last
	}
	work(s.Work)
	return out, nil
}

// digest is a number for each of its inputs: a hash of all its bytes.
func digest(ctx context.Context, parts cascade.List[cascade.Array[float64]]) ([]string, error) {
	var all []string
	for _, p := range parts.All() {
		all = append(all, sumOf(p.Data))
	}
	return all, nil
}
