package executor

import (
	"iter"
	"reflect"
	"slices"
)

// List is a list input: the datasets of several producers. When the job says
// `min`, elements whose producers failed are missing; the rest keep their places.
type List[T any] struct {
	values []T
	index  []int // places of values; nil when none is missing
	total  int
}

// ListOf makes a list, for calling a task's function directly.
func ListOf[T any](values ...T) List[T] { return List[T]{values: values, total: len(values)} }

// Len returns how many elements are there.
func (l List[T]) Len() int { return len(l.values) }

// Total returns how many elements the job declared, missing ones included.
func (l List[T]) Total() int { return l.total }

// At returns the i-th of the elements that are there.
func (l List[T]) At(i int) T { return l.values[i] }

// Values returns the elements that are there, in order. It must not be changed.
func (l List[T]) Values() []T { return l.values }

// All yields the elements that are there, each with its place in the declared list.
func (l List[T]) All() iter.Seq2[int, T] {
	return func(yield func(int, T) bool) {
		for i, v := range l.values {
			if l.index != nil {
				i = l.index[i]
			}
			if !yield(i, v) {
				return
			}
		}
	}
}

// Missing returns the places of elements that are not there.
func (l List[T]) Missing() []int {
	var out []int
	for i := range l.total {
		if l.index != nil && !slices.Contains(l.index, i) {
			out = append(out, i)
		}
	}
	return out
}

// ListType is how code that does not know T makes a List[T].
type ListType struct {
	Elem reflect.Type
	list reflect.Type
	make func(values []any, index []int, total int) any

	items func(list any) []any // the inverse of make
}

type lister interface{ listType() *ListType }

func (List[T]) listType() *ListType {
	return &ListType{Elem: reflect.TypeFor[T](), list: reflect.TypeFor[List[T]](), make: func(values []any, index []int, total int) any {
		l := List[T]{values: make([]T, len(values)), index: index, total: total}
		for i, v := range values {
			l.values[i] = As[T](v)
		}
		return l
	}, items: func(list any) (all []any) {
		for _, v := range As[List[T]](list).values {
			all = append(all, v)
		}
		return all
	}}
}

// listTypeOf returns how to make values of t, or nil when t is no List.
func listTypeOf(t reflect.Type) *ListType {
	if l, ok := reflect.Zero(t).Interface().(lister); ok {
		return l.listType()
	}
	return nil
}

// As returns v as a T; a nil interface value becomes the zero T.
func As[T any](v any) T {
	t, _ := v.(T)
	return t
}
