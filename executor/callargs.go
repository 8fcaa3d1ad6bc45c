package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/executor/value"
)

// callArguments appends the datasets of one parameter to a call, and the futures in them to refs.
func (r *run) callArguments(it *comms.CallItem, refs *[]comms.ItemRefs, port uint32, p *Port, arg any) error {
	typ, items := p.Type, Items{arg}
	if p.List != nil {
		typ = p.List.Elem
		if list, ok := arg.(Items); ok {
			items = list
		} else {
			items = p.List.items(arg)
		}
	}
	for _, item := range items {
		in, found, err := r.callArgument(typ, item)
		if err != nil {
			return err
		}
		if found != nil {
			*refs = append(*refs, comms.ItemRefs{Input: uint32(len(it.Inputs)), Refs: found})
		}
		in.Port = port
		it.Inputs = append(it.Inputs, in)
	}
	return nil
}

// callArgument is an argument as the agent is told of it, and the futures in it.
func (r *run) callArgument(typ reflect.Type, arg any) (in comms.CallInput, refs []comms.Reference, err error) {
	if f, ok := arg.(*Future); ok {
		switch {
		case f.input != nil && f.input.run == r:
			in, err = r.inputArgument(f.input)
			return in, nil, err
		case f.known != nil:
			arg = f.known.value
		case f.input != nil || f.call.state.run != r:
			return in, nil, errors.New("the future is of another task: its result can be passed as a value")
		case f.isReleased():
			return in, nil, errReleased
		case f.call.state.isActor():
			in, err = r.actorResult(f)
			return in, nil, err
		default:
			return comms.CallInput{From: comms.FromCall, Ref: f.call.state.ref, Output: f.output, Element: f.element}, nil, nil
		}
	}
	codec, err := r.exec.reg.Codecs.For(typ)
	if err != nil {
		return in, nil, err
	}
	flat, err := codec.Encode(arg)
	if err != nil {
		return in, nil, err
	}
	if flat.References != nil {
		if refs, err = r.references(flat.References); err != nil {
			return in, nil, err
		}
	}
	in.Data, err = r.keepFlat(flat)
	return in, refs, err
}

// keepFlat stores an encoded value where others can read it.
func (r *run) keepFlat(f value.Flat) (d comms.Desc, err error) {
	d = comms.Desc{Codec: f.Codec, DType: f.DType, Shape: f.Shape, Size: uint64(len(f.Bytes))}
	d.Place, err = r.place(f.Bytes, false)
	if d.Place.Kind == comms.PlaceSegment {
		d.Hash = comms.HashOf(f.Bytes)
	}
	return d, err
}

// encodeWith writes a parameter struct as the msgpack map that a job would give.
func encodeWith(params any) ([]byte, error) {
	fields, err := Parameters(params)
	if err != nil {
		return nil, err
	}
	m := make(map[string]any, len(fields))
	for _, f := range fields {
		m[f.Name] = literal(f.Value)
	}
	var b bytes.Buffer
	enc := msgpack.NewEncoder(&b)
	enc.SetSortMapKeys(true)
	if err := enc.Encode(m); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// literal undoes what keeps texts from being read as placeholders in a job.
func literal(v any) any {
	switch v := v.(type) {
	case string:
		return strings.ReplaceAll(v, "$${", "${")
	case []any:
		for i := range v {
			v[i] = literal(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = literal(v[k])
		}
	}
	return v
}

// InputFuture returns an input of the task as a Future, to be passed to calls
// without a copy. It is one dataset, no list.
func InputFuture(ctx context.Context, name string) (*Future, error) {
	r, _ := ctx.Value(taskKey{}).(*run)
	if r == nil {
		return nil, fmt.Errorf("input %s as a future: ctx is not that of a task", name)
	}
	for i := range r.kind.inputs {
		if in := &r.kind.inputs[i]; in.port.Name == name && in.port.List == nil {
			return &Future{typ: in.port.Type, input: &inputRef{r, i, in}}, nil
		}
	}
	return nil, fmt.Errorf("the task has no input %s that is one dataset", name)
}

// inputRef is an input of a run.
type inputRef struct {
	run   *run
	index int
	in    *kindInput
}

// inputArgument is an input of a run as an argument: by its place among the inputs
// where the agent has it, else as a value, which each call has for itself.
func (r *run) inputArgument(ref *inputRef) (in comms.CallInput, err error) {
	live := &r.input
	if r.reads == 0 {
		d := r.Inputs[ref.index].Data[0]
		switch d.Place.Kind {
		case comms.PlaceInline:
			if r.refers(ref.index) {
				return comms.CallInput{From: comms.FromInput, Input: uint32(ref.index), Data: d}, nil
			}
			in.Data = comms.Desc{Codec: d.Codec, DType: d.DType, Shape: d.Shape, Size: d.Size, Place: d.Place}
			return in, nil
		case comms.PlaceLive:
			live = r.liveInput(&d)
		default:
			return comms.CallInput{From: comms.FromInput, Input: uint32(ref.index), Data: d}, nil
		}
	}
	flat, err := live.codec.Encode(live.value)
	if err != nil {
		return in, err
	}
	in.Data, err = r.keepFlat(flat)
	return in, err
}
