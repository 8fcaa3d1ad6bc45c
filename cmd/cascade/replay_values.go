package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cascade-run/cascade/agent/foreground"
	"github.com/cascade-run/cascade/comms"
)

// The values that a called task reads, as far as they are recorded; else others run again for them.

// argument is an argument of a called task: in a message, or a whole file.
func (c *calledTasks) argument(ctx context.Context, rec *calledRecord, i int) (comms.Desc, error) {
	a := &rec.Args[i]
	switch {
	case a.Data.Recorded():
		return a.Data.Desc, nil
	case !a.Read || a.Put:
		return c.givenAgain(ctx, rec, i)
	}
	parent, e := string(rec.event.Parent), rec.edgeOf(i)
	switch {
	case e == nil:
		return comms.Desc{}, badInputf("replay: of what %s read only the first %d datasets were recorded", rec.name, len(rec.edges))
	case e.From == comms.FromInput:
		return c.inputOf(ctx, parent, e.Output, e.Element)
	}
	return c.result(ctx, parent, e)
}

// givenAgain is a value that the parent of a called task gave it, or put for it, and that was not recorded: the parent
// runs again up to where it did so. That of a session is the program, which cannot.
func (c *calledTasks) givenAgain(ctx context.Context, rec *calledRecord, i int) (comms.Desc, error) {
	want, parent, ref, number := &rec.Args[i].Data, string(rec.event.Parent), rec.event.Called.Ref, i
	how := "an argument that it gave"
	if rec.Args[i].Put {
		e := rec.edgeOf(i)
		if e == nil {
			return comms.Desc{}, c.missing(rec, i)
		}
		ref, number, how = e.Ref, 0, "a value that it put"
	}
	by, err := c.record(ctx, parent)
	if err != nil {
		return comms.Desc{}, err
	}
	var r *calledRun
	switch {
	case by != nil:
		if r, err = c.recorded(ctx, by); err != nil {
			return comms.Desc{}, err
		}
	case c.graph.IsSession():
		return comms.Desc{}, c.missing(rec, i)
	}
	c.note("%s runs again up to its call %s: %s was not recorded", parent, strings.TrimPrefix(string(comms.AppendCallName(nil, nil, "", ref)), "/"), how)
	var t *foreground.Task
	if r != nil {
		r.until = &ref
		_, err = c.run(ctx, r)
		t = r.task
	} else if t, err = c.ofGraph(ctx, parent); err == nil {
		t.Answers.Until = &ref
		_, err = t.Do(ctx)
	}
	switch {
	case err == nil:
		return comms.Desc{}, fmt.Errorf("replay: %s does not call %s when it runs again", parent, rec.name)
	case !errors.Is(err, foreground.ErrUntil):
		return comms.Desc{}, err
	case number >= len(t.Answers.Given):
		return comms.Desc{}, fmt.Errorf("replay: %s calls %s with other arguments when it runs again", parent, rec.name)
	}
	d := t.Answers.Given[number]
	if d.Hash, err = hashOfData(&d); err != nil {
		return comms.Desc{}, err
	}
	if d.Size != want.Size || want.Hash != "" && d.Hash != want.Hash {
		return comms.Desc{}, fmt.Errorf("replay: %s gives %s another value when it runs again: %s, hash %s, and it was %s, hash %s", parent, rec.name, size(d.Size), d.Hash, size(want.Size), want.Hash)
	}
	return d, nil
}

