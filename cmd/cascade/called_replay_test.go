package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/internal/testing/pyenv"
)

// This file comes before perf_test.go: perf registers functions in this process, which its executors lack.

// Functions that print what they were given: the test compares their words of two runs.
var (
	wideTask   = cascade.Func1("Wide", wide, "n -> values")
	widthTask  = cascade.Func2("Width", width, "values, n -> sum")
	countTask  = cascade.Gen1("Countdown", countdown, "n -> i")
	raceTask   = cascade.Func1("Race", race, "racers -> order")
	laterTask  = cascade.Func1("Later", later, "n -> m")
	twiceTried = cascade.Func1("TwiceTried", triedTwice, "n -> m")
	deepTask   = cascade.Func2("Deep", deep, "values, n -> sum")
	streamTask = cascade.Func1("Streams", readsStream, "n -> sum")
)

type wideParams struct{ N int }

var (
	_ = cascade.Func1("WideJob", wideJob, "with -> values")
	_ = cascade.Func1("DeepJob", deepJob, "values -> sum")
)

func wideJob(ctx context.Context, p wideParams) ([]int64, error) { return wide(ctx, p.N) }

// deepJob passes its input on.
func deepJob(ctx context.Context, values []int64) (int64, error) {
	passed, err := cascade.InputFuture[[]int64](ctx, "values")
	if err != nil {
		return 0, err
	}
	sum, err := deepTask.Go(ctx, passed, cascade.Val(5)).Get(ctx)
	fmt.Println("deep has", sum)
	return sum, err
}

// wide returns more than is recorded.
func wide(_ context.Context, n int) ([]int64, error) {
	fmt.Println("makes", n)
	return slices.Repeat([]int64{int64(n)}, 1000), nil
}

func width(_ context.Context, values []int64, n int) (int64, error) {
	fmt.Println("has", len(values), "times", values[0], "and", n)
	return int64(len(values)) + int64(n), nil
}

func countdown(_ context.Context, n int) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		for i := n; yield(i, nil) && i > 0; i-- {
		}
	}
}

// later ends last for 0: only its second attempt is good. That of a negative number never ends.
func later(ctx context.Context, n int) (int, error) {
	switch {
	case n < 0:
		<-ctx.Done()
		return 0, context.Cause(ctx)
	case n == 0 && cascade.Task(ctx).Attempt == 1:
		return 0, errors.New("not yet")
	}
	return n, nil
}

// race does what depends on the order in which its calls end.
func race(ctx context.Context, racers int) (string, error) {
	var rest []cascade.Future[int]
	for i := range racers {
		rest = append(rest, laterTask.Go(ctx, cascade.Val(i), cascade.Retries(1)))
	}
	order := ""
	for len(rest) > 0 {
		ready, err := cascade.Wait(ctx, rest, 1)
		if err != nil {
			return "", err
		}
		v, err := rest[ready[0]].Get(ctx)
		if err != nil {
			return "", err
		}
		order += fmt.Sprint(v)
		rest = slices.Delete(rest, ready[0], ready[0]+1)
	}
	never := laterTask.Go(ctx, cascade.Val(-1))
	never.Cancel("all others have ended")
	_, err := never.Get(ctx)
	fmt.Println("order", order, "cancelled", errors.Is(err, cascade.ErrCancelled))
	if _, err = brokenTask.Go(ctx, cascade.Val(1), cascade.CallName("bad")).Get(ctx); !errors.Is(err, errNoData) {
		return "", fmt.Errorf("the call ended with %w", err)
	}
	fmt.Println("broken:", err)
	return order, nil
}

// triedTwice fails when its first call has ended; its second attempt meets that.
func triedTwice(ctx context.Context, n int) (int, error) {
	m, err := twiceTask.Go(ctx, cascade.Val(n)).Get(ctx)
	if err != nil || cascade.Task(ctx).Attempt == 1 {
		return 0, errors.Join(err, errors.New("once more"))
	}
	k, err := twiceTask.Go(ctx, cascade.Val(m)).Get(ctx)
	fmt.Println("attempt", cascade.Task(ctx).Attempt, "has", m, k)
	return k, err
}

