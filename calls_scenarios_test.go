package cascade_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
)

type callsOf struct {
	What string
	Dir  string `with:",optional"` // for files that count executions
	N    int    `with:",optional"`
}

// mark notes in a folder that something has run once more, and returns how often it has.
func mark(dir, name string) (int, error) {
	for n := 1; ; n++ {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprint(name, "-", n)), os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			return n, f.Close()
		}
		if !errors.Is(err, os.ErrExist) {
			return 0, err
		}
	}
}

// marks counts how often something has run.
func marks(t *testing.T, dir, name string) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, name+"-*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

func marked(_ context.Context, n int, with callsOf) (int, error) {
	_, err := mark(with.Dir, with.What+fmt.Sprint(n))
	return 10 * n, err
}

// sleeper waits until it is cancelled; with N it calls another that does, and waits for that.
func sleeper(ctx context.Context, with callsOf) (int, error) {
	if _, err := mark(with.Dir, fmt.Sprint("sleeps", with.N)); err != nil {
		return 0, err
	}
	if with.N > 0 {
		with.N--
		return sleeperTask.Go(ctx, cascade.Val(with)).Get(ctx)
	}
	<-ctx.Done()
	_, err := mark(with.Dir, "woken")
	return 0, errors.Join(context.Cause(ctx), err)
}

// moody fails with one of two errors, and then succeeds.
func moody(_ context.Context, with callsOf) (int, error) {
	n, err := mark(with.Dir, with.What)
	if err != nil || n > 2 {
		return n, err
	}
	if with.What == "known" {
		return 0, fmt.Errorf("try %d: %w", n, errNoData)
	}
	return 0, fmt.Errorf("try %d is of another kind", n)
}

func split(_ context.Context, n int) (int, string, error) { return n / 2, strings.Repeat("x", n), nil }

func adds(_ context.Context, l cascade.List[int]) (int, error) {
	sum := 0
	for _, v := range l.All() {
		sum += v
	}
	return sum, nil
}

func upTo(_ context.Context, n int) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		for i := range n {
			if !yield(i, nil) {
				return
			}
		}
		if n > 3 {
			yield(0, errNoData)
		}
	}
}

func deeper(ctx context.Context, n int) (int, error) {
	if n == 0 {
		return 0, nil
	}
	m, err := deeperTask.Go(ctx, cascade.Val(n-1)).Get(ctx)
	return m + 1, err
}

func doubled(_ context.Context, n int) (int, error) { return 2 * n, nil }

var (
	sleeperTask cascade.Function1x1[callsOf, int]
	deeperTask  cascade.Function1x1[int, int]
	markedTask  = cascade.Func2("callsMarked", marked, "n, with -> m")
	moodyTask   = cascade.Func1("callsMoody", moody, "with -> n")
	splitTask   = cascade.Func1x2("callsSplit", split, "n -> half, text")
	addsTask    = cascade.Func1("callsAdds", adds, "l -> sum")
	upToTask    = cascade.Gen1("callsUpTo", upTo, "n -> i")
	doubledTask = cascade.Func1("callsDoubled", doubled, "n -> m")
	callerTask  = cascade.Func1("callsCaller", callsWhat, "with -> text")
)

func init() { //nolint:gochecknoinits // Go has no other place for a function that calls itself
	sleeperTask = cascade.Func1("callsSleeper", sleeper, "with -> n")
	deeperTask = cascade.Func1("callsDeeper", deeper, "n -> m")
}

// callsWhat is the task that each test runs; it returns what was wrong.
func callsWhat(ctx context.Context, with callsOf) (string, error) {
	scenario := scenarios[with.What]
	if scenario == nil {
		return "", fmt.Errorf("no scenario %q", with.What)
	}
	if err := scenario(ctx, with); err != nil {
		return err.Error(), nil
	}
	return "", nil
}

var scenarios map[string]func(ctx context.Context, with callsOf) error

