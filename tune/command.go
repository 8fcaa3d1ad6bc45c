package tune

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/cascade-run/cascade/tune/core"
)

// CommandSpec is a training that is a program. It is told of its trial by arguments and variables (Env) in which {name} is
// replaced by a parameter, and by the environment:
//
//   - CASCADE_TUNE_CONFIG, the configuration as JSON;
//   - CASCADE_TUNE_TRIAL, the name of the trial, and CASCADE_TUNE_FOLDER, a folder of its own;
//   - CASCADE_TUNE_CHECKPOINT, the folder of the checkpoint that it continues, if there is one, and
//     CASCADE_TUNE_ITERATION, how many results the trial has.
//
// It reports by lines of JSON on its standard output, such as {"loss": 0.5}. The text "checkpoint" in a line names a
// folder with its state, which is copied. Other lines and its standard error go to the file output.log of the trial.
// With Lockstep it reads a line of its standard input after each report, which comes when it may go on; else it may be
// ahead of the decisions by what a pipe holds. It is stopped by SIGTERM, and 5 s later by SIGKILL, with all processes of
// its group.
type CommandSpec struct {
	Args     []string          `json:"args"`
	Env      map[string]string `json:"env,omitempty"`
	Dir      string            `json:"dir,omitempty"` // the working folder; empty: that of this process
	Lockstep bool              `json:"lockstep,omitempty"`
}

// Command returns the trainable of a program.
func Command(spec CommandSpec) Trainable { return Trainable{Command: &spec} }

const lineLimit = 1 << 20

func (c *CommandSpec) run(ctx context.Context, t *Trial) (err error) {
	folder := t.request.path(t.Name())
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make the folder of the trial: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(folder, "output.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the log of the trial: %w", err)
	}
	defer log.Close()
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd, err := c.command(running, t, folder)
	if err != nil {
		return err
	}
	last := &tail{to: log}
	cmd.Stderr = last
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	var in io.WriteCloser
	if c.Lockstep {
		if in, err = cmd.StdinPipe(); err != nil {
			return err
		}
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", strings.Join(c.Args, " "), err)
	}
	over := make(chan struct{})
	go func() { // processes that it has started may hold its output open
		select {
		case <-running.Done():
		case <-over:
			return
		}
		select {
		case <-time.After(cmd.WaitDelay):
			endGroup(cmd)
		case <-over:
		}
	}()
	read := c.read(ctx, t, out, in, last)
	close(over)
	if read != nil { // it has to end: its output is not read any more
		cancel()
	}
	waited := cmd.Wait()
	endGroup(cmd)
	switch {
	case read != nil:
		return read
	case waited != nil:
		return fmt.Errorf("%s: %w\n%s", c.Args[0], waited, last.text())
	}
	return nil
}

func (c *CommandSpec) command(ctx context.Context, t *Trial, folder string) (*exec.Cmd, error) {
	flat, args := t.Values().Flat(), make([]string, len(c.Args))
	filled := func(text string) string {
		for k, v := range flat {
			text = strings.ReplaceAll(text, "{"+k+"}", core.Text(v))
		}
		return text
	}
	for i, a := range c.Args {
		args[i] = filled(a)
	}
	if len(args) == 0 {
		return nil, errors.New("the command has no arguments: name a program")
	}
	config, err := json.Marshal(t.Values())
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = c.Dir
	cmd.Env = append(os.Environ(), "CASCADE_TUNE_CONFIG="+string(config), "CASCADE_TUNE_TRIAL="+t.Name(), "CASCADE_TUNE_FOLDER="+folder,
		fmt.Sprint("CASCADE_TUNE_ITERATION=", t.Iteration()))
	if from, ok := t.Checkpoint(); ok {
		cmd.Env = append(cmd.Env, "CASCADE_TUNE_CHECKPOINT="+from)
	}
	for k, v := range c.Env {
		cmd.Env = append(cmd.Env, k+"="+filled(v))
	}
	group(cmd)
	cmd.WaitDelay = 5 * time.Second
	return cmd, nil
}

// read reports the lines of a program until it ends its output.
func (c *CommandSpec) read(ctx context.Context, t *Trial, out io.Reader, in io.Writer, log *tail) error {
	lines := bufio.NewReaderSize(out, lineLimit)
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("a line of the output of %s has more than %d bytes", c.Args[0], lineLimit)
		}
		text := bytes.TrimSpace(line)
		if len(text) > 0 {
			if err := c.line(ctx, t, text, in, log); err != nil {
				return err
			}
		}
		if err != nil {
			return ctx.Err() // the output has ended
		}
	}
}

func (c *CommandSpec) line(ctx context.Context, t *Trial, text []byte, in io.Writer, log *tail) error {
	var m core.Values
	if text[0] != '{' || json.Unmarshal(text, &m) != nil {
		_, err := log.Write(append(bytes.Clone(text), '\n'))
		return err
	}
	var opts []ReportOption
	if folder, ok := m["checkpoint"].(string); ok {
		delete(m, "checkpoint")
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(c.Dir, folder)
		}
		opts = append(opts, WithCheckpoint(folder))
	}
	if err := t.Report(ctx, Metrics(m), opts...); err != nil {
		return err
	}
	if in != nil {
		if _, err := io.WriteString(in, "go\n"); err != nil {
			return nil // it reads no more; its exit says why
		}
	}
	return nil
}

// tail writes to a file and keeps the end, for errors. The output of a program and its standard error come at once.
type tail struct {
	to io.Writer

	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b...)
	t.kept = t.kept[max(0, len(t.kept)-2000):]
	return t.to.Write(b)
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.kept))
}
