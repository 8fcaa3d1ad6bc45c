//go:build linux

package agent

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/cascade-run/cascade/agent/core"
	"github.com/cascade-run/cascade/agent/process"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/executor/blame"
	"github.com/cascade-run/cascade/shm"
)

const (
	maxCrash  = 1 << 20 // bytes of a crash output that are read
	crashTail = 4 << 10 // bytes of it that go into the task's error
)

// death is what is known about the end of an executor.
type death struct {
	core.ExecutorDead
	touched *shm.Where // memory that it must not write, and wrote
	words   []byte     // that belong into the task's log: what it had printed, and the stack of a Python function
}

// postMortem puts together how a process ended, in which run it was, and whether
// it panicked or touched memory that it must not write.
func postMortem(ex *worker, files executorFiles, control *shm.Control, exit process.Exit) death {
	printed := files.words.rest()
	d := death{ExecutorDead: core.ExecutorDead{Executor: ex.id, Why: exit.String(), Signal: exit.Signal()}, words: printed}
	d.Tail = exit.Output
	if step, steps := control.Last(); steps > 0 {
		d.Run = comms.RunID(step.Run)
		d.Tail = slices.Concat(d.Tail, ex.spoken.of(d.Run))
	}
	d.Tail = slices.Concat(d.Tail, printed)
	// The crash file has the runtime's own words, without what others wrote in between.
	text, err := readHead(files.crash, maxCrash)
	if err != nil || len(text) == 0 {
		text = exit.Output
	} else {
		if stack := blame.FindFault(text); stack != nil {
			for _, folder := range files.code { // the user knows files by their names below these
				stack = bytes.ReplaceAll(stack, []byte(folder+"/"), nil)
			}
			d.words, text = slices.Concat(printed, stack), stack
		}
		d.Tail = append(d.Tail, text[:min(len(text), crashTail)]...)
	}
	if crash, ok := shm.ParseCrash(text); ok {
		if where, ok := control.Find(crash.Addr); ok {
			d.touched = &where
			return d
		}
	}
	if p, ok := blame.FindPanic(text); ok {
		d.Panic, d.Stack = p.Message, p.Stack
	}
	return d
}

// blame names what a dead executor wrote to.
func (l *loop) blame(w *worker, d *death) {
	if d.touched == nil {
		return
	}
	d.ReadOnly = true
	d.Why = "it wrote to a dataset that was published, which is shared and must not change"
	wroteTo := func(input string) {
		d.Why = fmt.Sprintf("it wrote to input %s, which is shared and must not change; let it change a copy", input)
	}
	kind, run := w.recent.find(d.Run)
	if kind == nil {
		return
	}
	if live := blame.Live(kind, run); d.touched.Lease && live != "" {
		wroteTo(live)
		return
	}
	for id, path := range l.segments {
		if filepath.Base(path) != d.touched.Name {
			continue
		}
		if input, ok := blame.Input(kind, run, uint32(id), uint64(d.touched.Offset)); ok {
			wroteTo(input)
		}
		return
	}
}

func readHead(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, most))
}