func init() { //nolint:gochecknoinits // Go has no other place for a function that calls itself
	scenarios = map[string]func(ctx context.Context, with callsOf) error{
		"wait": waitsForSome, "put": putsValues, "cancel": cancelsSleepers, "results": takesResults, "streams": takesStreams,
		"retries": retriesCalls, "arrays": readsArrays, "killed": isKilled, "deep": goesDeep, "burst": makesBurst, "lists": passesLists,
	}
}

func waitsForSome(ctx context.Context, with callsOf) error {
	fs := make([]cascade.Future[int], 6)
	for i := range fs {
		fs[i] = doubledTask.Go(ctx, cascade.Val(i))
	}
	asleep := sleeperTask.Go(ctx, cascade.Val(with))
	ready, err := cascade.Wait(ctx, append(slices.Clone(fs), asleep), 3)
	if err != nil || len(ready) != 3 || slices.Contains(ready, 6) {
		return fmt.Errorf("%v are ready, %w", ready, errors.Join(err))
	}
	soon, stop := context.WithTimeout(ctx, 20*time.Millisecond)
	defer stop()
	if ready, err = cascade.Wait(soon, []cascade.AnyFuture{asleep}, 1); err != nil || len(ready) != 0 {
		return fmt.Errorf("at the deadline %v are ready, %w", ready, errors.Join(err))
	}
	sum, n := 0, 0
	for i, err := range cascade.Completed(ctx, fs) {
		if err != nil {
			return err
		}
		v, err := fs[i].Get(ctx)
		if err != nil {
			return err
		}
		sum, n = sum+v, n+1
	}
	if sum != 30 || n != 6 {
		return fmt.Errorf("%d completed, with a sum of %d", n, sum)
	}
	if got, err := cascade.GetAll(ctx, fs); err != nil || !slices.Equal(got, []int{0, 2, 4, 6, 8, 10}) {
		return fmt.Errorf("all are %v, %w", got, errors.Join(err))
	}
	_, err = cascade.GetAll(ctx, []cascade.Future[int]{asleep, complainsTask.Go(ctx, cascade.Val(1))})
	if !errors.Is(err, errNoData) {
		return fmt.Errorf("the error of one of them is %w", errors.Join(err))
	}
	return nil
}

func putsValues(ctx context.Context, _ callsOf) error {
	small, err := cascade.Put(ctx, 4)
	if err != nil {
		return err
	}
	a, err := cascade.Alloc[float64](ctx, large)
	if err != nil {
		return err
	}
	a.Data[large-1] = 5
	array, err := cascade.Put(ctx, a)
	if err != nil {
		return err
	}
	x, err := doubledTask.Go(ctx, small).Get(ctx)
	if err != nil || x != 8 {
		return fmt.Errorf("twice 4 is %d, %w", x, errors.Join(err))
	}
	for _, by := range []float64{2, 3} {
		b, err := scaledTask.Go(ctx, array, cascade.Val(by)).Get(ctx)
		if err != nil || b.Data[large-1] != 5*by {
			return fmt.Errorf("by %v: %w", by, errors.Join(err))
		}
	}
	array.Release()
	_, err = array.Get(ctx)
	if err == nil || !strings.Contains(err.Error(), "released") {
		return fmt.Errorf("a value that was released: %w", errors.Join(err))
	}
	return nil
}

