package cascade

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cascade-run/cascade/dag"
)

// References name datasets of a graph under construction, with their Go types:
//
//	Ref[T]           one dataset
//	RefList[T]       several, for an input of type List[T]
//	Family[T]        one dataset of each task that Map added
//	Series[T]        the elements that a generator publishes
//	SeriesFamily[T]  the series of each generator that Map added

// Arg is what a function's parameter of type T can be given: a Ref[T]; for a
// List[V] a RefList[V]; for parameters a Params[T].
type Arg[T any] interface {
	Source
	accepts(T)
}

// Source is datasets of a graph: any reference.
type Source interface{ source() input }

// input is what an argument lowers to.
type input struct {
	list   bool
	min    int
	from   []dag.From
	params any
	set    map[string]any
	err    error
}

func lower[T any](a Arg[T]) input {
	if a == nil {
		return input{err: errors.New("the argument is nil")}
	}
	return a.source()
}

// place is an output of a group, before it is narrowed to tasks and elements.
type place struct {
	group, output string
	axes          int
	index         string // "[...]" over the axes, "" when not narrowed
	element       string // "[...]" over a series
	err           error
}

func (p place) from() dag.From {
	return dag.From{Text: p.group + p.index + "." + p.output + p.element}
}

func (p place) at(index []any) place {
	if len(index) != p.axes {
		p.err = fmt.Errorf("%s has %d axes, At got %d indices", p.group, p.axes, len(index))
		return p
	}
	words := make([]string, len(index))
	for i, x := range index {
		w, err := indexText(x)
		if err != nil {
			p.err = err
		}
		words[i] = w
	}
	p.index = "[" + strings.Join(words, ",") + "]"
	return p
}

func (p place) all() place {
	if p.axes > 0 {
		p.index = "[*" + strings.Repeat(",*", p.axes-1) + "]"
	}
	return p
}

// indexText writes an index as job files do.
func indexText(x any) (string, error) {
	switch x := x.(type) {
	case int:
		return strconv.Itoa(x), nil
	case string:
		return x, nil
	case Axis:
		return "${" + x.axis.Var + "}", x.err
	case Expr:
		return "${" + string(x) + "}", nil
	}
	return "", fmt.Errorf("index %v is %T: want an int, a string, an Axis or an Expr", x, x)
}

// Expr is an expression over axes, for indices and parameters: Expr("step - 1").
type Expr string

// Axis is a loop variable and its values. As an index it stands for the value
// that the task at hand has.
type Axis struct {
	axis     dag.Axis
	elements *dag.From
	err      error
}

// Over collects the axes of a Map; the last varies fastest.
func Over(axes ...Axis) []Axis { return axes }

// Range is the axis first, first+1, ..., last.
func Range(name string, first, last int) Axis {
	return Axis{axis: dag.Range(name, int64(first), int64(last))}
}

// Values is an axis over a list.
func Values[V int | string](name string, values ...V) Axis {
	return Axis{axis: dag.Values(name, values...)}
}

// Ref refers to one dataset of type T.
type Ref[T any] struct{ place }

func (Ref[T]) accepts(T) {}

func (r Ref[T]) source() input { return input{from: []dag.From{r.from()}, err: r.err} }

// String returns the reference as a job file writes it.
func (r Ref[T]) String() string { return r.from().Text }

// RefList refers to the datasets of a list input.
type RefList[T any] struct{ in input }

// Refs makes a list of single references, in order.
func Refs[T any](refs ...Ref[T]) RefList[T] {
	l := RefList[T]{input{list: true}}
	for _, r := range refs {
		l.in.from = append(l.in.from, r.from())
		l.in.err = errors.Join(l.in.err, r.err)
	}
	return l
}

func (RefList[T]) accepts(List[T]) {}

func (l RefList[T]) source() input { return l.in }

// Min lets the consumer start when n elements are there and the others have failed.
func (l RefList[T]) Min(n int) RefList[T] {
	l.in.min = n
	return l
}

// And appends other datasets.
func (l RefList[T]) And(more RefList[T]) RefList[T] {
	l.in.from = append(l.in.from[:len(l.in.from):len(l.in.from)], more.in.from...)
	l.in.err = errors.Join(l.in.err, more.in.err)
	return l
}

func listOf[T any](p place) RefList[T] {
	return RefList[T]{input{list: true, from: []dag.From{p.from()}, err: p.err}}
}

// Family refers to one dataset of each task of a family.
type Family[T any] struct{ place }

// At chooses the dataset of one task: an index for each axis.
func (f Family[T]) At(index ...any) Ref[T] { return Ref[T]{f.at(index)} }

// Some chooses several: like At, where All stands for each value of an axis.
func (f Family[T]) Some(index ...any) RefList[T] { return listOf[T](f.at(index)) }

// All is the datasets of all tasks, in order.
func (f Family[T]) All() RefList[T] { return listOf[T](f.all()) }

func (f Family[T]) source() input { return f.All().in }

// All stands for each value of an axis in Some.
const All = "*"

// Series refers to the elements that one generator publishes.
type Series[T any] struct{ place }

// At is one element: its number, an Axis or an Expr.
func (s Series[T]) At(element any) Ref[T] { return Ref[T]{s.elementAt(element)} }

// All is all elements, in order; its consumer starts when the series has ended.
func (s Series[T]) All() RefList[T] {
	s.element = "[*]"
	return listOf[T](s.place)
}

func (s Series[T]) source() input { return s.All().in }

// Each is an axis over the elements: Map with it as first axis adds one task for
// each element, which starts when the element is published.
func (s Series[T]) Each(name string) Axis {
	s.element = "[*]"
	from := s.from()
	return Axis{axis: dag.Axis{Var: name}, elements: &from, err: s.err}
}

func (p place) elementAt(element any) place {
	text, err := indexText(element)
	p.element = "[" + text + "]"
	p.err = errors.Join(p.err, err)
	return p
}

// SeriesFamily refers to the series of each generator of a family.
type SeriesFamily[T any] struct{ place }

// At chooses the series of one generator.
func (f SeriesFamily[T]) At(index ...any) Series[T] { return Series[T]{f.at(index)} }

// Params are the parameters of a task.
type Params[P any] struct {
	value P
	set   map[string]any
}

// With gives a function its parameters.
func With[P any](p P) Params[P] { return Params[P]{value: p} }

// Set replaces a parameter by an Expr or an Axis, so that each task of a family
// has a value of its own. The name is that of the job file.
func (p Params[P]) Set(name string, v any) Params[P] {
	set := map[string]any{name: v}
	for k, old := range p.set {
		if k != name {
			set[k] = old
		}
	}
	p.set = set
	return p
}

func (Params[P]) accepts(P) {}

func (p Params[P]) source() input {
	in := input{params: p.value, set: map[string]any{}}
	for name, v := range p.set {
		text, err := indexText(v)
		in.set[name] = text
		in.err = errors.Join(in.err, err)
	}
	return in
}
