package space

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"
)

// Expr is a parameter that is computed from others by an expression, such as "layers * 2" or "model.width / 4". Unlike a
// From it can be written to a file.
type Expr struct {
	Text    string
	program *vm.Program
}

// NewExpr reads an expression of the language of expr-lang.
func NewExpr(text string) (Expr, error) {
	p, err := expr.Compile(text)
	if err != nil {
		return Expr{}, fmt.Errorf("the expression %q: %w", text, err)
	}
	return Expr{text, p}, nil
}

// at computes the value. errLater says that it reads a parameter that has none yet.
func (e Expr) at(v View) (any, error) {
	if e.program == nil {
		made, err := NewExpr(e.Text)
		if err != nil {
			return nil, err
		}
		e = made
	}
	known := map[string]any{}
	for k, x := range v.root {
		if !open(x) {
			known[k] = plain(clone(x))
		} else if sub, ok := x.(Space); ok { // what of it is drawn can be read
			known[k] = drawn(sub)
		}
	}
	x, err := expr.Run(e.program, known)
	if err == nil && x != nil {
		return clone(x), nil
	}
	for k := range v.root {
		if open(v.root[k]) && strings.Contains(e.Text, k) {
			return nil, errLater
		}
	}
	if err == nil {
		err = fmt.Errorf("it has no value")
	}
	return nil, fmt.Errorf("the expression %q: %w", e.Text, err)
}

func drawn(s Space) map[string]any {
	m := map[string]any{}
	for k, x := range s {
		if sub, ok := x.(Space); ok && open(x) {
			m[k] = drawn(sub)
		} else if !open(x) {
			m[k] = plain(clone(x))
		}
	}
	return m
}

// domains are the names of what files write as {"name": arguments}.
var domains = map[string]struct {
	arguments int
	make      func(a []float64) Number
}{
	"uniform":     {2, func(a []float64) Number { return Uniform(a[0], a[1]) }},
	"loguniform":  {2, func(a []float64) Number { return LogUniform(a[0], a[1]) }},
	"quniform":    {3, func(a []float64) Number { return QUniform(a[0], a[1], a[2]) }},
	"qloguniform": {3, func(a []float64) Number { return QLogUniform(a[0], a[1], a[2]) }},
	"randint":     {2, func(a []float64) Number { return RandInt(int64(a[0]), int64(a[1])) }},
	"lograndint":  {2, func(a []float64) Number { return LogRandInt(int64(a[0]), int64(a[1])) }},
	"qrandint":    {3, func(a []float64) Number { return QRandInt(int64(a[0]), int64(a[1]), int64(a[2])) }},
	"randn":       {2, func(a []float64) Number { return RandN(a[0], a[1]) }},
	"qrandn":      {3, func(a []float64) Number { return QRandN(a[0], a[1], a[2]) }},
}

// MarshalJSON writes the space with its domains as {"uniform": [0, 1]}. A From is an error: use Expr.
func (s Space) MarshalJSON() ([]byte, error) {
	x, err := encode("", s)
	if err != nil {
		return nil, err
	}
	return json.Marshal(Exact(x))
}

// Exact returns a tree of JSON whose floats encoding/json writes so that Read finds floats again: 1.0 and not 1.
func Exact(x any) any {
	switch x := x.(type) {
	case float64:
		if x == math.Trunc(x) && math.Abs(x) < 1e21 { // others have a point or an exponent
			return json.Number(strconv.FormatFloat(x, 'f', 1, 64))
		}
	case float32:
		return Exact(float64(x))
	case []any:
		out := make([]any, len(x))
		for i, v := range x {
			out[i] = Exact(v)
		}
		return out
	case map[string]any:
		m := make(map[string]any, len(x))
		for k, v := range x {
			m[k] = Exact(v)
		}
		return m
	}
	return x
}

// MarshalJSON writes the domain as {"uniform": [0, 1]}.
func (n Number) MarshalJSON() ([]byte, error) {
	x, err := encode("", n)
	if err != nil {
		return nil, err
	}
	return json.Marshal(x)
}

