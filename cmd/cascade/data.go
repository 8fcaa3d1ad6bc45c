package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cmd/internal/amount"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/executor/value"
	"github.com/cascade-run/cascade/internal/screen"
)

const taskHelp = "TASK is a task such as spread[2,500], or a family: spread, or spread[*,500]."

// logTasks is the most tasks whose logs are printed unless --all is given.
const logTasks = 100

func (a *app) logsCommand() *cobra.Command {
	var follow, all, raw, failed bool
	var tail int
	var since time.Duration
	c := &cobra.Command{
		Use:   "logs JOB [TASK]",
		Short: "Print the output and error streams of tasks",
		Long: `Print what tasks wrote to standard output and standard error. With several tasks
each line begins with the task's name, and failed tasks come first. --failed,
--since and --tail choose tasks and lines. On a terminal control characters are shown as escapes, such as \u001b; --raw prints
them unchanged.

The log of a task has what those write, too, that it has called. The name of a
called task, such as root/3, prints its part, with those that it has called.

` + taskHelp + "\n" + jobHelp,
		Example: `  cascade logs last map
  cascade logs last spread
  cascade logs last model --follow --tail 20
  cascade logs last --failed --tail 50
  cascade logs last --since 10m
  cascade logs work root/3`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			if tail < 0 || since < 0 {
				return badInputf("--tail and --since cannot be negative")
			}
			return a.withJob(c.Context(), args[0], func(client *cascade.Client, j *cascade.Job) error {
				l := &logs{a: a, tail: tail, failed: failed, name: append(args, "")[1], most: logTasks, offsets: map[string]uint64{}, writers: map[string]io.Writer{}, to: a.bytes()}
				if raw {
					l.to = a.raw.out
				}
				if all {
					l.most = 0
				}
				if since > 0 {
					l.since = time.Now().Add(-since)
				}
				return likeTask(c.Context(), client, j, l.name, l.print(c.Context(), client, j, follow))
			})
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "follow the log until the task ends")
	c.Flags().BoolVar(&raw, "raw", false, "print control characters unchanged, also to a terminal")
	c.Flags().IntVarP(&tail, "tail", "n", 0, "print only the last `lines` of each task")
	c.Flags().Lookup("tail").DefValue = "0"
	amount.Duration(c.Flags(), &since, "since", 0, "only tasks that ran within this time, such as 10m")
	c.Flags().BoolVar(&failed, "failed", false, "only tasks that failed")
	c.Flags().BoolVar(&all, "all", false, fmt.Sprintf("print the logs of more than %d tasks", logTasks))
	return c
}

// likeTask adds to the error of a task that is not there which one may be meant.
func likeTask(ctx context.Context, client *cascade.Client, j *cascade.Job, name string, missing error) error {
	if !errors.Is(missing, cascade.ErrNotFound) {
		return missing
	}
	g, _, err := client.Graph(ctx, j.ID())
	if err != nil {
		return missing // and that is what the user should know first
	}
	return fmt.Errorf("%w%s", missing, nearTask(g, name))
}

// nearTask is the hint, in brackets, which task is meant by a name that none has; "" when
// none is like it.
func nearTask(g *dag.Graph, name string) string {
	family, _, _ := strings.Cut(name, "[")
	if slices.Contains(families(g), family) {
		return ""
	}
	if hint := dag.DidYouMean(family, families(g)); hint != "" {
		return " (" + hint + ")"
	}
	return ""
}

// families names the tasks of a graph as the job file has them.
func families(g *dag.Graph) (names []string) {
	for i := range g.Groups {
		names = append(names, g.Groups[i].Name)
	}
	return names
}

// logs prints the logs of one or several tasks.
type logs struct {
	a       *app
	name    string
	most    int // tasks; 0 for any number
	tail    int // lines of each; 0 for all
	failed  bool
	since   time.Time
	offsets map[string]uint64
	writers map[string]io.Writer
	to      io.Writer
	left    int // tasks that are not printed
}