func cancelsSleepers(ctx context.Context, with callsOf) error {
	with.N = 2
	f := sleeperTask.Go(ctx, cascade.Val(with), cascade.CallName("deep"))
	for { // the innermost is asleep
		if _, err := os.Stat(filepath.Join(with.Dir, "sleeps0-1")); err == nil {
			break
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, err := doubledTask.Go(ctx, cascade.Val(1)).Get(ctx); err != nil {
			return err
		}
	}
	f.Cancel("enough of that")
	_, err := f.Get(ctx)
	if err == nil || !strings.Contains(err.Error(), "enough of that") {
		return fmt.Errorf("a cancelled call: %w", errors.Join(err))
	}
	if f.Done() != true {
		return errors.New("it is not done")
	}
	x, err := doubledTask.Go(ctx, cascade.Val(21)).Get(ctx)
	if err != nil || x != 42 {
		return fmt.Errorf("after the cancel: %d, %w", x, errors.Join(err))
	}
	return nil
}

func takesResults(ctx context.Context, _ callsOf) error {
	half, text := splitTask.Go(ctx, cascade.Val(8))
	_, long := splitTask.Go(ctx, cascade.Val(100_000))
	n, err := doubledTask.Go(ctx, half).Get(ctx)
	s, err2 := text.Get(ctx)
	l, err3 := long.Get(ctx)
	if n != 8 || s != "xxxxxxxx" || len(l) != 100_000 || errors.Join(err, err2, err3) != nil {
		return fmt.Errorf("%d, %q, %d bytes, %w", n, s, len(l), errors.Join(err, err2, err3))
	}
	return nil
}

func takesStreams(ctx context.Context, _ callsOf) error {
	var got []int
	for v, err := range upToTask.Go(ctx, cascade.Val(3)).All(ctx) {
		if err != nil {
			return err
		}
		got = append(got, v)
	}
	if !slices.Equal(got, []int{0, 1, 2}) {
		return fmt.Errorf("the elements are %v", got)
	}
	var twice []cascade.Future[int]
	var last error
	for f, err := range upToTask.Go(ctx, cascade.Val(5)).Elements(ctx) {
		if last = err; err == nil {
			twice = append(twice, doubledTask.Go(ctx, f))
		}
	}
	all, err := cascade.GetAll(ctx, twice)
	if !errors.Is(last, errNoData) || err != nil || !slices.Equal(all, []int{0, 2, 4, 6, 8}) {
		return fmt.Errorf("%v, %w, %w", all, errors.Join(err), errors.Join(last))
	}
	return nil
}

func retriesCalls(ctx context.Context, with callsOf) error {
	known, other, plain := with, with, with
	known.What, other.What, plain.What = "known", "other", "plain"
	opts := []cascade.CallOption{cascade.RetryOn(errNoData), cascade.Here()}
	n, err := moodyTask.Go(ctx, cascade.Val(known), opts...).Get(ctx)
	_, err2 := moodyTask.Go(ctx, cascade.Val(other), opts...).Get(ctx)
	m, err3 := moodyTask.Go(ctx, cascade.Val(plain), cascade.Retries(2)).Get(ctx)
	if n != 3 || err != nil || err2 == nil || !strings.Contains(err2.Error(), "try 1") || m != 3 || err3 != nil {
		return fmt.Errorf("%d, %w; %w; %d, %w", n, errors.Join(err), errors.Join(err2), m, errors.Join(err3))
	}
	return nil
}

func readsArrays(ctx context.Context, _ callsOf) error {
	one := cascade.Array[float64]{Shape: []int{large}, Data: slices.Repeat([]float64{1}, large)}
	f := scaledTask.Go(ctx, cascade.Val(one), cascade.Val(2.0))
	for i := range 40 { // 40 results of 800 KB in a store of 16 MB: each is released before the next
		next := scaledTask.Go(ctx, f, cascade.Val(1.0))
		b, err := next.Get(ctx)
		if err != nil || b.Data[large-1] != 2 {
			return fmt.Errorf("result %d: %w", i, errors.Join(err))
		}
		f.Release()
		f = next
	}
	return nil
}

// isKilled ends its process when its calls have returned, and meets them in its next try.
func isKilled(ctx context.Context, with callsOf) error {
	named := callsOf{What: "of", Dir: with.Dir}
	v, err := cascade.Put(ctx, 7)
	if err != nil {
		return err
	}
	fs := make([]cascade.Future[int], 4)
	for i := range fs {
		fs[i] = markedTask.Go(cascade.Strand(ctx, fmt.Sprint(i%2)), cascade.Val(i), cascade.Val(named))
	}
	fs = append(fs, markedTask.Go(ctx, v, cascade.Val(named)))
	got, err := cascade.GetAll(ctx, fs)
	if err != nil || !slices.Equal(got, []int{0, 10, 20, 30, 70}) {
		return fmt.Errorf("%v, %w", got, errors.Join(err))
	}
	if n, err := mark(with.Dir, "parent"); n == 1 || err != nil {
		return errors.Join(err, syscall.Kill(os.Getpid(), syscall.SIGKILL))
	}
	return nil
}

func goesDeep(ctx context.Context, _ callsOf) error {
	n, err := deeperTask.Go(ctx, cascade.Val(20)).Get(ctx)
	if n != 20 {
		return fmt.Errorf("%d, %w", n, errors.Join(err))
	}
	return err
}

func makesBurst(ctx context.Context, _ callsOf) error {
	fs := make([]cascade.Future[int], 5000)
	for i := range fs {
		fs[i] = doubledTask.Go(ctx, cascade.Val(i))
	}
	got, err := cascade.GetAll(ctx, fs)
	for i, v := range got {
		if v != 2*i {
			return fmt.Errorf("call %d returned %d", i, v)
		}
	}
	return err
}

func passesLists(ctx context.Context, _ callsOf) error {
	five, err := cascade.Put(ctx, 5)
	if err != nil {
		return err
	}
	a, err := addsTask.Go(ctx, cascade.Futures(doubledTask.Go(ctx, cascade.Val(1)), five, doubledTask.Go(ctx, five))).Get(ctx)
	b, err2 := addsTask.Go(ctx, cascade.Val(cascade.ListOf(1, 2, 3))).Get(ctx)
	c, err3 := addsTask.Go(ctx, cascade.Futures[int]()).Get(ctx)
	if a != 17 || b != 6 || c != 0 || errors.Join(err, err2, err3) != nil {
		return fmt.Errorf("%d, %d, %d, %w", a, b, c, errors.Join(err, err2, err3))
	}
	d, err := addsTask.Go(ctx, cascade.Args(five, cascade.Val(4), doubledTask.Go(ctx, five))).Get(ctx)
	if err != nil || d != 19 {
		return fmt.Errorf("values and futures: %d, %w", d, errors.Join(err))
	}
	_, err = addsTask.Go(ctx, cascade.Futures(five, complainsTask.Go(ctx, cascade.Val(1)))).Get(ctx)
	if !errors.Is(err, errNoData) {
		return fmt.Errorf("a list with a call that failed: %w", errors.Join(err))
	}
	return nil
}

// TestCallScenarios has tasks that call do one thing each, on an agent of two cores.
func TestCallScenarios(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(2), cascade.WithStore(16<<20))
	for _, what := range []string{"wait", "put", "cancel", "results", "streams", "retries", "arrays", "killed", "deep", "burst", "lists"} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			g := cascade.NewGraph(what)
			text := callerTask.Add(g, what, cascade.With(callsOf{What: what, Dir: dir}), cascade.Retries(1))
			g.Output(text, "")
			got, err := cascade.Result(t.Context(), cascadetest.Submit(t, c, g), text)
			if err != nil || got != "" {
				t.Fatal(got, err)
			}
			switch what {
			case "killed":
				for _, n := range []int{0, 1, 2, 3, 7} {
					if k := marks(t, dir, fmt.Sprint("of", n)); k != 1 {
						t.Errorf("call %d ran %d times", n, k)
					}
				}
				if k := marks(t, dir, "parent"); k != 2 {
					t.Errorf("the parent ran %d times", k)
				}
			case "retries":
				if known, other := marks(t, dir, "known"), marks(t, dir, "other"); known != 3 || other != 1 {
					t.Errorf("with an error that is known it ran %d times, with another %d times", known, other)
				}
			case "cancel":
				// Its caller was answered at once: the call itself is told beside that.
				for end := time.Now().Add(time.Minute); marks(t, dir, "woken") != 1; {
					if time.Now().After(end) {
						t.Fatal("the innermost call was not told")
					}
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
}
