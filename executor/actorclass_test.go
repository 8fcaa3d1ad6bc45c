package executor

import (
	"context"
	"strings"
	"testing"
)

type box struct{ n int }

func newBox(context.Context) (*box, error)                  { return &box{}, nil }
func newBoxOf(context.Context, List[int]) (*box, error)     { return &box{}, nil }
func (b *box) put(_ context.Context, n int) (int, error)    { b.n += n; return b.n, nil }
func (b *box) list(context.Context, List[int]) (int, error) { return b.n, nil }
func (b *box) with(context.Context, struct{ N int }) error  { return nil }
func (b *box) several(context.Context) (int, int, error)    { return 0, 0, nil }
func (b *box) wrong(n int) (int, error)                     { return n, nil }

// TestActorsThatAreRefused registers what cannot be an actor.
func TestActorsThatAreRefused(t *testing.T) {
	closure := func(context.Context) (*box, error) { return nil, nil }
	class := func(name string, fn any, names string) func(*Registry) error {
		return func(r *Registry) error { return r.addClass(&Class{Func: &Func{Name: name}}, fn, names) }
	}
	method := func(name string, fn any, names string) func(*Registry) error {
		return func(r *Registry) error {
			c := &Class{Func: &Func{Name: "Box"}}
			if err := r.addClass(c, newBox, ""); err != nil {
				return err
			}
			return r.addMethod(&Method{Func: &Func{Name: name}, Class: c}, fn, names)
		}
	}
	for _, row := range []struct {
		name string
		do   func(*Registry) error
		says string // "" is well
	}{
		{"a constructor", class("Box", newBox, ""), ""},
		{"a closure", class("Box", closure, ""), "declare a function at package level"},
		{"a name with a space", class("a box", newBox, ""), "cannot be the name of the actor"},
		{"an arrow", class("Box", newBox, "->"), "names its parameters alone"},
		{"names that are too many", class("Box", newBox, "n"), "takes 0 values after the context"},
		{"a list", class("Box", newBoxOf, "all"), "take a slice"},
		{"a method", method("Put", (*box).put, "n -> sum"), ""},
		{"a method value", method("Put", (&box{}).put, "n -> sum"), "is a method value"},
		{"a method of a list", method("List", (*box).list, "all -> n"), "take a slice"},
		{"parameters of tasks", method("With", (*box).with, "with ->"), `cannot be named "with"`},
		{"results without a name", method("Several", (*box).several, "-> a"), "has 2 results"},
		{"no context", method("Wrong", (*box).wrong, "n -> m"), "must be a context.Context"},
		{"a class that is not registered", func(r *Registry) error {
			return r.addMethod(&Method{Func: &Func{Name: "Put"}, Class: &Class{Func: &Func{Name: "Box"}}}, (*box).put, "n -> sum")
		}, "its class is not registered"},
		{"a name twice", func(r *Registry) error {
			if err := class("Box", newBox, "")(r); err != nil {
				return err
			}
			return class("Box", newBox, "")(r)
		}, "the name is taken"},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := row.do(&Registry{})
			switch {
			case row.says == "" && err != nil:
				t.Error(err)
			case row.says != "" && (err == nil || !strings.Contains(err.Error(), row.says)):
				t.Errorf("it is refused with %v, want %q", err, row.says)
			}
		})
	}
}
