package executor

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/zeebo/xxh3"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/executor/value"
)

// Futures travel in values: their bytes number the futures, and the agent is told for what each of
// them stands, before it is told of the value. A run that decodes such a value makes a call of its own
// of each future, which ends as that ends for which the future stands.

// EncodeFuture writes a future within a value; nil is the zero Future.
func EncodeFuture(enc *msgpack.Encoder, f *Future) error {
	if f == nil {
		return enc.EncodeNil()
	}
	return value.EncodeRef(enc, f)
}

// DecodeFuture reads a future of a type within a value.
func DecodeFuture(dec *msgpack.Decoder, t reflect.Type) (*Future, error) {
	v, err := value.DecodeRef(dec, t)
	f, _ := v.(*Future)
	return f, err
}

// references names the futures in a value as the agent knows them.
func (r *run) references(found []any) ([]comms.Reference, error) {
	refs := make([]comms.Reference, len(found))
	for i, v := range found {
		if a, ok := v.(*Actor); ok {
			var err error
			if refs[i], err = a.reference(r); err != nil {
				return nil, err
			}
			continue
		}
		f := v.(*Future)
		switch {
		case f.known != nil && f.known.err != nil:
			return nil, fmt.Errorf("a future in it has failed: %w", f.known.err)
		case f.input != nil:
			return nil, errors.New("a future in it is an input of the task: put its value, or pass it as an argument")
		case f.known != nil || f.call.state.run != r:
			return nil, errors.New("a future in it is of another task or session: return it from there, or pass it as an argument")
		case f.isReleased():
			return nil, fmt.Errorf("a future in it: %w", errReleased)
		case f.call.state.isActor():
			return nil, errors.New("a future in it is of a method of an actor, which the agent does not know: wait for it and store its value, or pass it as an argument of its own")
		}
		refs[i] = comms.Reference{Ref: f.call.state.ref, Output: f.output, Element: f.element}
	}
	return refs, nil
}

// list tells the agent which futures are in a value that is to be published. Calls that were made leave before.
func (r *run) list(output uint32, element uint64, found []any) error {
	refs, err := r.references(found)
	if err != nil {
		return err
	}
	r.sendCalls(true)
	r.exec.out.send(&comms.Listed{Run: r.ID, Output: output, Element: element, Refs: refs})
	runtime.KeepAlive(found)
	return nil
}

// refsStrand names the strand of futures that were found in values.
var refsStrand = xxh3.HashString("futures in values")

// borrow makes the future of a reference in a value that the run has.
func (r *run) borrow(in comms.CallInput, t reflect.Type) *Future {
	c := r.called()
	call := &Call{state: &callState{run: r}}
	call.first = Future{typ: t, call: call}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return FailedFuture(r.overErr())
	}
	s := c.strands[refsStrand]
	if s == nil {
		s = &strand{id: refsStrand}
		c.strands[refsStrand] = s
	}
	call.state.ref = comms.CallRef{Strand: s.id, Number: s.next}
	s.next++
	s.calls.Set(call.state.ref.Number, call.state)
	c.batch.Items = append(c.batch.Items, comms.CallItem{Ref: call.state.ref, Inputs: []comms.CallInput{in}})
	c.bytes += 128
	c.open++
	c.arm()
	c.mu.Unlock()
	runtime.AddCleanup(call, (*callState).drop, call.state)
	return &call.first
}

// refersInput is what stands for the references in an input of the run.
func (r *run) refersInput(input, item int) func(value.Ref) any {
	return func(ref value.Ref) any {
		r.referring = append(r.referring, input)
		return r.borrow(comms.CallInput{Port: uint32(ref.Place), From: comms.FromInputValue, Input: uint32(input), Item: uint32(item)}, ref.Type)
	}
}

// refers tells whether there are references in an input: their list is with the agent.
func (r *run) refers(input int) bool { return slices.Contains(r.referring, input) }

// refersResult is what stands for the references in a result of a call.
func (f *Future) refersResult() func(value.Ref) any {
	s := f.call.state
	return func(ref value.Ref) any {
		return s.run.borrow(comms.CallInput{Port: uint32(ref.Place), From: comms.FromCallValue, Ref: s.ref, Output: f.output, Element: f.element}, ref.Type)
	}
}
