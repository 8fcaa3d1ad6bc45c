package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/agent/foreground"
	"github.com/cascade-run/cascade/comms"
)

// A called task runs again by its record. Values that were not recorded are made by other runs:
//
//	argument ── recorded ─────────────────────────▶ the record
//	         ── another call returned it ─────────▶ that call's record, or another run of it
//	         ── an input of its parent ───────────▶ an argument of that, or a dataset of the job
//	         ── its parent gave it, and it is large ▶ an error
//	its calls ── see foreground.Answers

// calledTasks runs called tasks of a job again.
type calledTasks struct {
	attempt // of the job, its flags and folder

	mu      sync.Mutex // guards what follows
	folders int
	records map[string]*calledRecord    // by name, with and without the part that the parent chose; nil: there is none
	remade  map[string]*remade          // by name
	envs    map[string]*activated       // by name
	given   map[string][]comms.RunInput // inputs of tasks of the graph, by name
}

// calledRecord is the record of a called task.
type calledRecord struct {
	name  string
	event *comms.Event
	kind  *comms.CallKind
	*comms.Record
	edges []comms.CallEdge
}

// remade is a called task that runs again for what it returned.
type remade struct {
	once    sync.Once
	outputs []comms.Desc // and elements
	failed  *comms.TaskError
	err     error
}

// calledTasks are those of the job.
func (p *attempt) calledTasks() *calledTasks {
	return &calledTasks{attempt: *p, records: map[string]*calledRecord{}, remade: map[string]*remade{}, envs: map[string]*activated{}, given: map[string][]comms.RunInput{}}
}

// calledTask runs a called task again. It tells whether the task is one.
func (p *attempt) calledTask(ctx context.Context) (bool, error) {
	c := p.calledTasks()
	rec, err := c.record(ctx, p.flags.task)
	if rec == nil || err != nil {
		return false, err
	}
	return true, c.replay(ctx, rec)
}

// calls tells whether a task of the graph has called others, and prepares what these calls are answered.
func (p *attempt) calls(ctx context.Context) (bool, error) {
	if p.graph.Group(p.index).Run.Function == "" {
		return false, nil
	}
	c := p.calledTasks()
	answers, err := c.answers(ctx, c.graphRun(p))
	switch {
	case errors.Is(err, cascade.ErrBadRequest): // an older controller
		return false, nil
	case err != nil || len(answers.Ended) == 0:
		return false, err
	}
	p.task.Answers = answers
	return true, nil
}

// replay runs a called task again, with the streams of the user.
func (c *calledTasks) replay(ctx context.Context, rec *calledRecord) error {
	tries := max(uint32(rec.event.Count), 1)
	if n := c.flags.attempt; n != 0 && n != tries {
		return badInputf("replay: of called task %s the last attempt is recorded, which was the %d-th", rec.name, tries)
	}
	r, err := c.recorded(ctx, rec)
	if err != nil {
		return err
	}
	r.task, r.debug = c.task, c.flags.debug
	if c.flags.debug {
		_, leave := c.app.signals.take() // interrupts are the debugger's
		defer leave()
	}
	item, err := c.run(ctx, r)
	if err != nil {
		return err
	}
	return c.app.taskEnded(r.task, item)
}

// calledRun is a run of a called task.
type calledRun struct {
	name    string
	group   string // of the task of the graph from which it comes
	agent   string
	attempt uint32
	kind    *comms.CallKind
	with    []byte
	inputs  []comms.RunInput
	met     uint64
	element func(comms.Desc) // nil: it is no generator, or is not read
	until   *comms.CallRef   // it runs up to this call only
	task    *foreground.Task // nil: one that prints nothing
	debug   bool
}

