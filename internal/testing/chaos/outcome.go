//go:build linux

package chaos

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// Job is a job under way and what the test has heard of it.
type Job struct {
	*cascade.Job
	Graph *dag.Graph
	Begun int // number of journal lines before it was submitted

	accepted time.Time // the controller said that it has it

	host   *Host
	client *cascade.Client
	ended  chan struct{}
	last   *cascade.Progress
	err    error

	mu       sync.Mutex
	finished map[string]time.Time // when the test was told that a task is finished
	on       func(*cascade.Progress)
}

// Submit submits a job file's text. From then on the test follows the job; when it
// changes, on is called with its progress (nil for none).
func (h *Host) Submit(c *cascade.Client, text string, on func(*cascade.Progress), flags ...string) *Job {
	h.tb.Helper()
	return h.submit(c, text, on, flags)
}

// SubmitWatched is Submit of a job of which no task starts before the test is told of
// what happens: it hears of each end.
func (h *Host) SubmitWatched(c *cascade.Client, text string, on func(*cascade.Progress), flags ...string) *Job {
	h.tb.Helper()
	watched := make(chan struct{})
	var once sync.Once
	j := h.submit(c, text, func(p *cascade.Progress) {
		once.Do(func() { close(watched) })
		if on != nil {
			on(p)
		}
	}, flags, cascade.WithHold())
	select {
	case <-watched:
	case <-time.After(patience):
		h.tb.Fatal("nothing is told of a job that is held")
	}
	if err := j.Release(h.tb.Context()); err != nil {
		h.tb.Fatal(err)
	}
	return j
}

func (h *Host) submit(c *cascade.Client, text string, on func(*cascade.Progress), flags []string, how ...cascade.SubmitOption) *Job {
	h.tb.Helper()
	g, err := dag.ParseYAML("job.yaml", []byte(text), dag.Override{Flags: flags}, dag.Options{Dir: h.Dir})
	if err != nil {
		h.tb.Fatal(err)
	}
	j := &Job{Graph: g, Begun: h.Journal.Len(), host: h, client: c, ended: make(chan struct{}), finished: map[string]time.Time{}, on: on}
	if j.Job, err = c.Submit(h.tb.Context(), g, append(how, cascade.WithDir(h.Dir))...); err != nil {
		h.tb.Fatal(err)
	}
	j.accepted = time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), h.Patience)
	go func() {
		defer close(j.ended)
		defer cancel()
		j.err = j.Events(ctx, time.Millisecond, j.heard)
	}()
	h.tb.Cleanup(func() {
		cancel()
		<-j.ended
	})
	return j
}

func (j *Job) heard(p *cascade.Progress) bool {
	j.mu.Lock()
	j.last = p
	for i := range p.Events {
		e := &p.Events[i]
		name := j.Graph.TaskName(e.Task)
		switch e.Kind {
		case comms.EventFinished:
			// A value that only the next of a fused path has is lost with its executor.
			if outputs := j.Graph.Group(e.Task).Outputs; len(e.Outputs) > 0 || len(outputs) == 0 || outputs[0].Generate != dag.GenerateNone {
				j.finished[name] = time.Now()
			}
		case comms.EventRetry, comms.EventLost:
			delete(j.finished, name)
		}
	}
	j.mu.Unlock()
	if j.on != nil {
		j.on(p)
	}
	return true
}

// Finished returns the tasks of which the test has been told that they are
// finished and that their outputs are published.
func (j *Job) Finished() map[string]bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := map[string]bool{}
	for name := range j.finished {
		all[name] = true
	}
	return all
}

// Outcome is what a job came to.
type Outcome struct {
	Progress *cascade.Progress
	Data     map[string][]byte        // each output by name
	Tasks    map[string]comms.TaskRow // by name
	Lines    []Line                   // what its tasks said

	accepted time.Time
}

// End waits for the end of the job. It need not be a good one.
func (j *Job) End() Outcome {
	tb := j.host.tb
	tb.Helper()
	<-j.ended
	if j.err != nil {
		tb.Fatalf("follow job %s: %v\n%s", j.ID(), j.err, j.Story(""))
	}
	o := Outcome{Progress: j.last, Data: map[string][]byte{}, Tasks: map[string]comms.TaskRow{}, accepted: j.accepted}
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	for _, r := range j.rows() {
		o.Tasks[r.Name] = r
	}
	j.host.Journal.Sync()
	for _, l := range j.host.Journal.Lines(j.Begun) {
		if l.Job == j.ID().String() || l.Job == "" {
			o.Lines = append(o.Lines, l)
		}
	}
	if j.last.Phase != comms.JobDone {
		return o
	}
	for {
		var err error
		if o.Data, err = fetch(ctx, j.Job); err == nil {
			return o
		}
		if !errors.Is(err, cascade.ErrUnavailable) { // a controller that has just started waits for the agent
			tb.Fatal(err)
		}
	}
}

// fetch reads all outputs of a job that has ended, by name.
func fetch(ctx context.Context, j *cascade.Job) (map[string][]byte, error) {
	data := map[string][]byte{}
	located, err := j.Locate(ctx)
	for _, d := range located {
		var b bytes.Buffer
		if err = errors.Join(err, j.Fetch(ctx, d, &b)); err != nil {
			break
		}
		data[d.Name] = b.Bytes()
	}
	return data, err
}

