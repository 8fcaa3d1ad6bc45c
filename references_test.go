package cascade_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
)

// Functions that return futures, store them in values, and take them.

// pairOf is a value that holds futures.
type pairOf struct {
	Left, Right cascade.Future[int]
	Why         string
}

// pairs returns the futures of two calls that it does not wait for.
func pairs(ctx context.Context, n int) (pairOf, error) {
	return pairOf{doubledTask.Go(ctx, cascade.Val(n)), complainsTask.Go(ctx, cascade.Val(n)), "one is good"}, nil
}

// fillsMap puts lists of futures, nested in a map, and returns the future of that.
func fillsMap(ctx context.Context, n int) (cascade.Future[map[string][]cascade.Future[int]], error) {
	m := map[string][]cascade.Future[int]{}
	for i := range n {
		k := fmt.Sprint("mod", i%2)
		m[k] = append(m[k], doubledTask.Go(ctx, cascade.Val(i)))
	}
	return cascade.Put(ctx, m)
}

// sumsMap waits for all futures in a map.
func sumsMap(ctx context.Context, m map[string][]cascade.Future[int]) (sum int, err error) {
	for _, l := range m {
		all, err := cascade.GetAll(ctx, l)
		if err != nil {
			return 0, err
		}
		for _, v := range all {
			sum += v
		}
	}
	return sum, nil
}

// handsDown gives a future to a call of itself, as a value, and waits for it at the bottom.
func handsDown(ctx context.Context, f cascade.Future[int], depth int) (int, error) {
	if depth == 0 {
		return f.Get(ctx)
	}
	return handsDownTask.Go(ctx, cascade.Val(f), cascade.Val(depth-1)).Get(ctx)
}

// handsUp returns a future that a call of itself has returned.
func handsUp(ctx context.Context, n, depth int) (cascade.Future[int], error) {
	if depth == 0 {
		return doubledTask.Go(ctx, cascade.Val(n)), nil
	}
	return handsUpTask.Go(ctx, cascade.Val(n), cascade.Val(depth-1)).Get(ctx)
}

// waitsOn returns what waits for a future, and that future as an argument.
func waitsOn(ctx context.Context, p pairOf) (cascade.Future[int], error) {
	return doubledTask.Go(ctx, p.Left), nil
}

// largeOf returns a future of a large array.
func largeOf(ctx context.Context, a cascade.Array[float64]) (cascade.Future[cascade.Array[float64]], error) {
	in, err := cascade.InputFuture[cascade.Array[float64]](ctx, "a")
	return scaledTask.Go(ctx, in, cascade.Val(2.0)), err
}

var (
	pairsTask    = cascade.Func1("refsPairs", pairs, "n -> pair")
	fillsMapTask = cascade.Func1("refsFillsMap", fillsMap, "n -> map")
	sumsMapTask  = cascade.Func1("refsSumsMap", sumsMap, "m -> sum")
	waitsOnTask  = cascade.Func1("refsWaitsOn", waitsOn, "pair -> n")
	largeOfTask  = cascade.Func1("refsLarge", largeOf, "a -> b")

	handsDownTask cascade.Function2x1[cascade.Future[int], int, int]
	handsUpTask   cascade.Function2x1[int, int, cascade.Future[int]]
)

func init() { //nolint:gochecknoinits // Go has no other place for functions that call themselves
	handsDownTask = cascade.Func2("refsHandsDown", handsDown, "f, depth -> n")
	handsUpTask = cascade.Func2("refsHandsUp", handsUp, "n, depth -> f")
}

