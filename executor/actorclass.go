package executor

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strings"
)

// Class is a kind of actor: a constructor, and the methods of what it returns. The generic
// constructors of package cascade make it.
type Class struct {
	*Func // the constructor: its output is the actor
	// New makes the state of an actor; in holds the Go parameters in order.
	New func(ctx context.Context, in []any) (any, error)

	reg     *Registry
	methods map[string]*Method // guarded by Registry.mu
}

// Method is a method of the actors of a class.
type Method struct {
	*Func
	Class *Class
	// Run calls it: in holds the Go parameters in order, and out takes what it returns.
	Run func(ctx context.Context, self any, in, out []any) error
}

// ActorsFunction is what a process with actors runs. A program that registers a class has it.
const ActorsFunction = "cascade-actors"

// RegisterClass adds a class under its name. fn is the user's constructor, names the text that names its
// parameters, such as "start, limit". It panics like Register.
func (r *Registry) RegisterClass(c *Class, fn any, names string) {
	if err := r.addClass(c, fn, names); err != nil {
		panic(fmt.Sprintf("cascade: register actor %q (%s): %v", c.Name, caller(), err))
	}
}

func (r *Registry) addClass(c *Class, fn any, names string) error {
	if err := checkName("actor", c.Name); err != nil {
		return err
	}
	pc, err := plainFunction(fn)
	if err != nil {
		return err
	}
	if strings.Contains(names, "->") {
		return fmt.Errorf("names %q have an arrow: a constructor's text names its parameters alone", names)
	}
	if err := c.describe(reflect.TypeOf(fn), names+" -> actor"); err != nil {
		return err
	}
	if err := c.plain(); err != nil {
		return err
	}
	c.pc, c.at, c.reg, c.methods = pc, caller(), r, map[string]*Method{}
	r.mu.Lock()
	defer r.mu.Unlock()
	if other, ok := r.classes[c.Name]; ok {
		return fmt.Errorf("the name is taken by a registration at %s: names are unique in a program", other.at)
	}
	if r.classes == nil {
		r.classes = map[string]*Class{}
	}
	r.classes[c.Name] = c
	if r.funcs[ActorsFunction] == nil {
		if r.funcs == nil {
			r.funcs, r.byPC = map[string]*Func{}, map[uintptr]*Func{}
		}
		r.funcs[ActorsFunction] = actorsFunction()
	}
	return nil
}

// RegisterMethod adds a method to a class. fn is a method expression, such as (*Counter).Add. It panics like Register.
func (r *Registry) RegisterMethod(m *Method, fn any, names string) {
	if err := r.addMethod(m, fn, names); err != nil {
		panic(fmt.Sprintf("cascade: register method %q of an actor (%s): %v", m.Name, caller(), err))
	}
}

func (r *Registry) addMethod(m *Method, fn any, names string) error {
	if err := checkName("method", m.Name); err != nil {
		return err
	}
	if m.Class == nil || m.Class.reg == nil {
		return errors.New("its class is not registered: register it before, in the same file or in a package that this one imports")
	}
	if _, err := plainFunction(fn); err != nil {
		return err
	}
	t := reflect.TypeOf(fn)
	in := make([]reflect.Type, 0, t.NumIn())
	for i := range t.NumIn() {
		in = append(in, t.In(i))
	}
	out := make([]reflect.Type, 0, t.NumOut())
	for i := range t.NumOut() {
		out = append(out, t.Out(i))
	}
	if err := m.describe(reflect.FuncOf(in[1:], out, false), names); err != nil {
		return err
	}
	if err := m.plain(); err != nil {
		return err
	}
	m.at = caller()
	r.mu.Lock()
	defer r.mu.Unlock()
	if other, ok := m.Class.methods[m.Name]; ok {
		return fmt.Errorf("actor %q has a method of that name, registered at %s", m.Class.Name, other.at)
	}
	m.Class.methods[m.Name] = m
	return nil
}

// plain refuses parameters that calls of actors do not take.
func (f *Func) plain() error {
	if f.With != nil {
		return errors.New(`a parameter of an actor cannot be named "with": that is for parameters of tasks in a graph`)
	}
	for _, p := range f.Inputs {
		if p.List != nil {
			return fmt.Errorf("parameter %s is a cascade.List, which is for tasks: take a slice", p.Name)
		}
	}
	return nil
}

// class finds a class by its registered name.
func (r *Registry) class(name string) *Class {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.classes[name]
}

// method finds a method of a class.
func (c *Class) method(name string) *Method {
	c.reg.mu.Lock()
	defer c.reg.mu.Unlock()
	return c.methods[name]
}

// actorsFunction is a generator: its one element is the address of the process, and it ends with its context.
func actorsFunction() *Func {
	return &Func{Name: ActorsFunction, Inputs: []Port{{Name: "keeps", Type: reflect.TypeFor[bool]()}}, Outputs: []Port{{Name: "address", Type: reflect.TypeFor[string]()}},
		pc: reflect.ValueOf(serveActors).Pointer(), at: "package executor",
		Seq: func(ctx context.Context, in []any) iter.Seq2[any, error] { return serveActors(ctx, As[bool](in[0])) }}
}
