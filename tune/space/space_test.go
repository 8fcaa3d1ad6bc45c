package space

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestStream holds the generator to numbers that a program in another language draws too.
func TestStream(t *testing.T) {
	s := NewStream(42, "0", "lr", "0")
	got := []string{fmt.Sprintf("%#x", s.Uint64()), fmt.Sprint(s.Float()), fmt.Sprint(s.Below(1000)), fmt.Sprint(s.Normal()),
		fmt.Sprint(LogUniform(1e-4, 1).Draw(s)), fmt.Sprint(QUniform(0, 1, .25).Draw(s)), fmt.Sprint(RandInt(0, 100).Draw(s))}
	want := []string{"0xcb670b750dccc8dd", "0.10228921635274235", "590", "-0.1547420781641287", "0.04311564622534633", "0.75", "84"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the stream draws %q, want %q", got, want)
	}
}

func TestLnAndExp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(1e-300, 1e300).Draw(t, "x")
		if got, want := ln(x), math.Log(x); math.Abs(got-want) > 4e-16*math.Max(1, math.Abs(want)) {
			t.Errorf("ln(%g) is %.17g, want %.17g", x, got, want)
		}
		y := rapid.Float64Range(-700, 700).Draw(t, "y")
		if got, want := exp(y), math.Exp(y); math.Abs(got-want) > 1e-13*want {
			t.Errorf("exp(%g) is %.17g, want %.17g", y, got, want)
		}
	})
}

// TestDomains draws often and looks at what comes.
func TestDomains(t *testing.T) {
	const draws = 100_000
	share := func(d Domain, in func(x any) bool) float64 {
		s, n := NewStream(7, "domains"), 0
		for range draws {
			if in(d.Draw(s)) {
				n++
			}
		}
		return float64(n) / draws
	}
	is := func(v any) func(any) bool { return func(x any) bool { return x == v } }
	for _, c := range []struct {
		name string
		d    Domain
		in   func(any) bool
		want float64
	}{
		{"quniform: an end has half the share", QUniform(0, 1, .25), is(0.0), .125},
		{"quniform: and so has the other", QUniform(0, 1, .25), is(1.0), .125},
		{"quniform: inside", QUniform(0, 1, .25), is(0.5), .25},
		{"qrandint: ends too", QRandInt(0, 10, 5), is(int64(10)), 1. / 3},
		{"qrandint", QRandInt(0, 10, 5), is(int64(5)), 1. / 3},
		{"randint has no upper bound", RandInt(0, 3), is(int64(3)), 0},
		{"randint", RandInt(0, 3), is(int64(2)), 1. / 3},
		{"qrandint by 1 has no upper bound", QRandInt(0, 10, 1), is(int64(10)), 0},
		{"lograndint has no upper bound", LogRandInt(1, 10), is(int64(10)), 0},
		{"lograndint", LogRandInt(1, 10), is(int64(1)), math.Log10(2)},
		{"loguniform", LogUniform(1e-4, 1), func(x any) bool { return x.(float64) < 1e-3 }, .25},
		{"uniform", Uniform(2, 4), func(x any) bool { return x.(float64) < 2.5 }, .25},
		{"randn", RandN(5, 2), func(x any) bool { return x.(float64) < 3 }, .158655},
		{"choice", Choice("a", "b", "c", "d"), is("c"), .25},
	} {
		got, bound := share(c.d, c.in), 4*math.Sqrt(c.want*(1-c.want)/draws)
		if math.Abs(got-c.want) > bound {
			t.Errorf("%s: the share is %.4f, want %.4f +- %.4f", c.name, got, c.want, bound)
		}
	}
}