// scenariosOfReferences are programs with futures in values. They run in a session's program, and in a task.
var scenariosOfReferences = []struct {
	name string
	run  func(ctx context.Context) error
}{
	{"a struct of two futures", func(ctx context.Context) error {
		p, err := pairsTask.Go(ctx, cascade.Val(4)).Get(ctx)
		if err != nil {
			return err
		}
		n, err := p.Left.Get(ctx)
		_, bad := p.Right.Get(ctx)
		if err != nil || n != 8 || !errors.Is(bad, errNoData) || p.Why != "one is good" || !p.Left.Done() || !p.Right.Done() {
			return fmt.Errorf("it is %d, %w; the other fails with %w", n, err, bad)
		}
		return nil
	}},
	{"a map of lists that another task reads", func(ctx context.Context) error {
		put, err := fillsMapTask.Go(ctx, cascade.Val(9)).Get(ctx)
		if err != nil {
			return err
		}
		if n, err := sumsMapTask.Go(ctx, put).Get(ctx); err != nil || n != 72 {
			return fmt.Errorf("the sum by reference is %d, %w", n, err)
		}
		m, err := put.Get(ctx)
		if err != nil || len(m["mod0"]) != 5 {
			return fmt.Errorf("the map has %d lists, %w", len(m), err)
		}
		if n, err := sumsMapTask.Go(ctx, cascade.Val(m)).Get(ctx); err != nil || n != 72 {
			return fmt.Errorf("the sum by value is %d, %w", n, err)
		}
		return nil
	}},
	{"a future that is passed down three levels", func(ctx context.Context) error {
		if n, err := handsDownTask.Go(ctx, cascade.Val(doubledTask.Go(ctx, cascade.Val(5))), cascade.Val(3)).Get(ctx); err != nil || n != 10 {
			return fmt.Errorf("it is %d, %w", n, err)
		}
		return nil
	}},
	{"a future that is returned from three levels", func(ctx context.Context) error {
		f, err := handsUpTask.Go(ctx, cascade.Val(6), cascade.Val(3)).Get(ctx)
		if err != nil {
			return err
		}
		if n, err := doubledTask.Go(ctx, f).Get(ctx); err != nil || n != 24 {
			return fmt.Errorf("it is %d, %w", n, err)
		}
		return nil
	}},
	{"a value that was put", func(ctx context.Context) error {
		put, err := cascade.Put(ctx, pairOf{Left: doubledTask.Go(ctx, cascade.Val(1))})
		if err != nil {
			return err
		}
		f, err := waitsOnTask.Go(ctx, put).Get(ctx)
		if err != nil {
			return err
		}
		if n, err := f.Get(ctx); err != nil || n != 4 {
			return fmt.Errorf("it is %d, %w", n, err)
		}
		return nil
	}},
	{"futures that are waited for", func(ctx context.Context) error {
		var all []cascade.Future[int]
		for i := range 20 {
			p, err := pairsTask.Go(ctx, cascade.Val(i)).Get(ctx)
			if err != nil {
				return err
			}
			all = append(all, p.Left, p.Right)
		}
		ready, err := cascade.Wait(ctx, all, len(all))
		if err != nil || len(ready) != len(all) {
			return fmt.Errorf("%d of %d are ready: %w", len(ready), len(all), err)
		}
		cascade.Release(all[0], all[1])
		if _, err := all[0].Get(ctx); err == nil {
			return errors.New("a released future can be read")
		}
		return nil
	}},
	{"large arrays", func(ctx context.Context) error {
		a := cascade.Array[float64]{Shape: []int{large}, Data: make([]float64, large)}
		a.Data[large-1] = 4
		f, err := largeOfTask.Go(ctx, cascade.Val(a)).Get(ctx)
		if err != nil {
			return err
		}
		b, err := f.Get(ctx)
		if err != nil || b.Data[large-1] != 8 {
			return fmt.Errorf("the array was not doubled: %w", err)
		}
		c, err := scaledTask.Go(ctx, f, cascade.Val(0.5)).Get(ctx)
		if err != nil || !slices.Equal(c.Data, a.Data) {
			return fmt.Errorf("half of it is not what it was: %w", err)
		}
		f.Release()
		return nil
	}},
	{"futures that are dropped", func(ctx context.Context) error {
		for i := range 50 {
			if _, err := pairsTask.Go(ctx, cascade.Val(i)).Get(ctx); err != nil {
				return err
			}
			pairsTask.Go(ctx, cascade.Val(i))
		}
		return nil
	}},
	{"a future in parameters is refused", func(ctx context.Context) error {
		_, err := cascade.Put(ctx, pairOf{Left: complainsTask.Go(ctx, cascade.Val(1), cascade.GPUMemory(1))})
		if err == nil || !strings.Contains(err.Error(), "has failed") {
			return fmt.Errorf("a future that has failed can be put: %w", err)
		}
		return nil
	}},
}

// refers runs one of the scenarios as a task.
func refers(ctx context.Context, n int) (string, error) {
	if err := scenariosOfReferences[n].run(ctx); err != nil {
		return err.Error(), nil
	}
	return "", nil
}

// refersAll runs all of them.
func refersAll(ctx context.Context) (string, error) {
	for _, sc := range scenariosOfReferences {
		if err := sc.run(ctx); err != nil {
			return fmt.Sprintf("%s: %v", sc.name, err), nil
		}
	}
	return "", nil
}

// returnsFuture does what a task of a graph may not.
func returnsFuture(ctx context.Context) (pairOf, error) { return pairs(ctx, 1) }

var (
	refersTask    cascade.Function1x1[int, string]
	refersAllTask cascade.Function0x1[string]
	returnsTask   = cascade.Func0("refsReturns", returnsFuture, "-> pair")
)

func init() { //nolint:gochecknoinits // the scenarios name functions
	refersTask = cascade.Func1("refs", refers, "n -> text")
	refersAllTask = cascade.Func0("refsAll", refersAll, "-> text")
}

func TestReferences(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(2), cascade.WithStore(16<<20))
	s := open(t, c.Client)
	for i, sc := range scenariosOfReferences {
		t.Run(sc.name+", in a session", func(t *testing.T) {
			if err := sc.run(s.Context()); err != nil {
				t.Error(err)
			}
		})
		t.Run(sc.name+", in a task", func(t *testing.T) {
			if text, err := refersTask.Go(s.Context(), cascade.Val(i)).Get(s.Context()); err != nil || text != "" {
				t.Error(text, err)
			}
		})
	}
	t.Run("in the task of a graph", func(t *testing.T) {
		g := cascade.NewGraph("references")
		text := refersAllTask.Add(g, "all")
		g.Output(text, "")
		if got, err := cascade.Result(t.Context(), cascadetest.Submit(t, c, g), text); err != nil || got != "" {
			t.Error(got, err)
		}
	})
	t.Run("returned by the task of a graph", func(t *testing.T) {
		g := cascade.NewGraph("references")
		p := returnsTask.Add(g, "returns")
		g.Output(p, "")
		if _, err := cascade.Result(t.Context(), cascadetest.Submit(t, c, g), p); err == nil || !strings.Contains(err.Error(), "it returned a future or the handle of an actor, which only a task may") {
			t.Errorf("it fails with %v", err)
		}
	})
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