// print prints what the tasks wrote, with follow until they have ended.
func (l *logs) print(ctx context.Context, client *cascade.Client, j *cascade.Job, follow bool) error {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		l.left = 0
		rows, err := j.Logs(ctx, l.name, l.offsets, func(r comms.TaskRow) io.Writer { return l.writer(r) })
		if err != nil {
			return err
		}
		l.tailed()
		if !follow || !slices.ContainsFunc(rows, open) {
			l.end(rows)
			return nil
		}
		if l.a.alone {
			l.end(rows)
			cut, err := l.a.cutOffJob(ctx, client, j)
			return errors.Join(cut, err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func open(r comms.TaskRow) bool {
	return !slices.Contains(endStates, r.State)
}

// writer is where the log of a task goes: as it is when there is one task only.
func (l *logs) writer(r comms.TaskRow) io.Writer {
	if w, ok := l.writers[r.Name]; ok {
		return w
	}
	if !l.wanted(&r) {
		return nil
	}
	var w io.Writer
	switch {
	case l.most > 0 && len(l.writers) >= l.most:
		l.left++
		return nil
	case l.a.json:
		w = &lineWriter{line: func(text string) { _ = l.a.printJSON(map[string]string{"task": r.Name, "line": text}) }}
	case r.Name == l.name && l.tail == 0:
		w = l.to
	case r.Name == l.name:
		w = &lineWriter{line: func(text string) { fmt.Fprintln(l.to, text) }}
	default:
		w = &lineWriter{line: func(text string) { fmt.Fprintf(l.to, "%s | %s\n", screen.Line(r.Name), text) }}
	}
	if lines, ok := w.(*lineWriter); ok {
		lines.keep = l.tail
	}
	l.writers[r.Name] = w
	return w
}

// wanted tells whether the log of a task is chosen.
func (l *logs) wanted(r *comms.TaskRow) bool {
	if l.failed && r.State != "failed" {
		return false
	}
	if l.since.IsZero() || r.State == "running" {
		return true
	}
	at, err := time.Parse(time.RFC3339Nano, r.Started)
	return err == nil && at.Add(time.Duration(r.Seconds*1e9)).After(l.since)
}

// tailed prints the last lines of what has been read.
func (l *logs) tailed() {
	for _, name := range slices.Sorted(maps.Keys(l.writers)) {
		if w, ok := l.writers[name].(*lineWriter); ok {
			w.release()
		}
	}
}

// end prints lines without an end, and tells what is not printed.
func (l *logs) end(rows []comms.TaskRow) {
	for _, r := range rows {
		if w, ok := l.writers[r.Name].(*lineWriter); ok {
			w.flush()
		}
	}
	if strings.Contains(l.name, "/") && len(rows) == 1 && l.offsets[l.name] == 0 {
		l.a.note("%s has written nothing, or there is no such called task: cascade ls calls lists them", l.name)
	}
	if l.left > 0 {
		l.a.note("and %s more: name one, or give --all", plural(l.left, "task"))
	}
}

// lineWriter calls line for each whole line, without its end; with keep, for the last lines alone
// of what comes before release.
type lineWriter struct {
	line func(string)
	rest []byte
	keep int
	held []string
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		line, rest, found := bytes.Cut(w.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		w.add(string(line))
		w.rest = rest
	}
}

func (w *lineWriter) add(line string) {
	if w.keep == 0 {
		w.line(line)
		return
	}
	if w.held = append(w.held, line); len(w.held) > 2*w.keep+gridRows {
		w.held = slices.Clone(w.held[len(w.held)-w.keep:])
	}
}

// release prints the lines that are kept; those that follow are printed as they come.
func (w *lineWriter) release() {
	for _, line := range w.held[max(len(w.held)-max(w.keep, 1), 0):] {
		w.line(line)
	}
	w.held, w.keep = nil, 0
}

func (w *lineWriter) flush() {
	if len(w.rest) > 0 {
		w.add(string(w.rest))
		w.rest = nil
	}
	w.release()
}

func (a *app) getCommand() *cobra.Command {
	var output string
	var value bool
	c := &cobra.Command{
		Use:   "get JOB TASK.OUTPUT",
		Short: "Write an output of a task to standard output or a file",
		Long: `Write a dataset to standard output or to a file, in the form that commands and
outputs: receive:

- text and bytes: unchanged
- arrays: their numbers, little-endian, row by row; cascade ls datasets and
  --json show dtype and shape
- other values (structs, dicts, lists): JSON

The datasets of a family or series are written to a folder: spread.mean,
spread[*,500].mean, or decode.field[*]. With --value, and on a terminal, values
are printed as JSON for people.

` + jobHelp,
		Example: `  cascade get last map.page > map.png
  cascade get last decode.field[2] > field.raw
  cascade get last spread.mean -o means/`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withJob(c.Context(), args[0], func(client *cascade.Client, j *cascade.Job) error {
				if value && output != "" {
					return badInputf("--value prints and --output writes bytes: give one of them")
				}
				get := func() error { return a.get(c.Context(), j, args[1], output) }
				if value || output == "" && !a.json && a.onTerminal(a.raw.out) {
					get = func() error { return a.getValues(c.Context(), j, args[1]) }
				}
				return whyMissing(c.Context(), client, j, args[1], get())
			})
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "", "output `file`, or a folder if it ends in a slash")
	c.Flags().BoolVar(&value, "value", false, "print decoded values as JSON, at most 1 MB")
	return c
}

func (a *app) get(ctx context.Context, j *cascade.Job, name, output string) error {
	switch {
	case output != "":
		return a.getFiles(ctx, j, name, output)
	case a.json:
		return a.describe(ctx, j, name)
	}
	return a.getBytes(ctx, j, name)
}

// whyMissing adds to the error of a dataset that is not there what became of its
// task, when that is why, or that the job did not keep it.
func whyMissing(ctx context.Context, client *cascade.Client, j *cascade.Job, name string, missing error) error {
	if !errors.Is(missing, cascade.ErrNotFound) && !errors.Is(missing, cascade.ErrBadRequest) {
		return missing
	}
	task, output := name, ""
	if dot := strings.LastIndexByte(name, '.'); dot >= 0 {
		task, output = name[:dot], name[dot+1:]
	}
	g, _, err := client.Graph(ctx, j.ID())
	if err != nil {
		return missing // and that is what the user should know first
	}
	i, ok := g.Lookup(task)
	if !ok {
		return missing
	}
	switch {
	case len(g.Group(i).Outputs) == 0:
		return badInputf("%s is not there: the task has no outputs; out: in the job file declares some", name)
	case !errors.Is(missing, cascade.ErrNotFound):
		return missing
	}
	r, err := taskRow(ctx, client, j, g, i)
	if err != nil || r == nil {
		return missing
	}
	if r.State == "done" {
		if keeps(g, i, output) {
			return missing
		}
		return badInputf("%s is not there: it is no output of the job, and was freed when no task needed it any more; to keep it, name it under outputs: in the job file", name)
	}
	became := "was " + r.State
	switch {
	case open(*r):
		became = "has not ended: it is " + r.State
	case r.State == "failed":
		became = "failed"
	}
	if why := strings.TrimPrefix(r.Error, r.State+": "); why != "" {
		became += ": " + why
	}
	return badInputf("%s is not there: task %s %s", name, r.Name, became)
}

// keeps tells whether an output of the task's family, such as "mean" or "field[2]",
// is an output of the job; "" is any.
func keeps(g *dag.Graph, task dag.TaskIndex, output string) bool {
	grp := g.Group(task)
	output, _, _ = strings.Cut(output, "[")
	for _, e := range g.Exports {
		for _, s := range e.Sources {
			if g.Group(s.Task).Name == grp.Name && (output == "" || int(s.Output) < len(grp.Outputs) && grp.Outputs[s.Output].Name == output) {
				return true
			}
		}
	}
	return false
}

func (a *app) getBytes(ctx context.Context, j *cascade.Job, name string) error {
	located, missing, err := j.LocateThere(ctx, name)
	if err != nil {
		return err
	}
	a.noteMissing(missing)
	if n := len(located); n > 1 {
		return badInputf("%s is %d datasets, %s to %s: name one, or give a folder for all with -o FOLDER/", name, n, located[0].Name, located[n-1].Name)
	}
	for _, d := range located {
		if err := j.Write(ctx, d, a.bytes()); err != nil {
			return err
		}
	}
	return nil
}

// noteMissing names datasets of a family that are not there.
func (a *app) noteMissing(missing []string) {
	if n := len(missing); n > namedFailures {
		missing = append(missing[:namedFailures:namedFailures], fmt.Sprintf("and %d more", n-namedFailures))
	}
	if len(missing) > 0 {
		a.note("not there: %s", strings.Join(missing, ", "))
	}
}

// valueBytes is the most bytes of a dataset whose value is printed.
const valueBytes = 1 << 20

// getValues prints what datasets hold, one line each; of several each has its name.
func (a *app) getValues(ctx context.Context, j *cascade.Job, name string) error {
	located, missing, err := j.LocateThere(ctx, name)
	if err != nil {
		return err
	}
	a.noteMissing(missing)
	for _, d := range located {
		var b bytes.Buffer
		text := []byte(nil)
		err := fmt.Errorf("it has %s", size(d.Desc.Size))
		if d.Desc.Size <= valueBytes {
			if err := j.Fetch(ctx, d, &b); err != nil {
				return err
			}
			text, err = value.JSON(value.Flat{Codec: d.Desc.Codec, DType: d.Desc.DType, Shape: d.Desc.Shape, Bytes: b.Bytes()}, valueBytes)
		}
		if err != nil {
			return badInputf("%s cannot be printed: %w; -o FILE writes its bytes to a file, and | hands them to a program", d.Name, err)
		}
		if a.json {
			err = a.printJSON(map[string]any{"name": d.Name, "value": json.RawMessage(text)})
		} else if len(located) > 1 {
			_, err = fmt.Fprintf(a.out, "%s\t%s\n", d.Name, text)
		} else {
			_, err = fmt.Fprintf(a.out, "%s\n", text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *app) getFiles(ctx context.Context, j *cascade.Job, name, output string) error {
	_, missing, err := j.LocateThere(ctx, name)
	if err != nil {
		return err
	}
	a.noteMissing(missing)
	files, err := j.SaveTo(ctx, output, name)
	for _, f := range files {
		if a.json {
			_ = a.printJSON(map[string]string{"file": f})
		} else {
			fmt.Fprintln(a.out, relative(f))
		}
	}
	return err
}

// describe prints what datasets are, and not their bytes.
func (a *app) describe(ctx context.Context, j *cascade.Job, name string) error {
	located, missing, err := j.LocateThere(ctx, name)
	if err != nil {
		return err
	}
	a.noteMissing(missing)
	for _, d := range located {
		if err := a.printJSON(struct {
			Name  string   `json:"name"`
			Codec string   `json:"codec"`
			DType string   `json:"dtype,omitempty"`
			Shape []uint64 `json:"shape,omitempty"`
			Size  uint64   `json:"size"`
			Agent string   `json:"agent"`
		}{d.Name, d.Desc.Codec, d.Desc.DType, d.Desc.Shape, d.Desc.Size, d.Agent}); err != nil {
			return err
		}
	}
	return nil
}
