package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/docker/go-units"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/report"
	"github.com/cascade-run/cascade/internal/screen"
)

func parseSize(s string) (int64, error) { return units.RAMInBytes(s) }

// summaryTasks is the most tasks for which the critical path is worked out:
// beyond it the rows would take longer to fetch than the summary is worth.
const summaryTasks = 200_000

// namedFailures is the most failed tasks, or missing outputs, that the summary of a job names.
const namedFailures = 3

// summaryObject is what run prints at the end, also as JSON.
type summaryObject struct {
	Job          string   `json:"job"`
	Name         string   `json:"name"`
	Phase        string   `json:"phase"`
	Tasks        uint64   `json:"tasks"`
	Wall         float64  `json:"wall_seconds"`
	TaskTime     float64  `json:"task_seconds"`
	Critical     float64  `json:"critical_path_seconds,omitempty"`
	CriticalPath []string `json:"critical_path,omitempty"`
	BytesOut     uint64   `json:"bytes_out"`
	Copied       uint64   `json:"bytes_copied"`
	Spilled      uint64   `json:"bytes_spilled"`
	Retries      uint64   `json:"retries"`
	Repeats      uint64   `json:"repeats,omitempty"` // tasks restarted for another reason than an error of theirs
	Lost         string   `json:"repeats_for,omitempty"`
	Skipped      uint64   `json:"skipped"`
	Failed       uint64   `json:"failed"`
	Outputs      []string `json:"outputs,omitempty"`
	Missing      []string `json:"missing_outputs,omitempty"`
	Error        *failure `json:"error,omitempty"`

	Device *comms.DeviceUse `json:"device,omitempty"`
}

// failure is the first cause of a failed job, as JSON.
type failure struct {
	Kind     string   `json:"kind"`
	Message  string   `json:"message"`
	Codes    []string `json:"codes,omitempty"`
	Task     string   `json:"task"`
	Attempt  uint32   `json:"attempt"`
	Agent    string   `json:"agent"`
	Executor uint64   `json:"executor,omitempty"`
	ExitCode int32    `json:"exit_code,omitempty"`
	Signal   string   `json:"signal,omitempty"`
	Stack    string   `json:"stack,omitempty"`
	LogTail  string   `json:"log_tail,omitempty"`
	Place    string   `json:"place,omitempty"`   // in the job file
	Command  string   `json:"command,omitempty"` // that failed
}

func (a *app) failureOf(g *dag.Graph, e *cascade.TaskError) *failure {
	if e == nil {
		return nil
	}
	return &failure{Kind: e.Kind.String(), Message: e.Message, Codes: e.Codes, Task: e.Task, Attempt: e.Attempt, Agent: e.Agent,
		Executor: uint64(e.Executor), ExitCode: e.ExitCode, Signal: e.Signal, Stack: e.Stack, LogTail: string(e.LogTail), Place: a.placeOf(g, e), Command: commandOf(g, e)}
}

// deviceFact says what became of values that lay on a device, if there were any.
func (a *app) deviceFact(d *comms.DeviceUse) {
	if d != nil {
		a.fact("device", "%s copied to the host (%s), %d kept there", plural(int(d.Copies), "value"), size(d.Bytes), d.Kept)
	}
}

