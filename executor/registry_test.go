package executor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
)

type receiver struct{ n int }

func (r receiver) method(context.Context, int) (int, error) { return r.n, nil }

func generic[T any](context.Context, T) (int, error) { return 0, nil }

func noContext(int) (int, error) { return 0, nil }

func noError(context.Context, int) int { return 0 }

func variadic(context.Context, ...int) (int, error) { return 0, nil }

func plainInt(context.Context, int) (int, error) { return 0, nil }

func withHidden(context.Context, struct{ a int }) (int, error) { return 0, nil }

func withChan(context.Context, struct{ A chan int }) (int, error) { return 0, nil }

func withInt(context.Context, int) (int, error) { return 0, nil }

func several(context.Context, List[int], scale, []float32) (string, *int, error) { return "", nil, nil }

func channels(context.Context, chan int) (int, error) { return 0, nil }

var outer = func(context.Context, int) (int, error) { return 0, nil }

func closure() any {
	n := 1
	return func(context.Context, int) (int, error) { n++; return n, nil }
}

func TestRegistrationsThatAreRefused(t *testing.T) {
	tests := []struct {
		name, function string
		fn             any
		names          string
		want           string
	}{
		{"closure", "F", closure(), "n -> m", "anonymous function or closure"},
		{"package-level literal", "F", outer, "n -> m", "anonymous function or closure"},
		{"local literal", "F", func(context.Context, int) (int, error) { return 0, nil }, "n -> m", "declare a function at package level"},
		{"method value", "F", receiver{1}.method, "n -> m", "method value"},
		{"generic instance", "F", generic[int], "n -> m", "generic"},
		{"no function", "F", 3, "n -> m", "want a function"},
		{"nil", "F", (func(context.Context, int) (int, error))(nil), "n -> m", "want a function"},
		{"no name", "", plainInt, "n -> m", "is empty"},
		{"bad name", "a b", plainInt, "n -> m", `"a b" cannot be the name`},
		{"long name", strings.Repeat("x", 201), plainInt, "n -> m", "201 characters"},
		{"no arrow", "F", plainInt, "n", "lack the arrow"},
		{"bad input name", "F", plainInt, "1n -> m", `"1n" cannot be the name`},
		{"name twice", "F", several, "a, a, b -> x, y", `"a" is named twice`},
		{"too many inputs", "F", plainInt, "n, k -> m", "takes 1 values after the context"},
		{"too many outputs", "F", plainInt, "n -> m, k", "has 1 results"},
		{"no context", "F", noContext, "n -> m", "first parameter must be a context.Context"},
		{"no error", "F", noError, "n -> m", "last result must be an error"},
		{"variadic", "F", variadic, "n -> m", "cascade.List"},
		{"parameters are no struct", "F", withInt, "with -> m", "must be a struct"},
		{"hidden parameter", "F", withHidden, "with -> m", "is not exported"},
		{"parameter of a bad type", "F", withChan, "with -> m", "cannot be written in a job file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &Registry{}
			defer func() {
				p := fmt.Sprint(recover())
				if !strings.Contains(p, tt.want) || !strings.Contains(p, "registry_test.go:") {
					t.Errorf("panic is %q, want %q and the place", p, tt.want)
				}
			}()
			r.Register(&Func{Name: tt.function, Call: func(context.Context, []any, []any) error { return nil }}, tt.fn, tt.names)
			t.Error("it was accepted")
		})
	}
}

func TestDuplicatesAreRefused(t *testing.T) {
	r := &Registry{}
	call := func(context.Context, []any, []any) error { return nil }
	if err := r.add(&Func{Name: "F", Call: call}, plainInt, "n -> m"); err != nil {
		t.Fatal(err)
	}
	if err := r.add(&Func{Name: "F", Call: call}, withInt, "n -> m"); err == nil || !strings.Contains(err.Error(), "the name is taken by a registration at") {
		t.Errorf("same name: %v", err)
	}
	if err := r.add(&Func{Name: "G", Call: call}, plainInt, "n -> m"); err == nil || !strings.Contains(err.Error(), `is registered as "F"`) {
		t.Errorf("same function: %v", err)
	}
	if _, ok := r.Lookup("G"); ok {
		t.Error("a refused name is known")
	}
}

