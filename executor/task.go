package executor

import (
	"context"
	"io"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/executor/value"
)

// Task tells a function about the task it runs as.
type Task struct {
	Job       comms.JobID
	Name      string // unique in the job
	Group     string // entry of the job file
	Attempt   uint32 // which try at it this is, from 1
	Agent     string
	Resources comms.Resources // granted while it runs
	Dir       string          // folder that relative paths of the job refer to; "" outside an executor
	Scratch   string          // folder for files that are not needed afterwards
	Log       io.Writer       // goes to the task's log; safe for concurrent use
}

type taskKey struct{}

// TaskOf returns the task that ctx belongs to. Outside an executor it describes
// no task and its log is discarded.
func TaskOf(ctx context.Context) *Task {
	if r, ok := ctx.Value(taskKey{}).(*run); ok {
		return r.describe()
	}
	return &Task{Log: io.Discard}
}

// Alloc returns an array in the store, with any content, for a task to
// fill in place: when the task returns it, or a slice of its data, it is
// published without a copy, and must not be touched any more. Small arrays and
// those made outside an executor are ordinary memory.
func Alloc[T value.Number](ctx context.Context, shape ...int) (value.Array[T], error) {
	n, err := value.Size[T](shape...)
	if err != nil {
		return value.Array[T]{}, err
	}
	r, _ := ctx.Value(taskKey{}).(*run)
	if r == nil || ctx.Value(methodKey{}) != nil { // what a method returns is copied into its answer
		return value.View[T](value.Room(n), shape...), nil
	}
	b, err := r.alloc(n)
	if err != nil {
		return value.Array[T]{}, err
	}
	if b == nil {
		b = value.Room(n)
	}
	return value.View[T](b, shape...), nil
}