// recorded is a run of a called task as its record has it.
func (c *calledTasks) recorded(ctx context.Context, rec *calledRecord) (*calledRun, error) {
	t := rec.event.Called
	switch {
	case rec.Gap != comms.RecordWhole:
		return nil, badInputf("replay: the arguments of %s were not recorded: %s", rec.name, rec.Gap)
	case rec.NoWith > 0:
		return nil, badInputf("replay: the parameters of %s were not recorded: they have %s, and at most %s of a call are recorded", rec.name, size(rec.NoWith), size(comms.RecordMost))
	}
	r := &calledRun{name: rec.name, group: c.graph.Group(rec.event.Task).Name, agent: t.Host, attempt: max(uint32(rec.event.Count), 1), kind: rec.kind, with: rec.With, met: t.Met, inputs: make([]comms.RunInput, len(rec.kind.Inputs))}
	for i := range rec.Args {
		d, err := c.argument(ctx, rec, i)
		if err != nil {
			return nil, err
		}
		port := rec.Args[i].Port
		if int(port) >= len(r.inputs) {
			return nil, fmt.Errorf("replay: the record of %s has an input %d, and its function %d", rec.name, port, len(r.inputs))
		}
		r.inputs[port].Data = append(r.inputs[port].Data, d)
	}
	return r, nil
}