func (a *app) summary(ctx context.Context, client *cascade.Client, g *dag.Graph, p *cascade.Progress, files, missing []string) error {
	sum := total(p)
	s := summaryObject{
		Job: p.Job.String(), Name: p.Name, Phase: p.Phase.String(), Tasks: sum.Done,
		Wall: p.Took().Seconds(), TaskTime: float64(p.TaskTime) / 1e9,
		BytesOut: p.BytesOut, Copied: p.Copied, Spilled: p.Spilled,
		Retries: sum.Retries, Skipped: sum.Skipped, Failed: sum.Failed, Outputs: files, Missing: missing,
		Error: a.failureOf(g, p.Error),
	}
	if p.Device != (comms.DeviceUse{}) {
		s.Device = &p.Device
	}
	if sum.Total <= summaryTasks {
		rows, err := cascade.Rows[comms.TaskRow](ctx, client, comms.QueryTasks, p.Job, "")
		if err != nil {
			return err
		}
		if s.Critical, s.CriticalPath, err = criticalPath(g, rows); err != nil {
			return err
		}
		if !a.rerun { // else they were told to
			s.Repeats = repeats(rows, s.Retries)
		}
		if s.Repeats > 0 {
			lost, err := losses(ctx, client, p.Job)
			if err != nil {
				return err
			}
			s.Lost = restartedFor(lost, s.Repeats, p.Ended)
		}
	}
	if a.json {
		return a.printJSON(s)
	}
	fmt.Fprintf(a.out, "job %s %s: %s in %s\n", s.Name, s.Phase, plural(int(s.Tasks), "task"), report.Seconds(s.Wall))
	a.fact("task time", "%s, mean parallelism %.1f", report.Seconds(s.TaskTime), s.TaskTime/max(s.Wall, 1e-9))
	if len(s.CriticalPath) > 0 {
		a.fact("critical path", "%s: %s", report.Seconds(s.Critical), shorten(s.CriticalPath))
	}
	a.fact("data", "%s published, %s copied, %s spilled", size(s.BytesOut), size(s.Copied), size(s.Spilled))
	a.deviceFact(s.Device)
	a.fact("tried again", "%d", s.Retries)
	if s.Repeats > 0 {
		a.fact("restarted", "%d (%s): %s", s.Repeats, s.Lost, a.hint("story", s.Job))
	}
	if s.Failed+s.Skipped > 0 {
		a.fact("went without", "%d failed, %d skipped: %s", s.Failed, s.Skipped, a.hint("ls", "tasks", s.Job, "--status", "failed"))
		rows, err := cascade.FirstRows[comms.TaskRow](ctx, client, comms.QueryTasks, p.Job, "failed", namedFailures)
		if err != nil {
			return err
		}
		for _, r := range rows {
			text, _, _ := strings.Cut(r.Error, "\n")
			a.fact("", "%s: %s", r.Name, text)
		}
	}
	switch folder, n := commonFolder(files), len(files); {
	case n == 1:
		a.fact("output", "%s", relative(files[0]))
	case n > 1:
		a.fact("outputs", "%d files in %s", n, relative(folder))
	case len(g.Exports) == 0:
		a.fact("outputs", "none are kept: name them under outputs: in the job file")
	default:
		a.fact("outputs", "%s", a.hint("get", s.Job, "TASK.OUTPUT"))
	}
	return nil
}

func (a *app) fact(name, format string, args ...any) {
	fmt.Fprintf(a.out, "  %-14s %s\n", name, screen.Line(fmt.Sprintf(format, args...)))
}

// restartedFor says why tasks were restarted that had not failed. The loss of an agent is the
// cause of no more restarts than it had tasks that ran there, if it was given up before the job
// ended.
func restartedFor(lost []comms.LossRow, restarts uint64, ended int64) string {
	const others = "executor or data lost, or run cut off"
	var by uint64
	for _, l := range lost {
		at, err := time.Parse(time.RFC3339Nano, l.At)
		if over := at.UnixNano() + int64(l.Grace*1e9); err == nil && l.Back == "" && (ended == 0 || over <= ended) {
			by += l.Running
		}
	}
	switch {
	case by == 0:
		return others
	case by < restarts:
		return "agent lost, " + others
	}
	return "agent lost"
}

// repeats is how often tasks were restarted besides retries: an agent or executor was
// lost, or what they had made.
func repeats(rows []comms.TaskRow, retries uint64) uint64 {
	var again uint64
	for _, r := range rows {
		again += uint64(max(r.Attempt, 1)) - 1
	}
	return again - min(again, retries)
}

// criticalPath names the tasks that the run's end waited for, one after the other,
// and tells for how many seconds they ran.
func criticalPath(g *dag.Graph, rows []comms.TaskRow) (seconds float64, names []string, err error) {
	r, err := report.NewRun(g, rows, nil)
	if err != nil {
		return 0, nil, err
	}
	path, err := r.Path()
	for _, s := range path {
		seconds += s.Ran
		names = append(names, s.Task.Name)
	}
	return seconds, names, err
}

func shorten(path []string) string {
	if len(path) > 6 {
		path = append(append(append([]string{}, path[:3]...), fmt.Sprintf("(%d more)", len(path)-5)), path[len(path)-2:]...)
	}
	return strings.Join(path, " > ")
}