func TestDomainsThatAreRefused(t *testing.T) {
	for want, s := range map[string]Space{
		"parameter x: the bound 1 is not a multiple of the step 0.3":              {"x": QUniform(0, 1, .3)},
		"parameter a/x: the lower bound 0 of a logarithmic domain is not above 0": {"a": Space{"x": LogUniform(0, 1)}},
		"parameter x: there is no value between 3 and 3":                          {"x": RandInt(3, 3)},
		"parameter x: a grid of no values":                                        {"x": GridSearch()},
		"parameter x: a choice of no values":                                      {"x": Choice()},
		"parameter x: the bounds NaN and 1 are not finite":                        {"x": Uniform(math.NaN(), 1)},
		"parameters that wait for each other: x, y":                               {"x": reads("y", 1, 0), "y": reads("x", 1, 0)},
		`parameter x: there is no parameter "z"`:                                  {"x": reads("z", 1, 0)},
		"parameter x: the standard deviation 0 is not above 0":                    {"x": RandN(1, 0)},
		"parameter l/1: there is no value between 2 and 1":                        {"l": []any{1, Uniform(2, 1)}},
	} {
		if _, err := s.Draw(1, 0, 0); err == nil || err.Error() != want {
			t.Errorf("%v: the error is %v, want %s", s, err, want)
		}
	}
}

func reads(path string, factor, plus float64) From {
	return Computed(func(v View) (any, error) {
		x, err := v.Float(path)
		return x*factor + plus, err
	})
}

// TestDependentParameters computes parameters from others, and has some in one branch of a choice only.
func TestDependentParameters(t *testing.T) {
	s := Space{
		"a": Uniform(1, 2), "b": reads("a", 2, 0), "d": Space{"e": reads("b", 1, 1)},
		"f": Choice(Space{"k": "x"}, Space{"k": "y", "m": RandInt(0, 3)}),
	}
	seen := map[string]bool{}
	for sample := range 50 {
		c, err := s.Draw(3, sample, 0)
		if err != nil {
			t.Fatal(err)
		}
		a, b, e := c["a"].(float64), c["b"].(float64), c["d"].(map[string]any)["e"].(float64)
		f := c["f"].(map[string]any)
		_, m := f["m"]
		if b != 2*a || e != 2*a+1 || m != (f["k"] == "y") {
			t.Errorf("sample %d is %v", sample, c)
		}
		seen[f["k"].(string)] = true
	}
	if len(seen) != 2 {
		t.Errorf("the choice drew %v", seen)
	}
}

// TestGridOrder has the first path vary fastest.
func TestGridOrder(t *testing.T) {
	s := Space{"a": GridSearch(1, 2), "b": GridSearch(10, 20, 30), "c": Uniform(0, 1)}
	var order []string
	drawn := map[any]bool{}
	for point := range s.Points() {
		c, err := s.Draw(1, point, point)
		if err != nil {
			t.Fatal(err)
		}
		order = append(order, fmt.Sprint(c["a"], ",", c["b"]))
		drawn[c["c"]] = true
	}
	if got := strings.Join(order, " "); got != "1,10 2,10 1,20 2,20 1,30 2,30" {
		t.Errorf("the order is %s", got)
	}
	if len(drawn) != 6 {
		t.Errorf("the points have %d values of c, want one each", len(drawn))
	}
	p, err := s.With(map[string]any{"a": 2})
	if err != nil || p.Points() != 3 {
		t.Errorf("with one grid fixed there are %d points, %v", p.Points(), err)
	}
	if _, err := s.With(map[string]any{"z/y": 2}); err == nil || !strings.Contains(err.Error(), `"z/y"`) {
		t.Errorf("an unknown path: %v", err)
	}
}

// TestParametersAreIndependent adds a parameter and finds the others unchanged.
func TestParametersAreIndependent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed, sample := rapid.Int64().Draw(t, "seed"), rapid.IntRange(0, 1000).Draw(t, "sample")
		one, err1 := Space{"m": Uniform(0, 1)}.Draw(seed, sample, 0)
		two, err2 := Space{"a": RandN(0, 1), "m": Uniform(0, 1), "z": Choice(1, 2)}.Draw(seed, sample, 0)
		if err1 != nil || err2 != nil || one["m"] != two["m"] {
			t.Errorf("m is %v alone and %v beside others (%v, %v)", one["m"], two["m"], err1, err2)
		}
	})
}