// run runs a called task to its end.
func (c *calledTasks) run(ctx context.Context, r *calledRun) (*comms.ReportItem, error) {
	t := r.task
	if t == nil {
		folder, err := c.newFolder()
		if err != nil {
			return nil, err
		}
		t = &foreground.Task{Folder: folder, Stdout: io.Discard, Stderr: io.Discard}
		r.task = t
	}
	k := r.kind
	t.Agent = r.agent
	t.Kind = &comms.Kind{ID: 1, Job: c.job.ID(), Group: r.group, Function: k.Function, Inputs: k.Inputs, Outputs: slices.Clone(k.Outputs), Resources: k.Resources, Timeout: k.Timeout}
	for i := range t.Kind.Outputs {
		t.Kind.Outputs[i].Buffer = 0 // it waits for no credit
	}
	if r.debug {
		t.Kind.Timeout = 0
	}
	t.Run = comms.Run{ID: 1, Kind: 1, Name: r.name, Attempt: r.attempt, With: r.with, Inputs: r.inputs}
	act, err := c.environmentOf(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := act.start(ctx, t, r.debug); err != nil {
		return nil, err
	}
	if t.Answers, err = c.answers(ctx, r); err != nil {
		return nil, err
	}
	t.Answers.Until = r.until
	var wrong error
	t.Element = func(d comms.Desc) {
		if r.element == nil {
			return
		}
		d, err := t.Data(d)
		wrong = errors.Join(wrong, err)
		r.element(d)
	}
	item, err := t.Do(ctx)
	if errors.Is(err, foreground.ErrNoFunction) {
		return nil, badInputf("replay --task: %w; name a program that has it with --executor", err)
	}
	if err = errors.Join(err, wrong); err != nil {
		return nil, fmt.Errorf("replay --task %s: %w", r.name, err)
	}
	return item, nil
}

// environmentOf prepares the environment of a called task, once for all that run in it.
func (c *calledTasks) environmentOf(ctx context.Context, r *calledRun) (*activated, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if act := c.envs[r.kind.Environment]; act != nil {
		return act, nil
	}
	act, err := c.app.activate(ctx, &activating{c.graph, c.dir, r.kind.Environment, r.name, true, c.flags.executor})
	if err == nil {
		c.envs[r.kind.Environment] = act
	}
	return act, err
}

// answers are what the calls of a called task are answered.
func (c *calledTasks) answers(ctx context.Context, r *calledRun) (*foreground.Answers, error) {
	ended := map[comms.CallRef]*foreground.Answer{}
	for row, err := range cascade.EachRow[comms.RecordRow](ctx, c.client, comms.QueryRecords, c.job.ID(), r.name+"/") {
		if err != nil {
			return nil, err
		}
		rec, err := readRecord(row)
		if err != nil {
			return nil, err
		}
		t := rec.event.Called
		a := &foreground.Answer{Function: t.Function, Order: t.Order, Error: rec.event.Error}
		if before := ended[t.Ref]; t.Order == 0 && before != nil { // it ran again for what it had returned, and its end was told then
			a.Order = before.Order
		}
		if a.Order <= r.met { // it was met by the last try, and told as soon as that called
			a.Order = 0
		}
		for _, d := range rec.Results {
			a.Results = append(a.Results, d.Desc)
		}
		ended[t.Ref] = a // of several the last end counts
	}
	return &foreground.Answers{Ended: ended, Note: func(text string) { c.note("%s: %s", r.name, text) },
		Run: func(ctx context.Context, call *foreground.Call, element func(comms.Desc)) ([]comms.Desc, *comms.TaskError, error) {
			return c.callAgain(ctx, r, call, element)
		}}, nil
}

// callAgain runs what a task has called, which it does here, too.
func (c *calledTasks) callAgain(ctx context.Context, by *calledRun, call *foreground.Call, element func(comms.Desc)) ([]comms.Desc, *comms.TaskError, error) {
	it := call.Item
	kind := *call.Kind
	if kind.Environment == "" {
		kind.Environment = by.kind.Environment
	}
	r := &calledRun{name: string(comms.AppendCallName(nil, []byte(by.name), it.Name, it.Ref)), group: by.group, agent: by.agent, attempt: 1, kind: &kind, with: it.With, inputs: call.Inputs, element: element}
	if rec, err := c.record(ctx, r.name); err != nil {
		return nil, nil, err
	} else if rec != nil {
		r.attempt, r.met = max(uint32(rec.event.Count), 1), rec.event.Called.Met
	}
	return c.outcome(ctx, r)
}

// outcome runs a called task for what it returns.
func (c *calledTasks) outcome(ctx context.Context, r *calledRun) ([]comms.Desc, *comms.TaskError, error) {
	c.note("%s runs again: what it returned was not recorded", r.name)
	item, err := c.run(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	if item.Error != nil {
		return nil, item.Error, nil
	}
	var out []comms.Desc
	for _, d := range item.Outputs {
		if d, err = r.task.Data(d); err != nil {
			return nil, nil, err
		}
		out = append(out, d)
	}
	return out, nil, nil
}

// record returns the record of a called task; nil: there is none.
func (c *calledTasks) record(ctx context.Context, name string) (*calledRecord, error) {
	c.mu.Lock()
	rec, ok := c.records[name]
	c.mu.Unlock()
	if ok || !strings.Contains(name, "/") {
		return rec, nil
	}
	for row, err := range cascade.EachRow[comms.RecordRow](ctx, c.client, comms.QueryRecords, c.job.ID(), name) {
		if errors.Is(err, cascade.ErrBadRequest) {
			return nil, badInputf("replay: the controller is of an older version, which records no arguments of called tasks: %w", err)
		}
		if err == nil {
			rec, err = readRecord(row) // of several the last end counts
		}
		if err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	c.records[name] = rec
	c.mu.Unlock()
	return rec, nil
}

func readRecord(row *comms.RecordRow) (rec *calledRecord, err error) {
	rec = &calledRecord{name: row.Name}
	if rec.event, err = row.CallEvent(); err != nil {
		return nil, err
	}
	t := rec.event.Called
	if t.Host == "" {
		t.Host = row.Agent
	}
	var wrong [3]error
	rec.Record, wrong[0] = comms.ReadRecord(t.Record)
	rec.kind, wrong[1] = comms.ReadCallKind(t.Kind)
	rec.edges, wrong[2] = comms.ReadEdges(t.Reads)
	if err := errors.Join(wrong[:]...); err != nil {
		return nil, fmt.Errorf("replay: called task %s: %w", row.Name, err)
	}
	return rec, nil
}

// note says something beside what the task prints.
func (c *calledTasks) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.app.err, "note: "+format+"\n", args...)
}

// newFolder makes a folder for one run.
func (c *calledTasks) newFolder() (string, error) {
	c.mu.Lock()
	c.folders++
	folder := filepath.Join(c.task.Folder, strconv.Itoa(c.folders))
	c.mu.Unlock()
	if err := os.Mkdir(folder, 0o700); err != nil {
		return "", fmt.Errorf("make a folder for a called task: %w", err)
	}
	return folder, nil
}