// deep passes on its input, a value of its own and what calls return, large and small.
func deep(ctx context.Context, values []int64, n int) (int64, error) {
	passed, err := cascade.InputFuture[[]int64](ctx, "values")
	if err != nil {
		return 0, err
	}
	put, err := cascade.Put(ctx, slices.Repeat([]int64{7}, 2000))
	if err != nil {
		return 0, err
	}
	made := wideTask.Go(ctx, cascade.Val(n))
	got, err := made.Get(ctx)
	if err != nil {
		return 0, err
	}
	fmt.Println("got", len(got), "times", got[0])
	sum := int64(0)
	for _, f := range []cascade.CallArg[[]int64]{passed, put, &made, cascade.Val(got[:10])} {
		v, err := widthTask.Go(ctx, f, cascade.Val(n)).Get(ctx)
		if err != nil {
			return 0, err
		}
		fmt.Println("width", v)
		sum += v
	}
	return sum, nil
}

func readsStream(ctx context.Context, n int) (sum int, err error) {
	for v, err := range countTask.Go(ctx, cascade.Val(n)).All(ctx) {
		if err != nil {
			return 0, err
		}
		fmt.Println("element", v)
		sum += v
	}
	return sum, nil
}

// TestReplayCalledTask: a called task runs again with what it was given and answered, and says the same.
func TestReplayCalledTask(t *testing.T) {
	h := newHost(t)
	cluster, err := cascade.Local(t.Context(), cascade.WithState(h.state), cascade.WithCPU(2))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	})
	s, err := cluster.Session(t.Context(), cascade.WithSessionName("calls"))
	if err != nil {
		t.Fatal(err)
	}
	ctx := s.Context()
	large := wideTask.Go(ctx, cascade.Val(3))
	deepest := deepTask.Go(ctx, large, cascade.Val(5))
	raced := raceTask.Go(ctx, cascade.Val(4), cascade.CallName("r"))
	read := streamTask.Go(ctx, cascade.Val(4))
	given := widthTask.Go(ctx, cascade.Val(make([]int64, 200)), cascade.Val(1))
	put, err := cascade.Put(ctx, make([]int64, 300))
	if err != nil {
		t.Fatal(err)
	}
	ofPut := widthTask.Go(ctx, put, cascade.Val(1))
	tried := twiceTried.Go(ctx, cascade.Val(5), cascade.Retries(1))
	_, err4 := tried.Get(ctx)
	_, err1 := cascade.GetAll(ctx, []cascade.Future[int64]{deepest, given, ofPut})
	order, err2 := raced.Get(ctx)
	_, err3 := read.Get(ctx)
	if err := errors.Join(err1, err2, err3, err4, s.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ task, want string }{
		{"root/0", "makes 3\n2> task root/0, attempt 1: done in DURATION"},
		{"root/1", "got 1000 times 5\nwidth 1005\nwidth 2005\nwidth 1005\nwidth 15\n2> note: root/0 runs again: what it returned was not recorded\n2> note: root/1/1 runs again"},
		{"root/r-2", "order " + order + " cancelled true\nbroken: task root/r-2/bad-5 (Broken), attempt 1 on agent local: error: number 1: no data"},
		{"root/2", "order " + order},
		{"root/r-2/bad-5", "exit 1\n2> task root/r-2/bad-5, attempt 1: error: number 1: no data for this date\n"},
		{"root/3", "element 4\nelement 3\nelement 2\nelement 1\nelement 0\n2> note: root/3/0 runs again"},
		{"root/4", "exit 2\n2> cascade: replay: argument values of root/4 was not recorded: it has 1.562KiB (array, hash x:HASH), and at most 256B of a value are recorded, 1KiB of one call together; root gave it with the call before TIME\n"},
		{"root/6", "exit 2\n2> cascade: replay: argument values of root/6 was not recorded: it has 2.344KiB (array, hash x:HASH), and at most 256B of a value are recorded, 1KiB of one call together; it is value root/5, which root put before TIME\n"},
		{"root/1/2", "has 1000 times 3 and 5\n2> note: root/0 runs again"},
		{"root/r-2/0", "2> task root/r-2/0, attempt 2: done in"},
		{"root/1/3", "has 2000 times 7 and 5\n2> note: root/0 runs again: what it returned was not recorded\n2> note: root/1 runs again up to its call 0: a value that it put was not recorded\n"},
		{"root/1/4", "has 1000 times 5 and 5\n2> note: root/1/1 runs again"},
		{"root/1/5", "has 10 times 5 and 5\n2> task"},
		{"root/7", "attempt 2 has 10 20\n2> task root/7, attempt 2: done in"},
		{"root/9", `exit 2
2> cascade: replay: no task "root/9" in job session calls`},
	} {
		t.Run(tt.task, func(t *testing.T) {
			if got := h.start("", "replay", "calls", "--task", tt.task).wait(); !strings.HasPrefix(got, strings.ReplaceAll(tt.want, `\n`, "\n")) {
				t.Errorf("it said\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
	h.expect(h.start("", "replay", "calls", "--task", "root/0", "--attempt", "2"), "exit 2", "of called task root/0 the last attempt is recorded, which was the 1-th")
	h.expect(h.start("", "replay", "calls", "--task", "root/r-2/bad-5", "--json"), `"task":"root/r-2/bad-5","attempt":1,"exit":1`)
	h.expect(h.start("", "replay", "calls", "--simulate", "--hosts", "2x2c8g"), "recorded  DURATION: ", " tasks on 1x2c", "predicted  DURATION on 1x2c", "predicted  DURATION on 2x2c8g", "note: 2 tasks did not end well")
}

// TestReplayCalledTaskOfJob: what a task of a graph has called runs again as what a session has called.
func TestReplayCalledTaskOfJob(t *testing.T) {
	h := newHost(t)
	h.write("job.yaml", `
job: j
tasks:
  made: {run: WideJob, with: {n: 1000}, out: [values]}
  deep: {run: DeepJob, in: {values: made}, out: [sum]}
outputs: [deep.sum]
`)
	h.start("", "run", "job.yaml").wait()
	h.expect(h.start("", "replay", "j", "--task", "deep/0", "--rebuild"), "got 1000 times 5\n", "note: deep runs again up to its call 0: an argument that it gave was not recorded", "task deep/0, attempt 1: done in")
	h.expect(h.start("", "replay", "j", "--task", "deep/0"), "exit 2", "inputs of deep are not kept any more: made.values; --rebuild recomputes them")
	h.expect(h.start("", "replay", "j", "--task", "deep", "--rebuild"), "deep has 4030\n", "task deep, attempt 1: done in")
	h.expect(h.start("", "replay", "j", "--simulate"), "recorded  DURATION: ", "predicted  ")
}

// TestReplayCalledPython: so do Python functions that Python tasks have called, also under pdb.
func TestReplayCalledPython(t *testing.T) {
	pyenv.Python(t)
	h := newHost(t)
	if err := os.Mkdir("steps", 0o700); err != nil {
		t.Fatal(err)
	}
	h.write("steps/m.py", `import cascade


def wide(n: int):
    return list(range(n))


def total(values: list, by: int):
    print("total of", len(values))
    return sum(values) // by


def counts(n: int):
    yield from range(n)


def race(n: int):
    large = cascade.put(list(range(3000)))
    futures = [cascade.call(total, cascade.call(wide, 1000 * (i + 1)), i + 1) for i in range(n)]
    order = []
    while futures:
        ready, futures = cascade.wait(futures, 1)
        order.append(ready[0].result())
    print("order", order)
    print("put", cascade.call(total, large, 1).result(), "yielded", list(cascade.call(counts, 3)))
    return len(order)


def top(n: int):
    return cascade.call(race, n).result()
`)
	h.write("job.yaml", "job: j\nenvironments: {py: {python: {}, working_dir: steps}}\ntasks: {top: {run: py:m.top, with: {n: 3}, out: [n]}}\n")
	if got := h.start("", "run", "job.yaml").wait(); !strings.Contains(got, "done") {
		t.Fatal(got)
	}
	then := h.start("", "logs", "j").wait()
	at := strings.Index(then, "order ")
	if at < 0 {
		t.Fatalf("the job said\n%s", then)
	}
	order, _, _ := strings.Cut(then[at:], "\n")
	h.expect(h.start("", "replay", "j", "--task", "top/0"), order+"\n", "put 4498500 yielded [0, 1, 2]\n", "task top/0, attempt 1: done in")
	h.expect(h.start("", "replay", "j", "--task", "top/0/2"), "total of 1000\n", "note: top/0/1 runs again: what it returned was not recorded")
	h.expect(h.start("", "replay", "j", "--task", "top"), "task top, attempt 1: done in")
	t.Setenv("PYTHONUNBUFFERED", "") // what is printed waits in the process of a debugged task, as it does for most users
	in, keys, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := keys.WriteString("p 'by', by\nc\n"); err != nil {
		t.Fatal(err)
	}
	if err := keys.Close(); err != nil {
		t.Fatal(err)
	}
	c := h.prepare("", "replay", "j", "--task", "top/0/2", "--debug")
	c.app.in = in
	h.expect(c.run(), "m.py(", "('by', 1)", "total of 1000")
}
