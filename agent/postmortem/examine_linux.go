//go:build linux

package postmortem

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
	"github.com/cascade-run/cascade/shm"
)

const (
	maxCrash = 1 << 20 // bytes of a crash output that are read
	// Tail is how many bytes of each of its sources go into the task's error.
	Tail = 4 << 10
)

// Remains is what an executor left.
type Remains struct {
	Executor comms.ExecutorID
	Exit     process.Exit
	Control  *shm.Control
	Spoken   func(comms.RunID) []byte // the end of what it had sent of what a run printed
	Printed  []byte                   // what it had not sent
	Crash    string                   // file where the Go runtime writes why it crashed
	Code     []string                 // folders of code, which are cut from the names of files
}

// Death is what is known about the end of an executor.
type Death struct {
	core.ExecutorDead
	Words   []byte     // that belong into the task's log: what it had printed, and the stack of a Python function
	touched *shm.Where // memory that it must not write, and wrote
}

// Examine puts together how a process ended, in which run it was, and whether
// it panicked or touched memory that it must not write.
func Examine(r Remains) Death {
	d := Death{ExecutorDead: core.ExecutorDead{Executor: r.Executor, Why: r.Exit.String(), Signal: r.Exit.Signal()}, Words: r.Printed}
	d.Tail = r.Exit.Output
	if step, steps := r.Control.Last(); steps > 0 {
		d.Run = comms.RunID(step.Run)
		d.Tail = slices.Concat(d.Tail, r.Spoken(d.Run))
	}
	d.Tail = slices.Concat(d.Tail, r.Printed)
	// The crash file has the runtime's own words, without what others wrote in between.
	text, err := readHead(r.Crash, maxCrash)
	if err != nil || len(text) == 0 {
		text = r.Exit.Output
	} else {
		if stack := FindFault(text); stack != nil {
			for _, folder := range r.Code { // the user knows files by their names below these
				stack = bytes.ReplaceAll(stack, []byte(folder+"/"), nil)
			}
			d.Words, text = slices.Concat(r.Printed, stack), stack
		}
		d.Tail = append(d.Tail, text[:min(len(text), Tail)]...)
	}
	if crash, ok := shm.ParseCrash(text); ok {
		if where, ok := r.Control.Find(crash.Addr); ok {
			d.touched = &where
			return d
		}
	}
	if p, ok := FindPanic(text); ok {
		d.Panic, d.Stack = p.Message, p.Stack
	}
	return d
}

// Blame names what a dead executor wrote to, of a run whose kind is nil when it is not known.
// Segments are the files of the agent's segments.
func (d *Death) Blame(kind *comms.Kind, run *comms.Run, segments map[uint64]string) {
	if d.touched == nil {
		return
	}
	d.ReadOnly = true
	d.Why = "it wrote to a dataset that was published, which is shared and must not change"
	wroteTo := func(input string) {
		d.Why = fmt.Sprintf("it wrote to input %s, which is shared and must not change; let it change a copy", input)
	}
	if kind == nil {
		return
	}
	if live := Live(kind, run); d.touched.Lease && live != "" {
		wroteTo(live)
		return
	}
	for id, path := range segments {
		if filepath.Base(path) != d.touched.Name {
			continue
		}
		if input, ok := Input(kind, run, uint32(id), uint64(d.touched.Offset)); ok {
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