func TestSignatures(t *testing.T) {
	r := testRegistry()
	if err := r.add(&Func{Name: "several", Call: func(context.Context, []any, []any) error { return nil }}, several, "parts, with, v -> text, n"); err != nil {
		t.Fatal(err)
	}
	sigs, err := r.Signatures()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for i, s := range sigs {
		got[s.Name] = s.Sig
		if i > 0 && sigs[i-1].Name >= s.Name {
			t.Error("signatures are not sorted")
		}
	}
	for name, want := range map[string]string{
		"double":  "(n msgpack int) -> (n2 msgpack int)",
		"scaled":  "(v array f64, with {factor float64; offset float64?}) -> (w array f64)",
		"sum":     "(all list of msgpack int) -> (text raw text)",
		"count":   "(n msgpack int) -> (series of square msgpack int)",
		"several": "(parts list of msgpack int, v array f32, with {factor float64; offset float64?}) -> (text raw text, n msgpack *int)",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	func1(r, "channels", channels, "c -> n")
	only, err := r.SignaturesOf(func(name string) bool { return name == "double" || name == "absent" })
	if err != nil || len(only) != 1 || only[0].Name != "double" {
		t.Errorf("got %v, %v, want double alone", only, err)
	}
	if _, err := r.Signatures(); err == nil || !strings.Contains(err.Error(), `function "channels"`) || !strings.Contains(err.Error(), "cannot travel") {
		t.Errorf("error is %v", err)
	}
}

func TestErrorCodes(t *testing.T) {
	r := &Registry{}
	base := r.RegisterError("base", errors.New("base"))
	other := r.RegisterError("other", errors.New("other"))
	if got := r.codesOf(fmt.Errorf("x: %w", errors.Join(other, base))); strings.Join(got, " ") != "base other" {
		t.Errorf("codes are %v", got)
	}
	if got := r.codesOf(errors.New("base")); got != nil {
		t.Errorf("an error with the same text has codes %v", got)
	}
	err := r.Wrap(&comms.TaskError{Message: "m", Codes: []string{"other", "unknown here"}})
	if !errors.Is(err, other) || errors.Is(err, base) {
		t.Errorf("%v is other %t, base %t", err, errors.Is(err, other), errors.Is(err, base))
	}
	for name, f := range map[string]func(){
		"code twice":  func() { r.RegisterError("base", errors.New("z")) },
		"error twice": func() { r.RegisterError("z", base) },
		"no error":    func() { r.RegisterError("z", nil) },
		"no code":     func() { r.RegisterError("", errors.New("z")) },
	} {
		func() {
			defer func() {
				if p := fmt.Sprint(recover()); !strings.Contains(p, "registry_test.go:") {
					t.Errorf("%s: panic is %q", name, p)
				}
			}()
			f()
			t.Errorf("%s was accepted", name)
		}()
	}
}

func TestClosureNames(t *testing.T) {
	for name, want := range map[string]bool{
		"pkg.Spread": false, "pkg.func1": false, "pkg.glob..func1": true, "pkg.Outer.func2": true, "pkg.Outer.func2.1": true,
		"pkg.init.func1": true, "pkg.Outer.gowrap1": true, "pkg.T.Method": false, "pkg.(*T).Method": false, "v2.functional": false,
		"pkg.Outer.func1.2.func3": true, "pkg.function.funcs": false,
	} {
		if got := isClosureName(name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

type everything struct {
	Flag     bool
	Name     string
	Count    int8
	Size     uint16
	Ratio    float32
	Every    time.Duration
	Day      time.Time
	Levels   []int
	Pair     [2]float64
	Limits   map[string]float64
	Inner    struct{ DeepValue int }
	Maybe    *string `with:"maybe,optional"`
	Any      any     `with:"anything,optional"`
	Ignored  int     `with:"-"`
	ERA5File string
}

func good() map[string]any {
	return map[string]any{
		"flag": true, "name": "x", "count": 5, "size": 7, "ratio": 2, "every": "1m30s", "day": "2024-05-01",
		"levels": []any{500, 850.0}, "pair": []any{1, 2.5}, "limits": map[string]any{"t": 1.5}, "inner": map[string]any{"deep_value": 3}, "era5_file": "f",
	}
}

func TestParameters(t *testing.T) {
	v, err := decodeWith(typeOf[everything](), with(t, good()))
	if err != nil {
		t.Fatal(err)
	}
	e := v.(everything)
	if !e.Flag || e.Count != 5 || e.Ratio != 2 || e.Every != 90*time.Second || e.Day.Month() != time.May || e.Levels[1] != 850 ||
		e.Pair[1] != 2.5 || e.Limits["t"] != 1.5 || e.Inner.DeepValue != 3 || e.Maybe != nil || e.ERA5File != "f" {
		t.Errorf("parameters are %+v", e)
	}
	// What a program gives goes through the job and comes back the same.
	name := "${not an expression}"
	e.Maybe, e.Any = &name, int64(4)
	fields, err := Parameters(e)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]any{}
	for _, f := range fields {
		m[f.Name] = f.Value
	}
	if m["maybe"] != "$${not an expression}" {
		t.Errorf("text became %v", m["maybe"])
	}
	m["maybe"] = name
	back, err := decodeWith(typeOf[everything](), with(t, m))
	if err != nil {
		t.Fatal(err)
	}
	b := back.(everything)
	if *b.Maybe != name || b.Day != e.Day || b.Every != e.Every || b.Inner != e.Inner || b.Levels[0] != 500 || b.Any != int64(4) && b.Any != int8(4) {
		t.Errorf("parameters became %+v", b)
	}
}

// Numbers that one side has and the other has not are refused, and never others.
func TestParametersOfAnySize(t *testing.T) {
	type sizes struct {
		Whole  uint64
		Number float32
	}
	for _, given := range []any{sizes{Whole: math.MaxInt64 + 1}, struct{ List []map[string]uint64 }{[]map[string]uint64{{"a": math.MaxUint64}}}} {
		if fields, err := Parameters(given); err == nil || !strings.Contains(err.Error(), "does not fit into the 64 bits with a sign that a job file has") {
			t.Errorf("%+v: %v, %v", given, fields, err)
		}
	}
	v, err := decodeWith(typeOf[sizes](), with(t, map[string]any{"whole": uint64(math.MaxUint64), "number": 0.1}))
	if want := (sizes{math.MaxUint64, 0.1}); err != nil || v != want {
		t.Errorf("parameters are %+v, %v", v, err)
	}
	if v, err := decodeWith(typeOf[sizes](), with(t, map[string]any{"whole": 1, "number": 1e300})); err == nil || !strings.Contains(err.Error(), "with.number: want a number, got 1e+300") {
		t.Errorf("parameters are %+v, %v", v, err)
	}
}

func TestParametersThatAreWrong(t *testing.T) {
	for name, tt := range map[string]struct {
		key   string
		value any
		want  string
	}{
		"unknown":       {"treshold", 1, "with.treshold is not a parameter of the function: it takes {flag bool; name string;"},
		"flag":          {"flag", 1, "with.flag: want true or false, got 1"},
		"text":          {"name", 1, "with.name: want a text, got 1"},
		"overflow":      {"count", 200, "with.count: want an integer that fits int8, got 200"},
		"negative":      {"size", -1, "with.size: want an integer that fits uint16, got -1"},
		"fraction":      {"count", 1.5, "with.count: want an integer"},
		"number":        {"ratio", "a", `with.ratio: want a number, got the text "a"`},
		"duration":      {"every", 30, `with.every: want a duration such as "30s", got 30`},
		"bad duration":  {"every", "fast", `got the text "fast"`},
		"time":          {"day", "tomorrow", "want a time such as"},
		"list":          {"levels", 1, "with.levels: want a list, got 1"},
		"element":       {"levels", []any{1, "b"}, `with.levels[1]: want an integer that fits int, got the text "b"`},
		"array":         {"pair", []any{1}, "want a list of 2 elements, got a list of 1"},
		"map":           {"limits", []any{}, "with.limits: want a map"},
		"value in map":  {"limits", map[string]any{"t": "x"}, "with.limits.t: want a number"},
		"nested":        {"inner", map[string]any{"deep": 1}, "with.inner.deep_value is missing"},
		"nested other":  {"inner", map[string]any{"deep": 1}, "with.inner.deep is not a parameter"},
		"struct":        {"inner", 3, "with.inner: want a map {deep_value int}"},
		"nothing given": {"name", nil, "with.name: want a text, got nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			m := good()
			m[tt.key] = tt.value
			_, err := decodeWith(typeOf[everything](), with(t, m))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want %q", err, tt.want)
			}
		})
	}
	for _, b := range [][]byte{{0xc1}, {0x93, 1, 2, 3}, {0x81, 0xa1}} {
		if _, err := decodeWith(typeOf[everything](), b); err == nil {
			t.Errorf("% x was accepted", b)
		}
	}
	if _, err := decodeWith(typeOf[everything](), nil); err == nil || !strings.Contains(err.Error(), "with.name is missing") || !strings.Contains(err.Error(), "with.flag is missing") {
		t.Errorf("not all missing parameters are named: %v", err)
	}
}

func FuzzParameters(f *testing.F) {
	f.Add(with(f, good()))
	f.Add([]byte{0x81, 0xa4, 'n', 'a', 'm', 'e', 0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := decodeWith(typeOf[everything](), b)
		if err != nil {
			return
		}
		if _, err := Parameters(v); err != nil {
			t.Errorf("decoded parameters cannot be written: %v", err)
		}
	})
}

func TestListsKeepPlaces(t *testing.T) {
	l := ListOf("a", "b")
	if l.Len() != 2 || l.Total() != 2 || l.At(1) != "b" || l.Missing() != nil {
		t.Errorf("list is %+v", l)
	}
	made := listTypeOf(typeOf[List[string]]()).make([]any{"x", "z"}, []int{0, 2}, 4).(List[string])
	var got []string
	for i, v := range made.All() {
		got = append(got, fmt.Sprint(i, v))
		if i == 2 {
			break
		}
	}
	if strings.Join(got, " ") != "0x 2z" || fmt.Sprint(made.Missing()) != "[1 3]" || fmt.Sprint(made.Values()) != "[x z]" {
		t.Errorf("list yields %v, missing %v", got, made.Missing())
	}
	if listTypeOf(typeOf[[]string]()) != nil || listTypeOf(typeOf[any]()) != nil {
		t.Error("something else is taken for a list")
	}
}

func TestFlat(t *testing.T) {
	type inner struct{ N int }
	for _, tt := range []struct {
		of   any
		want bool
	}{
		{struct{ Iterations int }{}, true},
		{struct {
			Name  string
			Grid  [2]inner
			Start time.Time
			For   time.Duration
		}{}, true},
		{struct{ Steps []int }{}, false},
		{struct {
			In inner
			To *inner
		}{}, false},
		{struct{ Grid [2]map[string]int }{}, false},
		{struct{ Any any }{}, false},
	} {
		if got := flat(reflect.TypeOf(tt.of)); got != tt.want {
			t.Errorf("%T: flat is %v, want %v", tt.of, got, tt.want)
		}
	}
}