func encode(path string, x any) (any, error) {
	list := func(name string, values []any) (any, error) {
		out := make([]any, len(values))
		for i, v := range values {
			y, err := encode(path, v)
			if err != nil {
				return nil, err
			}
			out[i] = y
		}
		if name == "" {
			return out, nil
		}
		return map[string]any{name: out}, nil
	}
	switch x := x.(type) {
	case Space:
		m := map[string]any{}
		for k, v := range x {
			y, err := encode(strings.TrimPrefix(path+"/"+k, "/"), v)
			if err != nil {
				return nil, err
			}
			m[k] = y
		}
		return m, nil
	case map[string]any:
		return encode(path, Space(x))
	case []any:
		return list("", x)
	case Values:
		return list("choice", x)
	case Grid:
		return list("grid_search", x)
	case Expr:
		return map[string]any{"expr": x.Text}, nil
	case Number:
		name, a := x.name()
		return map[string]any{name: a}, nil
	case From:
		return nil, fmt.Errorf("parameter %s: a Go function cannot be written to a file; use an expression (NewExpr)", path)
	}
	return x, nil
}

func (n Number) name() (string, []any) {
	name, q := "uniform", ""
	high := any(n.High)
	low := any(n.Low)
	switch {
	case n.Bell:
		name = "randn"
	case n.Int:
		name, low, high = "randint", int64(n.Low), int64(n.upper())
	}
	if n.Log {
		name = "log" + name
	}
	args := []any{low, high}
	if n.Q > 0 {
		q = "q"
		if n.Int {
			args = append(args, int64(n.Q))
		} else {
			args = append(args, n.Q)
		}
	}
	return q + name, args
}

// UnmarshalJSON reads a space. A map of one key that is the name of a domain is that domain. A number with a point or an
// exponent is a float, another an integer.
func (s *Space) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return err
	}
	x, err := Read(m)
	if err != nil {
		return err
	}
	*s = x
	return nil
}

// Read makes a space of what a file has: see UnmarshalJSON.
func Read(m map[string]any) (Space, error) {
	s := Space{}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		x, err := decode(k, m[k])
		if err != nil {
			return nil, err
		}
		s[k] = x
	}
	return s, nil
}

func decode(path string, x any) (any, error) {
	switch x := x.(type) {
	case []any:
		out := make([]any, len(x))
		for i, v := range x {
			y, err := decode(fmt.Sprint(path, "/", i), v)
			if err != nil {
				return nil, err
			}
			out[i] = y
		}
		return out, nil
	case json.Number:
		if !strings.ContainsAny(string(x), ".eE") {
			if i, err := x.Int64(); err == nil {
				return i, nil
			}
		}
		f, err := x.Float64()
		if err != nil {
			return nil, fmt.Errorf("parameter %s: the number %s: %w", path, x, err)
		}
		return f, nil
	case map[string]any:
		if len(x) == 1 {
			for name, arguments := range x {
				if d, ok, err := domain(path, name, arguments); ok || err != nil {
					return d, err
				}
			}
		}
		s := Space{}
		for k, v := range x {
			y, err := decode(path+"/"+k, v)
			if err != nil {
				return nil, err
			}
			s[k] = y
		}
		return s, nil
	}
	return x, nil
}

func domain(path, name string, arguments any) (any, bool, error) {
	switch name {
	case "choice", "grid_search", "grid":
		values, ok := arguments.([]any)
		if !ok {
			return nil, true, fmt.Errorf("parameter %s: %s takes a list of values", path, name)
		}
		list, err := decode(path, values)
		if err != nil {
			return nil, true, err
		}
		if name == "choice" {
			return Values(list.([]any)), true, nil
		}
		return Grid(list.([]any)), true, nil
	case "expr":
		text, ok := arguments.(string)
		if !ok {
			return nil, true, fmt.Errorf("parameter %s: expr takes a text", path)
		}
		e, err := NewExpr(text)
		if err != nil {
			return nil, true, fmt.Errorf("parameter %s: %w", path, err)
		}
		return e, true, nil
	}
	d, ok := domains[name]
	if !ok {
		return nil, false, nil
	}
	list, ok := arguments.([]any)
	if !ok || len(list) != d.arguments {
		return nil, true, fmt.Errorf("parameter %s: %s takes %d numbers, such as {%s: [1, 10]}", path, name, d.arguments, name)
	}
	a := make([]float64, len(list))
	for i, v := range list {
		switch v := v.(type) {
		case float64:
			a[i] = v
		case int:
			a[i] = float64(v)
		case int64:
			a[i] = float64(v)
		case json.Number:
			f, err := v.Float64()
			if err != nil {
				return nil, true, fmt.Errorf("parameter %s: %s takes numbers, not %s: %w", path, name, v, err)
			}
			a[i] = f
		default:
			return nil, true, fmt.Errorf("parameter %s: %s takes numbers, not %v", path, name, v)
		}
	}
	n := d.make(a)
	if err := n.Check(); err != nil {
		return nil, true, fmt.Errorf("parameter %s: %w", path, err)
	}
	return n, true, nil
}
