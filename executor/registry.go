package executor

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/executor/value"
)

// Func is a function that tasks can name. The generic constructors of package
// cascade make it; Call and Seq know the Go types, the rest describes them.
type Func struct {
	Name    string
	Inputs  []Port // in the order of the Go parameters, without the parameter struct
	With    reflect.Type
	WithAt  int // position of the parameter struct among the Go parameters, when With is not nil
	Outputs []Port

	// Call runs an ordinary function: in holds the Go parameters in order, and
	// out takes one value for each output. Nil for a generator.
	Call func(ctx context.Context, in, out []any) error
	// Seq starts a generator. Nil for an ordinary function.
	Seq func(ctx context.Context, in []any) iter.Seq2[any, error]

	pc uintptr
	at string
}

// Port is a named input or output.
type Port struct {
	Name string
	Type reflect.Type // of one dataset
	List *ListType    // set when the input is a list
}

// Registry holds functions, codecs and error codes by name. A program has one,
// which its package-level variables fill before main starts.
type Registry struct {
	Codecs value.Codecs

	mu      sync.Mutex
	funcs   map[string]*Func
	byPC    map[uintptr]*Func
	classes map[string]*Class
	codes   []errorCode
}

// Default is the program's registry: the one package variable that changes, and
// only while packages are initialised.
var Default = &Registry{}

// Register adds a function under its explicit name. fn is the user's Go
// function, names the text that names its parameters and results, such as
// "members, with -> mean, stddev". It panics when the registration is wrong: it
// runs while packages are initialised, and a program that continued would fail
// later on another machine.
func (r *Registry) Register(f *Func, fn any, names string) {
	if err := r.add(f, fn, names); err != nil {
		panic(fmt.Sprintf("cascade: register function %q (%s): %v", f.Name, caller(), err))
	}
}

func (r *Registry) add(f *Func, fn any, names string) error {
	if err := checkName("function", f.Name); err != nil {
		return err
	}
	pc, err := plainFunction(fn)
	if err != nil {
		return err
	}
	if err := f.describe(reflect.TypeOf(fn), names); err != nil {
		return err
	}
	f.pc, f.at = pc, caller()
	r.mu.Lock()
	defer r.mu.Unlock()
	if other, ok := r.funcs[f.Name]; ok {
		return fmt.Errorf("the name is taken by a registration at %s: names are unique in a program", other.at)
	}
	if other, ok := r.byPC[pc]; ok {
		return fmt.Errorf("%s is registered as %q at %s already: register a function once, and give its tasks names of their own",
			runtime.FuncForPC(pc).Name(), other.Name, other.at)
	}
	if r.funcs == nil {
		r.funcs, r.byPC = map[string]*Func{}, map[uintptr]*Func{}
	}
	r.funcs[f.Name], r.byPC[pc] = f, f
	return nil
}

// Lookup finds a function by its registered name.
func (r *Registry) Lookup(name string) (*Func, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, ok := r.funcs[name]
	return f, ok
}

// Names lists the names of all functions, sorted.
func (r *Registry) Names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.funcs))
}

// symbol returns the name under which a debugger knows a function.
func (r *Registry) symbol(name string) (string, error) {
	f, ok := r.Lookup(name)
	if !ok {
		return "", fmt.Errorf("this program has no function %q", name)
	}
	return runtime.FuncForPC(f.pc).Name(), nil
}

// Signatures describes all functions, sorted by name. An error names a
// function whose types cannot travel between processes.
func (r *Registry) Signatures() ([]comms.FuncSig, error) {
	return r.SignaturesOf(func(string) bool { return true })
}

// SignaturesOf is Signatures for the functions that are wanted by name.
func (r *Registry) SignaturesOf(wanted func(name string) bool) ([]comms.FuncSig, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []comms.FuncSig
	for _, f := range r.funcs {
		if !wanted(f.Name) {
			continue
		}
		sig, err := f.signature(&r.Codecs)
		if err != nil {
			return nil, fmt.Errorf("function %q (%s): %w", f.Name, f.at, err)
		}
		out = append(out, comms.FuncSig{Name: f.Name, Sig: sig})
	}
	slices.SortFunc(out, func(a, b comms.FuncSig) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// plainFunction returns the entry of a function declared at package level, and
// refuses all others: another process could not find them by name, and what a
// closure captured would silently differ there.
func plainFunction(fn any) (uintptr, error) {
	v := reflect.ValueOf(fn)
	if v.Kind() != reflect.Func || v.IsNil() {
		return 0, fmt.Errorf("want a function, got %T", fn)
	}
	pc := v.Pointer()
	name := runtime.FuncForPC(pc).Name()
	last := name[strings.LastIndexByte(name, '/')+1:]
	const mend = "declare a function at package level (func name(ctx context.Context, ...) (..., error)) and register that"
	switch {
	case strings.HasSuffix(last, "-fm"):
		return 0, fmt.Errorf("%s is a method value, whose receiver does not exist in the executor's process: %s", strings.TrimSuffix(name, "-fm"), mend)
	case strings.Contains(last, "[...]"):
		return 0, fmt.Errorf("%s is an instance of a generic function, and all instances share that name: wrap it in a function that is not generic", name)
	case isClosureName(last):
		return 0, fmt.Errorf("%s is an anonymous function or closure, and what it captured does not exist in the executor's process: %s", name, mend)
	}
	return pc, nil
}

// isClosureName tells whether the compiler made the name up: pkg.Outer.func1,
// pkg.glob..func2, pkg.init.func3, pkg.Outer.gowrap1.
func isClosureName(name string) bool {
	parts := strings.Split(name, ".")
	if len(parts) < 3 {
		return false
	}
	for _, p := range parts[2:] {
		digits := strings.TrimPrefix(strings.TrimPrefix(p, "func"), "gowrap")
		if digits != p && digits != "" && strings.Trim(digits, "0123456789-") == "" {
			return true
		}
	}
	return false
}

// checkName allows what job files and file systems allow.
func checkName(what, name string) error {
	const form = "use letters, digits, _ and -, starting with a letter or _"
	switch {
	case name == "":
		return fmt.Errorf("the name of the %s is empty: %s", what, form)
	case len(name) > 200:
		return fmt.Errorf("the name of the %s has %d characters: at most 200", what, len(name))
	}
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || !(c >= '0' && c <= '9' || c == '-')) {
			return fmt.Errorf("%q cannot be the name of the %s: %s", name, what, form)
		}
	}
	return nil
}

// caller returns the file and line of the first frame outside Cascade's own
// generic constructors and this package.
func caller() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		own := strings.HasPrefix(f.Function, "github.com/cascade-run/cascade.") || strings.HasPrefix(f.Function, "github.com/cascade-run/cascade/executor.")
		if !own || strings.HasSuffix(f.File, "_test.go") {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		if !more {
			return "unknown place"
		}
	}
}