// hashOfData is the hash of a value, which is in a message or a whole file.
func hashOfData(d *comms.Desc) (_ comms.Hash, err error) {
	if d.Place.Kind != comms.PlaceDisk {
		return comms.HashOf(d.Place.Bytes), nil
	}
	f, err := os.Open(d.Place.Where)
	if err != nil {
		return "", fmt.Errorf("replay: open a value of a task: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return comms.HashFrom(f)
}

// ofGraph is a task of the graph that calls, ready to run again.
func (c *calledTasks) ofGraph(ctx context.Context, name string) (*foreground.Task, error) {
	folder, err := c.newFolder()
	if err != nil {
		return nil, err
	}
	flags := taskFlags{task: name, rebuild: c.flags.rebuild, executor: c.flags.executor}
	p := &attempt{app: c.app, client: c.client, job: c.job, flags: &flags, task: &foreground.Task{Folder: folder, Stdout: io.Discard, Stderr: io.Discard}, graph: c.graph, dir: c.dir}
	if err := p.prepare(ctx); err != nil {
		return nil, err
	}
	p.task.Answers, err = c.answers(ctx, c.graphRun(p))
	return p.task, err
}

// graphRun is a task of the graph as the caller of others.
func (c *calledTasks) graphRun(p *attempt) *calledRun {
	run := &c.graph.Group(p.index).Run
	return &calledRun{name: c.graph.TaskName(p.index), group: c.graph.Group(p.index).Name, agent: p.task.Agent, kind: &comms.CallKind{Function: run.Function, Environment: run.Environment}}
}

// missing says that an argument was not recorded, and where its bytes were from.
func (c *calledTasks) missing(rec *calledRecord, i int) error {
	a, parent := &rec.Args[i], string(rec.event.Parent)
	name := strconv.Itoa(int(a.Port))
	if int(a.Port) < len(rec.kind.Inputs) {
		name = rec.kind.Inputs[a.Port].Name
	}
	how := parent + " gave it with the call"
	if e := rec.edgeOf(i); a.Put && e != nil {
		how = fmt.Sprintf("it is value %s, which %s put", comms.AppendCallName(nil, rec.event.Parent, "", e.Ref), parent)
	}
	return badInputf("replay: argument %s of %s was not recorded: it has %s (%s, hash %s), and at most %s of a value are recorded, %s of one call together; %s before %s",
		name, rec.name, size(a.Data.Size), a.Data.Codec, a.Data.Hash, size(comms.RecordValue), size(comms.RecordMost), how, time.Unix(0, rec.event.Called.Made).UTC().Format(time.RFC3339))
}

// edgeOf is what an argument reads that came from elsewhere; nil when that is not recorded.
func (rec *calledRecord) edgeOf(i int) *comms.CallEdge {
	edge := 0
	for k := range rec.Args[:i] {
		if rec.Args[k].Read {
			edge++
		}
	}
	if edge >= len(rec.edges) {
		return nil
	}
	return &rec.edges[edge]
}

// result is what a call returned that another one reads.
func (c *calledTasks) result(ctx context.Context, parent string, e *comms.CallEdge) (comms.Desc, error) {
	place := string(comms.AppendCallName(nil, []byte(parent), "", e.Ref))
	rec, err := c.record(ctx, place)
	switch {
	case err != nil:
		return comms.Desc{}, err
	case rec == nil:
		return comms.Desc{}, fmt.Errorf("replay: %s, whose result is an argument, is not recorded", place)
	case rec.event.Error != nil:
		return comms.Desc{}, fmt.Errorf("replay: %s, whose result is an argument, has failed: %w", rec.name, rec.event.Error)
	}
	if i := slices.IndexFunc(rec.Results, func(d comms.RecordData) bool { return d.Ref.Output == e.Output }); i >= 0 && rec.Results[i].Recorded() {
		return rec.Results[i].Desc, nil
	}
	c.mu.Lock()
	m := c.remade[rec.name]
	if m == nil {
		m = &remade{}
		c.remade[rec.name] = m
	}
	c.mu.Unlock()
	m.once.Do(func() { m.err = c.remake(ctx, rec, m) })
	if m.err != nil {
		return comms.Desc{}, m.err
	}
	for _, d := range m.outputs {
		if d.Ref.Output == e.Output && d.Ref.Element == e.Element {
			return d, nil
		}
	}
	if m.failed != nil {
		return comms.Desc{}, fmt.Errorf("replay: %s, whose result is an argument, fails when it runs again: %w", rec.name, m.failed)
	}
	return comms.Desc{}, fmt.Errorf("replay: %s makes no output %d[%d], which is an argument, when it runs again", rec.name, e.Output, e.Element)
}

// remake runs a called task for what it returned, by its record.
func (c *calledTasks) remake(ctx context.Context, rec *calledRecord, m *remade) error {
	r, err := c.recorded(ctx, rec)
	if err != nil {
		return err
	}
	r.element = func(d comms.Desc) { m.outputs = append(m.outputs, d) }
	outputs, failed, err := c.outcome(ctx, r)
	m.outputs, m.failed = append(m.outputs, outputs...), failed
	return err
}

// inputOf is an input of a task that it has passed on.
func (c *calledTasks) inputOf(ctx context.Context, task string, input uint32, item uint64) (comms.Desc, error) {
	rec, err := c.record(ctx, task)
	if err != nil {
		return comms.Desc{}, err
	}
	if rec != nil {
		for i := range rec.Args {
			if rec.Args[i].Port != input {
				continue
			}
			if item == 0 {
				return c.argument(ctx, rec, i)
			}
			item--
		}
		return comms.Desc{}, fmt.Errorf("replay: %s has no argument %d[%d], which it has passed on", task, input, item)
	}
	ins, err := c.inputsOf(ctx, task)
	switch {
	case err != nil:
		return comms.Desc{}, err
	case int(input) >= len(ins) || item >= uint64(len(ins[input].Data)):
		return comms.Desc{}, fmt.Errorf("replay: %s has no input %d[%d], which it has passed on", task, input, item)
	}
	return ins[input].Data[item], nil
}

// inputsOf brings the inputs of a task of the graph here.
func (c *calledTasks) inputsOf(ctx context.Context, task string) ([]comms.RunInput, error) {
	c.mu.Lock()
	ins, ok := c.given[task]
	c.mu.Unlock()
	if ok {
		return ins, nil
	}
	index, ok := c.graph.Lookup(task)
	if !ok {
		return nil, fmt.Errorf("replay: %s, which has passed on an input, is not recorded", task)
	}
	folder, err := c.newFolder()
	if err != nil {
		return nil, err
	}
	flags := taskFlags{task: task, rebuild: c.flags.rebuild}
	p := &attempt{app: c.app, client: c.client, job: c.job, flags: &flags, task: &foreground.Task{Folder: folder}, graph: c.graph, dir: c.dir, index: index}
	if err := p.inputs(ctx); err != nil {
		return nil, err
	}
	ins = p.task.Run.Inputs
	for i := range ins {
		for k := range ins[i].Data {
			if ins[i].Data[k], err = p.task.Data(ins[i].Data[k]); err != nil {
				return nil, err
			}
		}
	}
	c.mu.Lock()
	c.given[task] = ins
	c.mu.Unlock()
	return ins, nil
}
