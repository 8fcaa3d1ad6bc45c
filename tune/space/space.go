package space

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Space is the tree of the parameters of a search. A value is a Domain, a Grid, a From, another Space, a list, or what
// each trial is given as it is.
type Space map[string]any

// View reads a configuration that is being drawn.
type View struct{ root Space }

var errLater = errors.New("the parameter has no value yet")

// At returns the value at a path, such as "model/layers".
func (v View) At(path string) (any, error) {
	var x any = v.root
	for part := range strings.SplitSeq(path, "/") {
		switch in := x.(type) {
		case Space:
			next, ok := in[part]
			if !ok {
				return nil, fmt.Errorf("there is no parameter %q", path)
			}
			x = next
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(in) {
				return nil, fmt.Errorf("there is no parameter %q", path)
			}
			x = in[i]
		default:
			return nil, fmt.Errorf("there is no parameter %q", path)
		}
	}
	if open(x) {
		return nil, fmt.Errorf("%q: %w", path, errLater)
	}
	return x, nil
}

// Float returns the number at a path.
func (v View) Float(path string) (float64, error) {
	x, err := v.At(path)
	if err != nil {
		return 0, err
	}
	switch x := x.(type) {
	case int64:
		return float64(x), nil
	case float64:
		return x, nil
	}
	return 0, fmt.Errorf("the parameter %q is no number: %v", path, x)
}

func open(x any) bool {
	switch x := x.(type) {
	case Domain, Grid, From, Expr:
		return true
	case Space:
		for _, v := range x {
			if open(v) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(x, open)
	}
	return false
}

// Check says what is wrong with the domains of the space, each with its path.
func (s Space) Check() error {
	var errs []error
	walk("", s, func(path string, x any) {
		switch x := x.(type) {
		case Domain:
			if err := x.Check(); err != nil {
				errs = append(errs, fmt.Errorf("parameter %s: %w", path, err))
			}
		case Grid:
			if len(x) == 0 {
				errs = append(errs, fmt.Errorf("parameter %s: a grid of no values", path))
			}
		}
	})
	return errors.Join(errs...)
}

// walk visits what is no map and no list, by path.
func walk(path string, x any, visit func(string, any)) {
	join := func(k string) string { return strings.TrimPrefix(path+"/"+k, "/") }
	switch x := x.(type) {
	case Space:
		for _, k := range sorted(x) {
			walk(join(k), x[k], visit)
		}
	case map[string]any:
		walk(path, Space(x), visit)
	case []any:
		for i, v := range x {
			walk(join(strconv.Itoa(i)), v, visit)
		}
	case Values:
		visit(path, x)
		for _, v := range x {
			walk(path, v, visit)
		}
	default:
		visit(path, x)
	}
}

func sorted(s Space) []string {
	keys := make([]string, 0, len(s))
	for k := range s {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Points returns how many points the grids of the space have. Grids inside a choice do not count: they are refused.
func (s Space) Points() int {
	n := 1
	walk("", s, func(_ string, x any) {
		if g, ok := x.(Grid); ok {
			n *= len(g)
		}
	})
	return n
}

// Draw returns the configuration of one sample: of the grids the point with that number, the first path varying
// fastest, and of each domain a value of the stream of (seed, sample, path).
func (s Space) Draw(seed int64, sample, point int) (map[string]any, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	root := clone(s).(Space)
	d := &drawing{root: root, seed: seed, sample: sample, point: point}
	// A pass draws what can be drawn; what reads others waits for a later one.
	for range 20 {
		d.later, d.moved = nil, false
		if err := d.resolve("", root); err != nil {
			return nil, err
		}
		if len(d.later) == 0 {
			return plain(root).(map[string]any), nil
		}
		if !d.moved {
			break
		}
	}
	return nil, fmt.Errorf("parameters that wait for each other: %s", strings.Join(d.later, ", "))
}

type drawing struct {
	root          Space
	seed          int64
	sample, point int
	later         []string
	moved         bool
}

func (d *drawing) resolve(path string, x any) error {
	join := func(k string) string { return strings.TrimPrefix(path+"/"+k, "/") }
	switch x := x.(type) {
	case Space:
		for _, k := range sorted(x) {
			v, err := d.value(join(k), x[k])
			if err != nil {
				return err
			}
			x[k] = v
			if err := d.resolve(join(k), v); err != nil {
				return err
			}
		}
	case []any:
		for i := range x {
			k := join(strconv.Itoa(i))
			v, err := d.value(k, x[i])
			if err != nil {
				return err
			}
			x[i] = v
			if err := d.resolve(k, v); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *drawing) value(path string, x any) (any, error) {
	for depth := 0; ; depth++ {
		switch y := x.(type) {
		case Grid:
			x = clone(y[d.point%len(y)])
			d.point /= len(y)
		case Domain:
			x = clone(y.Draw(NewStream(d.seed, strconv.Itoa(d.sample), path, strconv.Itoa(depth))))
		case From, Expr:
			v, err := d.compute(y)
			if errors.Is(err, errLater) {
				d.later = append(d.later, path)
				return x, nil
			}
			if err != nil {
				return nil, fmt.Errorf("parameter %s: %w", path, err)
			}
			x = clone(v)
		default:
			return x, nil
		}
		d.moved = true
	}
}

func (d *drawing) compute(x any) (any, error) {
	if e, ok := x.(Expr); ok {
		return e.at(View{d.root})
	}
	return x.(From)(View{d.root})
}

func plain(x any) any {
	switch x := x.(type) {
	case Space:
		m := make(map[string]any, len(x))
		for k, v := range x {
			m[k] = plain(v)
		}
		return m
	case []any:
		for i := range x {
			x[i] = plain(x[i])
		}
	}
	return x
}

// With returns the space in which the parameters of a point have its values, to try a configuration first. An unknown
// path is an error.
func (s Space) With(point map[string]any) (Space, error) {
	c := clone(s).(Space)
	for _, path := range sorted(Space(point)) {
		in, parts := c, strings.Split(path, "/")
		for _, part := range parts[:len(parts)-1] {
			next, ok := in[part].(Space)
			if !ok {
				return nil, s.lacks(path)
			}
			in = next
		}
		last := parts[len(parts)-1]
		if _, ok := in[last]; !ok {
			return nil, s.lacks(path)
		}
		in[last] = clone(point[path])
	}
	return c, nil
}

// lacks says that a point names no parameter that can be fixed.
func (s Space) lacks(path string) error {
	if err := s.Has(path); err != nil {
		return fmt.Errorf("a point to evaluate: %w", err)
	}
	return fmt.Errorf("a point to evaluate has %q, which is in a choice or is computed: name the choice", path)
}
