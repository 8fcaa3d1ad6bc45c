package executor

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/cascade-run/cascade/executor/value"
)

var (
	contextType = reflect.TypeFor[context.Context]()
	errorType   = reflect.TypeFor[error]()
)

// withName marks the parameter struct in the text that names parameters.
const withName = "with"

// splitNames reads "a, b, with -> x, y".
func splitNames(text string) (in, out []string, err error) {
	left, right, ok := strings.Cut(text, "->")
	if !ok {
		return nil, nil, fmt.Errorf("names %q lack the arrow: write \"input, input -> output\", or \"-> output\" when there is no input", text)
	}
	list := func(s, what string) (names []string) {
		if strings.TrimSpace(s) == "" {
			return nil
		}
		seen := map[string]bool{}
		for n := range strings.SplitSeq(s, ",") {
			n = strings.TrimSpace(n)
			if e := checkName(what, n); e != nil {
				err = errors.Join(err, e)
			}
			if seen[n] {
				err = errors.Join(err, fmt.Errorf("%s %q is named twice", what, n))
			}
			seen[n] = true
			names = append(names, n)
		}
		return names
	}
	in, out = list(left, "input"), list(right, "output")
	return in, out, err
}

// describe fills ports from the Go type and the names.
func (f *Func) describe(t reflect.Type, names string) error {
	in, out, err := splitNames(names)
	if err != nil {
		return err
	}
	if t.IsVariadic() {
		return fmt.Errorf("%s is variadic: take a cascade.List instead", t)
	}
	if t.NumIn() == 0 || t.In(0) != contextType {
		return fmt.Errorf("%s: the first parameter must be a context.Context", t)
	}
	if t.NumIn()-1 != len(in) {
		return fmt.Errorf("the Go function takes %d values after the context, %q names %d", t.NumIn()-1, names, len(in))
	}
	for i, n := range in {
		pt := t.In(i + 1)
		if n == withName {
			if pt.Kind() != reflect.Struct {
				return fmt.Errorf("the parameter named \"with\" takes the task's parameters and must be a struct, it is %s", pt)
			}
			if err := checkWith(pt); err != nil {
				return err
			}
			f.With, f.WithAt = pt, i
			continue
		}
		p := Port{Name: n, Type: pt}
		if l := listTypeOf(pt); l != nil {
			p.Type, p.List = l.Elem, l
		}
		f.Inputs = append(f.Inputs, p)
	}
	return f.describeOutputs(t, out, names)
}

func (f *Func) describeOutputs(t reflect.Type, out []string, names string) error {
	types := make([]reflect.Type, 0, t.NumOut())
	for i := range t.NumOut() {
		types = append(types, t.Out(i))
	}
	switch {
	case f.Seq != nil:
		if len(types) != 1 {
			return fmt.Errorf("a generator returns one iter.Seq2[T, error], %s does not", t)
		}
		types = []reflect.Type{types[0].In(0).In(0)}
	case len(types) == 0 || types[len(types)-1] != errorType:
		return fmt.Errorf("%s: the last result must be an error", t)
	default:
		types = types[:len(types)-1]
	}
	if len(types) != len(out) {
		return fmt.Errorf("the Go function has %d results, %q names %d outputs", len(types), names, len(out))
	}
	for i, n := range out {
		f.Outputs = append(f.Outputs, Port{Name: n, Type: types[i]})
	}
	return nil
}

// signature is what two programs must agree on to run each other's tasks.
func (f *Func) signature(codecs *value.Codecs) (string, error) {
	var b strings.Builder
	b.WriteByte('(')
	sep := ""
	port := func(p Port, list bool) error {
		c, err := codecs.For(p.Type)
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		b.WriteString(sep + p.Name + " ")
		if list {
			b.WriteString("list of ")
		}
		b.WriteString(c.Text())
		sep = ", "
		return nil
	}
	for _, p := range f.Inputs {
		if err := port(p, p.List != nil); err != nil {
			return "", fmt.Errorf("input %w", err)
		}
	}
	if f.With != nil {
		b.WriteString(sep + "with " + withText(f.With))
	}
	b.WriteString(") -> (")
	sep = ""
	if f.Seq != nil {
		sep = "series of "
	}
	for _, p := range f.Outputs {
		if err := port(p, false); err != nil {
			return "", fmt.Errorf("output %w", err)
		}
	}
	b.WriteByte(')')
	return b.String(), nil
}