func commonFolder(files []string) string {
	if len(files) == 0 {
		return ""
	}
	dir := filepath.Dir(files[0])
	for _, f := range files[1:] {
		for dir != filepath.Dir(dir) && !strings.HasPrefix(f, dir+string(filepath.Separator)) {
			dir = filepath.Dir(dir)
		}
	}
	return dir
}

func relative(path string) string {
	wd, err := os.Getwd()
	if err != nil {
		return path
	}
	rel, err := filepath.Rel(wd, path)
	if err != nil || strings.HasPrefix(rel, "..") {
		return path
	}
	return rel
}

// explainFailure prints the first cause of a failed job: what, where, with which
// inputs, and the last lines that the task wrote.
func (a *app) explainFailure(ctx context.Context, client *cascade.Client, g *dag.Graph, p *cascade.Progress, err error) {
	var job *cascade.JobError
	if !errors.As(err, &job) || job.Cause == nil {
		fmt.Fprintf(a.err, "cascade: %v\n", err)
		if p.Phase == comms.JobCancelled {
			a.afterCancel(p.Job, a.retained || g.Retain)
		}
		return
	}
	e, who := job.Cause, ""
	switch {
	case e.Task != "":
		who = "task " + e.Task + ": "
	case e.Agent != "":
		who = "agent " + e.Agent + ": "
	}
	fmt.Fprintf(a.err, "job %s failed after %s: %s%s\n", p.Name, report.Seconds(p.Took().Seconds()), who, e.Text())
	if e.Task != "" {
		where := fmt.Sprintf("agent %s", e.Agent)
		if e.Executor > 0 {
			where += fmt.Sprintf(", executor %d", e.Executor)
		}
		fmt.Fprintf(a.err, "  ran on   %s, attempt %d\n", where, e.Attempt)
	}
	if at := a.placeOf(g, e); at != "" {
		fmt.Fprintf(a.err, "  job file %s\n", at)
	}
	if command := commandOf(g, e); command != "" {
		fmt.Fprintf(a.err, "  command  %s\n", hanging(command, 10, 11))
	}
	if i, ok := g.Lookup(e.Task); ok {
		if inputs, err := g.Inputs(i); err == nil {
			for _, in := range inputs {
				fmt.Fprintf(a.err, "  input    %s: %s\n", in.Name, sources(g, in))
			}
		}
	}
	if e.Stack != "" {
		fmt.Fprintf(a.err, "  stack\n%s\n", indent(ownFrames(e.Stack), 20))
	}
	if len(e.LogTail) > 0 {
		fmt.Fprintf(a.err, "  last output\n%s\n", indent(string(e.LogTail), 10))
	}
	sum := total(p)
	if sum.Skipped > 0 {
		fmt.Fprintf(a.err, "  because of it %s did not run\n", plural(int(sum.Skipped), "task"))
		a.explainSkipped(ctx, client, p.Job)
	}
	id := p.Job.String()
	if e.Task != "" {
		fmt.Fprintf(a.err, "  more     %s; %s\n", a.hint("story", id, e.Task), a.hint("logs", id, e.Task))
	}
	var ways []string
	if sum.Failed+sum.Skipped+sum.Cancelled > 0 { // else no task would run again
		ways = append(ways, fmt.Sprintf("  again    %s  # as it was submitted", a.hint("rerun", id)))
	}
	if a.anew != nil {
		ways = append(ways, "  after fixing: "+a.anew(p.Job))
	}
	if needsMending(e) {
		slices.Reverse(ways)
	}
	for _, way := range ways {
		fmt.Fprintln(a.err, way)
	}
	if sum.Failed > 1 {
		fmt.Fprintf(a.err, "  and %d more: %s\n", sum.Failed-1, a.hint("ls", "tasks", id, "--status", "failed"))
	}
}

// mistakes are Python's exceptions for what is wrong in a program or with its data.
const mistakes = "TypeError NameError UnboundLocalError AttributeError ImportError ModuleNotFoundError SyntaxError IndentationError " +
	"KeyError IndexError ValueError ZeroDivisionError AssertionError NotImplementedError"

