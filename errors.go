package cascade

import (
	"fmt"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/executor"
	"github.com/cascade-run/cascade/internal/client"
)

// Errors of requests, for errors.Is.
var (
	ErrBadRequest  = client.ErrBadRequest
	ErrNotFound    = client.ErrNotFound
	ErrConflict    = client.ErrConflict
	ErrUnavailable = client.ErrUnavailable
	ErrLost        = client.ErrLost
	ErrStoreFull   = client.ErrStoreFull
	ErrInternal    = client.ErrInternal
	ErrClosed      = client.ErrClosed
	ErrDenied      = client.ErrDenied // by the role of our certificate, or for want of one
)

// Errors of jobs and calls that are not those of a function, for errors.Is.
var (
	ErrCancelled = executor.ErrCancelled // a job or a call was cancelled, or what it reads was
	ErrTimeout   = executor.ErrTimeout   // a task exceeded its time-out, or one did that made what it reads
)

// Errors with which the context of a session ends, for errors.Is.
var (
	ErrSessionLost   = executor.ErrSessionLost   // its agent is gone
	ErrSessionClosed = executor.ErrSessionClosed // the program has closed it
)

// TaskError is the error of one attempt at a task: what went wrong, in which
// task and attempt, on which agent. A failed job's error wraps one.
type TaskError = comms.TaskError

// JobError says that a job ended without success.
type JobError struct {
	Job    comms.JobID
	Name   string
	Phase  comms.JobPhase
	Cause  *TaskError // first task that failed; nil when the job was cancelled
	Reason string     // of who cancelled it
}

func (e *JobError) Error() string {
	if e.Reason != "" {
		return fmt.Sprintf("job %s (%s) was %s: %s", e.Name, e.Job, e.Phase, e.Reason)
	}
	if e.Cause == nil {
		return fmt.Sprintf("job %s (%s) was %s", e.Name, e.Job, e.Phase)
	}
	return fmt.Sprintf("job %s (%s) %s: %v", e.Name, e.Job, e.Phase, e.Cause)
}

// Unwrap returns the causes: the task's error, in which errors.Is finds what was
// registered with RegisterError, or ErrCancelled.
func (e *JobError) Unwrap() []error {
	var causes []error
	if e.Cause != nil {
		causes = append(causes, e.Cause, WrapTaskError(e.Cause))
	}
	if e.Phase == comms.JobCancelled {
		causes = append(causes, ErrCancelled)
	}
	return causes
}