// Done waits for the end of the job and fails the test unless it is done.
func (j *Job) Done() Outcome {
	j.host.tb.Helper()
	o := j.End()
	if err := cascade.JobResult(o.Progress); err != nil {
		j.host.tb.Fatalf("%v\n%s", err, j.Story(""))
	}
	return o
}

// Story returns the transitions of a task, or of all, as text.
func (j *Job) Story(task string) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	rows, err := cascade.Rows[comms.StoryRow](ctx, j.client, comms.QueryStory, j.ID(), task)
	if err != nil {
		return err.Error()
	}
	text := ""
	for _, r := range rows {
		text += r.At + " " + r.Task + " " + r.What + " because " + r.Cause + " " + r.Detail + "\n"
	}
	return text
}

// First returns when something happened to a task of the job for the first time, by
// the clock of the agent; what is as in `cascade story`.
func (j *Job) First(what string) (time.Time, bool) {
	j.host.tb.Helper()
	rows, err := cascade.Rows[comms.StoryRow](j.host.tb.Context(), j.client, comms.QueryStory, j.ID(), "")
	if err != nil {
		j.host.tb.Fatal(err)
	}
	for _, r := range rows {
		if r.What == what {
			at, err := time.Parse(time.RFC3339Nano, r.At)
			if err != nil {
				j.host.tb.Fatal(err)
			}
			return at, true
		}
	}
	return time.Time{}, false
}

// Same compares the outputs with those of an undisturbed run.
func (o Outcome) Same(tb testing.TB, want Outcome) {
	tb.Helper()
	if len(o.Data) != len(want.Data) {
		tb.Errorf("there are %d outputs, %d without the break", len(o.Data), len(want.Data))
	}
	for name, data := range want.Data {
		if at := difference(o.Data[name], data); at >= 0 {
			tb.Errorf("output %s of %d bytes differs from the undisturbed run, from byte %d on: % x, want % x", name, len(data), at,
				o.Data[name][at:min(at+32, len(o.Data[name]))], data[at:min(at+32, len(data))])
		}
	}
	ended := map[string]string{}
	for _, l := range o.Lines {
		ended[l.Event+" "+l.Task] = l.Note
	}
	for _, l := range want.Lines {
		if note := ended[l.Event+" "+l.Task]; note != l.Note {
			tb.Errorf("%s says %s at its %s, and %s in the undisturbed run", l.Task, note, l.Event, l.Note)
		}
	}
}

// difference returns where two texts differ first; -1 when they are the same.
func difference(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	if len(a) != len(b) {
		return n
	}
	return -1
}

// Starts counts how often a task started.
func (o Outcome) Starts(task string) (n int) {
	for _, l := range o.Lines {
		if l.Event == "start" && l.Task == task {
			n++
		}
	}
	return n
}

// Rerun checks the tasks that started more than once: none of them was known to
// be finished before the break, and each had run on a process that was killed, or
// before the job was accepted: an agent begins while the submit is stored, and the
// controller that dies then leaves no trace of the job.
func (o Outcome) Rerun(tb testing.TB, finished map[string]bool, killed ...int) {
	tb.Helper()
	dead := map[int]bool{}
	for _, pid := range killed {
		dead[pid] = true
	}
	on := map[string]Line{} // last start of each task
	for _, l := range o.Lines {
		if l.Event != "start" {
			continue
		}
		if was, again := on[l.Task]; again {
			if finished[l.Task] {
				tb.Errorf("%s was known to be finished and started again, in attempt %d", l.Task, l.Attempt)
			}
			if !dead[was.PID] && !was.At.Before(o.accepted) {
				tb.Errorf("%s started again in attempt %d, and process %d where it ran was not killed", l.Task, l.Attempt, was.PID)
			}
		}
		on[l.Task] = l
	}
}

// Again counts the starts of tasks beyond the first of each.
func (o Outcome) Again() (n int) {
	seen := map[string]bool{}
	for _, l := range o.Lines {
		if l.Event != "start" {
			continue
		}
		if seen[l.Task] {
			n++
		}
		seen[l.Task] = true
	}
	return n
}

// Once checks that tasks which were known to be finished at the only break have not started again.
func (o Outcome) Once(tb testing.TB, known map[string]bool) {
	tb.Helper()
	for task := range known {
		if n := o.Starts(task); n > 1 {
			tb.Errorf("%s was known to be finished, and has started %d times", task, n)
		}
	}
}

// Stored returns the tasks that the controller's store has as done, as far as the
// test has been told of their outputs: a value that only the next of a fused path
// has is lost with its executor.
func (j *Job) Stored() map[string]bool {
	j.host.tb.Helper()
	told, all := j.Finished(), map[string]bool{}
	for _, r := range j.rows() {
		if r.State == "done" && told[r.Name] {
			all[r.Name] = true
		}
	}
	return all
}

// done counts the tasks that the controller has as done.
func (j *Job) done() (n int) {
	j.host.tb.Helper()
	for _, r := range j.rows() {
		if r.State == "done" {
			n++
		}
	}
	return n
}

// rows are the tasks of the job as the controller has them.
func (j *Job) rows() []comms.TaskRow {
	j.host.tb.Helper()
	ctx, cancel := context.WithTimeout(j.host.tb.Context(), patience)
	defer cancel()
	rows, err := cascade.Rows[comms.TaskRow](ctx, j.client, comms.QueryTasks, j.ID(), "")
	if err != nil {
		j.host.tb.Fatal(err)
	}
	return rows
}
