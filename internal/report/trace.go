package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/screen"
)

// event is one entry of the trace event format that chrome://tracing and Perfetto
// read (Google, "Trace Event Format", 2016): times in microseconds.
type event struct {
	Name string         `json:"name"`
	Cat  string         `json:"cat,omitempty"`
	Ph   string         `json:"ph"`
	TS   float64        `json:"ts"`
	Dur  *float64       `json:"dur,omitempty"`
	PID  int            `json:"pid"`
	TID  uint32         `json:"tid"`
	ID   int            `json:"id,omitempty"`
	BP   string         `json:"bp,omitempty"`
	Args map[string]any `json:"args,omitempty"`
}

// traceArrows is the most tasks of which arrows show what they waited for, and bars what was
// sent to other hosts: a viewer becomes slow beyond.
const traceArrows = 20_000

// Trace writes the run for chrome://tracing and Perfetto: a process is a host, a
// thread one of its executors, and arrows go from producers to their consumers.
// Transfers to a host have bars of their own.
func (r *Run) Trace(w io.Writer) error {
	out := bufio.NewWriterSize(screen.NewWriter(w), 64<<10)
	t := tracer{out: out, json: json.NewEncoder(out)}
	fmt.Fprint(out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n")
	for h, name := range r.Hosts {
		t.write(event{Name: "process_name", Ph: "M", PID: h + 1, Args: map[string]any{"name": name}})
		if r.Clock[h] != 0 {
			t.write(event{Name: "process_labels", Ph: "M", PID: h + 1, Args: map[string]any{"labels": fmt.Sprintf("clock moved by %s", Seconds(r.Clock[h]))}})
		}
	}
	named := map[[2]uint32]bool{}
	thread := func(host int, executor uint32) {
		if at := [2]uint32{uint32(host), executor}; !named[at] {
			named[at] = true
			t.write(event{Name: "thread_name", Ph: "M", PID: host + 1, TID: executor, Args: map[string]any{"name": fmt.Sprintf("executor %d", executor)}})
		}
	}
	for i := range r.Tasks {
		k := &r.Tasks[i]
		thread(k.Host, k.Executor)
		took := k.Seconds * 1e6
		args := map[string]any{"state": k.State, "attempt": k.Attempt, "cpu_seconds": k.CPU, "peak_memory": k.PeakRSS, "bytes_in": k.BytesIn, "bytes_out": k.BytesOut}
		if k.Error != "" {
			args["error"] = k.Error
		}
		t.write(event{Name: k.Name, Cat: k.Group, Ph: "X", TS: k.Start * 1e6, Dur: &took, PID: k.Host + 1, TID: k.Executor, Args: args})
	}
	for i := range r.Calls {
		k := &r.Calls[i]
		thread(k.Host, k.Executor)
		t.call(k)
	}
	if len(r.Tasks)+len(r.Calls) <= traceArrows {
		id, err := r.arrows(&t)
		if err != nil {
			return err
		}
		r.callArrows(&t, id)
		if err := r.received(&t); err != nil {
			return err
		}
	}
	fmt.Fprint(out, "]}\n")
	if t.err != nil {
		return fmt.Errorf("write trace: %w", t.err)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write trace: %w", err)
	}
	return nil
}

// call writes the interval of a called task.
func (t *tracer) call(k *Call) {
	took := k.Seconds * 1e6
	args := map[string]any{"state": k.State, "function": k.Function, "caller": k.Parent, "tries": k.Tries, "waited_seconds": k.Waited(), "cpu_seconds": k.CPU,
		"peak_memory": k.PeakRSS, "bytes_in": k.BytesIn, "bytes_out": k.BytesOut}
	if k.Error != "" {
		args["error"] = k.Error
	}
	t.write(event{Name: k.Name, Cat: k.Function, Ph: "X", TS: k.Start * 1e6, Dur: &took, PID: k.Host + 1, TID: k.Executor, Args: args})
}

// arrows draws what tasks waited for; it returns the number of the last arrow.
func (r *Run) arrows(t *tracer) (id int, err error) {
	for i := range r.Tasks {
		k := &r.Tasks[i]
		err := r.waits(dag.TaskIndex(k.Index), func(p *Task, _ bool) {
			id++
			at := min(p.Finish, k.Start) * 1e6
			t.write(event{Name: "data", Cat: "data", Ph: "s", TS: at, PID: p.Host + 1, TID: p.Executor, ID: id})
			t.write(event{Name: "data", Cat: "data", Ph: "f", BP: "e", TS: k.Start * 1e6, PID: k.Host + 1, TID: k.Executor, ID: id})
		})
		if err != nil {
			return id, err
		}
	}
	return id, nil
}

// received shows what each host was sent, from when it was made until it was needed.
func (r *Run) received(t *tracer) error {
	moves, err := r.moves()
	if err != nil {
		return err
	}
	for i := range moves {
		m := &moves[i]
		e := event{Name: fmt.Sprintf("%s from %s", m.Name, r.Hosts[m.From]), Cat: "received", Ph: "b", TS: m.Made * 1e6, PID: m.To + 1, ID: i + 1,
			Args: map[string]any{"bytes": math.Round(m.Bytes), "note": "moved some time between when it was made and when it was needed"}}
		t.write(e)
		e.Ph, e.TS, e.Args = "e", m.Needed*1e6, nil
		t.write(e)
	}
	return nil
}

// tracer writes events between commas and keeps the first error.
type tracer struct {
	out  *bufio.Writer
	json *json.Encoder
	some bool
	err  error
}

func (t *tracer) write(e event) {
	if t.some {
		_ = t.out.WriteByte(',') // a bufio.Writer keeps its error for Flush
	}
	t.some = true
	if err := t.json.Encode(e); err != nil && t.err == nil {
		t.err = err
	}
}