// needsMending tells whether a task would fail again however often it is tried.
func needsMending(e *cascade.TaskError) bool {
	switch e.Kind {
	case comms.ErrorSetup, comms.ErrorPanic, comms.ErrorReadOnly, comms.ErrorInput, comms.ErrorPoison:
		return true
	case comms.ErrorExit: // a program that is not there, or cannot be run
		return e.ExitCode == 126 || e.ExitCode == 127
	case comms.ErrorTask:
		return len(e.Codes) > 0 && slices.Contains(strings.Fields(mistakes), e.Codes[0]) // what caused it may pass
	}
	return false
}

// afterCancel says how a job that was cancelled is gone on with.
func (a *app) afterCancel(id comms.JobID, retained bool) {
	if retained {
		fmt.Fprintln(a.err, "  kept: results of finished tasks")
	} else {
		fmt.Fprintln(a.err, "  kept: finished outputs; with retain: true in the job file all results")
	}
	fmt.Fprintf(a.err, "  go on    %s  # as it was submitted; what has ended and is kept does not run again\n", a.hint("rerun", id.String()))
	if a.anew != nil {
		fmt.Fprintf(a.err, "  after fixing: %s\n", a.anew(id))
	}
}

// explainOutputs says which outputs of a failed job that kept going were copied.
func (a *app) explainOutputs(files, missing []string, err error) {
	if err != nil {
		fmt.Fprintf(a.err, "  outputs  %v\n", err)
	}
	switch n := len(files); {
	case n == 1:
		fmt.Fprintf(a.err, "  copied   %s\n", relative(files[0]))
	case n > 1:
		fmt.Fprintf(a.err, "  copied   %d files to %s\n", n, relative(commonFolder(files)))
	}
	if n := len(missing); n > namedFailures {
		fmt.Fprintf(a.err, "  missing  %s and %d more\n", strings.Join(missing[:namedFailures], ", "), n-namedFailures)
	} else if n > 0 {
		fmt.Fprintf(a.err, "  missing  %s\n", strings.Join(missing, ", "))
	}
}

// explainSkipped prints of the first tasks that did not run which of them had
// too few of a list. That these are not known is no reason to fail.
func (a *app) explainSkipped(ctx context.Context, client *cascade.Client, job comms.JobID) {
	rows, err := cascade.FirstRows[comms.TaskRow](ctx, client, comms.QueryTasks, job, "skipped", 100)
	if err != nil {
		return
	}
	for _, r := range rows {
		if strings.Contains(r.Error, " of at least ") {
			fmt.Fprintf(a.err, "  too few  %s: %s\n", r.Name, r.Error)
			return
		}
	}
}

func sources(g *dag.Graph, in dag.Input) string {
	var names []string
	for n, s := range in.Sources {
		if n == 4 && len(in.Sources) > 5 {
			names = append(names, fmt.Sprintf("and %d more", len(in.Sources)-n))
			break
		}
		outputs := g.Group(s.Task).Outputs
		name := g.TaskName(s.Task)
		if int(s.Output) < len(outputs) {
			name += "." + outputs[s.Output].Name
		}
		switch s.Kind {
		case dag.SourceElement:
			name += fmt.Sprintf("[%d]", s.Element)
		case dag.SourceStream, dag.SourceGroup:
			name += "[*]"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// ownFrames cuts a stack off where the user's functions end and the executor begins.
func ownFrames(stack string) string {
	for _, ours := range []string{"\ngithub.com/cascade-run/cascade.Func", "\ngithub.com/cascade-run/cascade.Gen", "\ngithub.com/cascade-run/cascade/executor."} {
		if before, _, found := strings.Cut(stack, ours); found && strings.Contains(before, "\n") {
			stack = before
		}
	}
	return stack
}

// hanging returns the first lines of text, at most n, those behind the first moved to the
// right by so many columns.
func hanging(text string, n, columns int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) > n {
		lines = append(lines[:n], fmt.Sprintf("(%d more lines)", len(lines)-n))
	}
	return strings.Join(lines, "\n"+strings.Repeat(" ", columns))
}

// indent returns the last lines of text, at most n, each moved to the right.
func indent(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return "    " + strings.Join(lines, "\n    ")
}
