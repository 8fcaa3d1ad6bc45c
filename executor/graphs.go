package executor

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"

	"github.com/cascade-run/cascade/comms"
)

// GraphCall is a graph that a task runs in place of a function: a call whose results are those of the graph.
type GraphCall struct {
	Name    string
	Encode  func(agent string) ([]byte, error) // the graph with its doors on an agent: see dag.NewDoor
	Inputs  []*Future                          // one for each door that gives
	Names   []string                           // of these
	Outputs []string                           // names of what the door that takes has
}

// Go begins the graph and returns at once: it starts when its inputs are there. An error of the call itself is
// that of each of its futures.
func (g *GraphCall) Go(ctx context.Context) *Call {
	r, err := callerOf(ctx)
	fn := &Func{Name: g.Name}
	var c *Call
	switch {
	case err != nil:
	case r == nil:
		err = errors.New("the context is of no task: give that of a session (Session.Context) or of a task, or submit the graph with a client")
	default:
		args := make([]any, len(g.Inputs))
		for i, f := range g.Inputs {
			args[i] = f
		}
		if err = r.awaitActors(ctx, args); err == nil {
			c, err = r.callGraph(ctx, fn, g)
		}
	}
	if err != nil {
		return &Call{fn: fn, local: &localCall{err: fmt.Errorf("run graph %s: %w", g.Name, err)}}
	}
	return c
}

func (r *run) callGraph(ctx context.Context, fn *Func, g *GraphCall) (*Call, error) {
	encoded, err := g.Encode(r.exec.welcome.Agent)
	if err != nil {
		return nil, err
	}
	c := r.called()
	r.making.Lock()
	defer r.making.Unlock()
	if err := r.mayCall(c); err != nil {
		return nil, err
	}
	it := comms.CallItem{Kind: c.graphKind(g, encoded), Inputs: make([]comms.CallInput, len(g.Inputs))}
	var refs []comms.ItemRefs
	for i, f := range g.Inputs {
		if err := f.failed(); err != nil {
			return nil, fmt.Errorf("input %s is a future that failed: %w", g.Names[i], err)
		}
		in, found, err := r.callArgument(f.typ, f)
		if err != nil {
			return nil, fmt.Errorf("input %s: %w", g.Names[i], err)
		}
		in.Port = uint32(i)
		it.Inputs[i] = in
		if found != nil {
			refs = append(refs, comms.ItemRefs{Input: uint32(i), Refs: found})
		}
	}
	call := &Call{fn: fn}
	r.addCall(ctx, c, call, it, refs)
	runtime.KeepAlive(g) // a future that is dropped before its reader is in the batch would be gone
	return call, nil
}

// graphKind is callKind for a graph.
func (c *calls) graphKind(g *GraphCall, encoded []byte) uint32 {
	key := fmt.Sprintf("graph %x", comms.HashOf(encoded))
	c.mu.Lock()
	defer c.mu.Unlock()
	if id := c.kinds[key]; id != 0 {
		return id
	}
	k := comms.CallKind{Function: g.Name, Graph: encoded}
	for _, name := range g.Names {
		k.Inputs = append(k.Inputs, comms.KindIn{Name: name})
	}
	for _, name := range g.Outputs {
		k.Outputs = append(k.Outputs, comms.KindOut{Name: name})
	}
	c.bytes += len(encoded)
	return c.newKind(key, k)
}

// OutputAs returns the future of one output of a graph, as a value of a type.
func (c *Call) OutputAs(i int, typ reflect.Type) *Future {
	if err := c.failed(); err != nil {
		return &Future{typ: typ, known: &known{err: err}}
	}
	return &Future{typ: typ, call: c, output: uint32(i)}
}
