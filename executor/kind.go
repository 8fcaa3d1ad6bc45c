package executor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/executor/value"
)

// kind is a group's function prepared for many runs: names are looked up once.
type kind struct {
	comms.Kind
	fn      *Func
	args    int // Go parameters after the context
	inputs  []kindInput
	outputs []kindOutput
	problem error // why no run of this kind can start

	// Of the parameters that runs share and no function can change. The runner's.
	flat   bool // With is such a type
	shared any  // nil until a run has asked

	// See state. The runner's too.
	looked   bool // a run of it was looked at
	restless bool // it changes what the process shares
}

type kindInput struct {
	port  Port
	arg   int // Go parameter
	codec value.Codec
}

type kindOutput struct {
	result int // Go result
	codec  value.Codec
}

// newKind is the registry's newKind. Most kinds of a function are of groups, or of
// jobs, that want the same of it. Executor.mu is held.
func (e *Executor) newKind(m *comms.Kind) *kind {
	if m.Function == dag.SessionFunction && e.session != nil {
		return &kind{Kind: *m, fn: e.session.function()}
	}
	if like := e.usual[m.Function]; like != nil && slices.Equal(like.Inputs, m.Inputs) && slices.Equal(like.Outputs, m.Outputs) {
		return &kind{Kind: *m, fn: like.fn, args: like.args, inputs: like.inputs, outputs: like.outputs, flat: like.flat}
	}
	k := e.reg.newKind(m)
	if k.fn != nil && k.problem == nil {
		e.usual[m.Function] = k
	}
	return k
}

// newKind matches what the job says with what the function takes.
func (r *Registry) newKind(m *comms.Kind) *kind {
	k := &kind{Kind: *m}
	if m.Function == "" {
		return k // a command; where it differs by task the runs bring it
	}
	fn, ok := r.Lookup(m.Function)
	if m.Function == dag.InputFunction {
		fn, ok = inputFunction(), true
	}
	if !ok {
		k.problem = fmt.Errorf("function %q is not registered in this executor: %s", m.Function, r.known())
		return k
	}
	k.fn = fn
	k.problem = k.match(r)
	return k
}

func (k *kind) match(r *Registry) error {
	var problems []string
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	fn := k.fn
	k.args = len(fn.Inputs)
	if fn.With != nil {
		k.args++
		k.flat = flat(fn.With)
	}
	for _, in := range k.Inputs {
		at := slices.IndexFunc(fn.Inputs, func(p Port) bool { return p.Name == in.Name })
		if at < 0 {
			bad("it has no input %q", in.Name)
			continue
		}
		p := fn.Inputs[at]
		if in.List != (p.List != nil) {
			bad("%s", dag.ListDiffers(in.Name, in.List))
		}
		codec, err := r.Codecs.For(p.Type)
		if err != nil {
			bad("input %q: %v", in.Name, err)
		}
		if fn.With != nil && at >= fn.WithAt {
			at++
		}
		k.inputs = append(k.inputs, kindInput{p, at, codec})
	}
	for _, p := range fn.Inputs {
		if !slices.ContainsFunc(k.Inputs, func(in comms.KindIn) bool { return in.Name == p.Name }) {
			bad("input %q is missing", p.Name)
		}
	}
	for _, out := range k.Outputs {
		at := slices.IndexFunc(fn.Outputs, func(p Port) bool { return p.Name == out.Name })
		switch {
		case at < 0:
			bad("it has no output %q", out.Name)
			continue
		case (out.Generate != dag.GenerateNone) != (fn.Seq != nil):
			bad("%s", dag.SeriesDiffers(out.Name, out.Generate != dag.GenerateNone))
		}
		codec, err := r.Codecs.For(fn.Outputs[at].Type)
		if err != nil {
			bad("output %q: %v", out.Name, err)
		}
		k.outputs = append(k.outputs, kindOutput{at, codec})
	}
	if len(problems) == 0 {
		return nil
	}
	sig, err := fn.signature(&r.Codecs)
	if err != nil {
		sig = ""
	}
	return fmt.Errorf("function %s does not fit the job: %s; it is %s%s", fn.Name, strings.Join(problems, ", "), fn.Name, sig)
}

// known lists the registered names for an error message.
func (r *Registry) known() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.funcs) == 0 {
		return "it has no functions, only commands; name an environment whose package registers it"
	}
	names := make([]string, 0, len(r.funcs))
	for n := range r.funcs {
		names = append(names, n)
	}
	slices.Sort(names)
	if len(names) > 20 {
		names = append(names[:20], "...")
	}
	return "it has " + strings.Join(names, ", ")
}
