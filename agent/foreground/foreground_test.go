package foreground_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/cascade-run/cascade/agent/foreground"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/executor"
	"github.com/cascade-run/cascade/internal/testing/output"
)

func TestMain(m *testing.M) {
	executor.Main()
	goleak.VerifyTestMain(m)
}

func words(text string) []comms.Word {
	return []comms.Word{{Parts: []dag.ArgPart{{Kind: dag.ArgText, Text: "sh"}}}, {Parts: []dag.ArgPart{{Kind: dag.ArgText, Text: "-c"}}}, {Parts: []dag.ArgPart{{Kind: dag.ArgText, Text: text}}}}
}

// shell is a task with an input of its own file, an inline one and two outputs.
func shell(t *testing.T, script string, stdout, stderr *output.Buffer) *foreground.Task {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.MkdirTemp("", "cf") // a socket's path must be short, and its folder ours
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	task := &foreground.Task{Agent: "a", Folder: folder, Dir: t.TempDir(), Program: []string{self}, Stdout: stdout, Stderr: stderr,
		Kind: &comms.Kind{ID: 1, Group: "g", Command: words(script), Env: []string{"OF_JOB=1"}, Resources: comms.Resources{CPU: 1000},
			Inputs: []comms.KindIn{{Name: "file"}, {Name: "few"}}, Outputs: []comms.KindOut{{Name: "big", File: true}, {Name: "small"}}}}
	f, place, err := task.Input()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("of a file\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	inline := comms.Place{Kind: comms.PlaceInline, Bytes: []byte("of a message\n")}
	task.Run = comms.Run{ID: 1, Kind: 1, Name: "g[2]", Attempt: 3, Inputs: []comms.RunInput{
		{Data: []comms.Desc{{Codec: "raw", Size: 10, Place: place}}}, {Data: []comms.Desc{{Codec: "raw", Size: 13, Place: inline}}}}}
	return task
}

// A task has its inputs, its environment and its attempt, and its end is told.
func TestDo(t *testing.T) {
	for _, tt := range []struct{ name, script, stdout, stderr, end string }{
		{"prints", `cat $CASCADE_IN_FILE $CASCADE_IN_FEW; echo $CASCADE_TASK $CASCADE_ATTEMPT $OF_JOB >&2; echo 1 > $CASCADE_OUT_BIG; echo 2 > $CASCADE_OUT_SMALL`,
			"of a file\nof a message\n", "g[2] 3 1\n", "finished: 2 2"},
		{"fails", "echo bad >&2; exit 7", "", "bad\n", "exit 7"},
		{"is killed", "kill -9 $$", "", "", "exit -1 SIGKILL"},
		{"inputs are read-only", "echo x > $CASCADE_IN_FILE; exit 1", "", "sh: 1: cannot create", "exit 1"},
		{"an output is missing", "echo 1 > $CASCADE_OUT_BIG", "", "", "error: the command ended with status 0 but did not write output \"small\""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr output.Buffer
			item, err := shell(t, tt.script, &stdout, &stderr).Do(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			end := "finished:"
			for _, d := range item.Outputs {
				end += fmt.Sprint(" ", d.Size)
			}
			if e := item.Error; e != nil {
				end = strings.TrimSpace(fmt.Sprintf("%s %d %s", e.Kind, e.ExitCode, e.Signal))
				if e.Kind != comms.ErrorExit {
					end = e.Text()
				}
			}
			if !strings.HasPrefix(end, tt.end) {
				t.Errorf("ended with %q, want %q", end, tt.end)
			}
			if stdout.String() != tt.stdout || tt.name != "inputs are read-only" && stderr.String() != tt.stderr {
				t.Errorf("printed %q and %q", stdout.String(), stderr.String())
			}
		})
	}
}

// What does not come to the task's end is an error, and no process is left.
func TestDoFails(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*foreground.Task)
		want   string
	}{
		{"no such program", func(t *foreground.Task) { t.Program = []string{"/nowhere/program"} }, "start /nowhere/program"},
		{"a program that is no executor", func(t *foreground.Task) { t.Program = []string{"false"} }, "its process ended before the task did: exit status 1"},
		{"no such function", func(t *foreground.Task) { t.Kind.Function = "absent" }, `the program has no function "absent"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr output.Buffer
			task := shell(t, "", &stdout, &stderr)
			tt.change(task)
			if _, err := task.Do(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v", err)
			}
		})
	}
}

func TestDoIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	out := &interrupting{cancel: func() { cancel(errors.New("enough")) }}
	var stderr output.Buffer
	task := shell(t, "trap 'echo stopped >&2; exit 1' TERM; echo ready; while :; do sleep 0.01; done", nil, &stderr)
	task.Stdout = out
	item, err := task.Do(ctx)
	if err != nil || item.Error == nil || item.Error.Kind != comms.ErrorCancelled || !strings.HasSuffix(stderr.String(), "stopped\n") {
		t.Errorf("ended with %+v, %v, said %q", item, err, stderr.String())
	}
}

// interrupting cancels when something is printed.
type interrupting struct{ cancel func() }

func (w *interrupting) Write(p []byte) (int, error) {
	w.cancel()
	return len(p), nil
}
