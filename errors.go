package cascade

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cascade-run/cascade/comms"
)

// Errors of requests, for errors.Is.
var (
	ErrBadRequest  = errors.New("bad request")
	ErrNotFound    = errors.New("not found")
	ErrConflict    = errors.New("conflict")
	ErrUnavailable = errors.New("unavailable")
	ErrLost        = errors.New("data lost")
	ErrStoreFull   = errors.New("store full")
	ErrInternal    = errors.New("internal error")
	ErrClosed      = errors.New("client is closed")
	ErrCancelled   = errors.New("job cancelled")
	ErrDenied      = errors.New("not permitted") // by the role of our certificate, or for want of one
)

// TaskError is the error of one attempt at a task: what went wrong, in which
// task and attempt, on which agent. A failed job's error wraps one.
type TaskError = comms.TaskError

// replyError turns a refusal into an error that errors.Is recognises.
func replyError(r *comms.Reply) error {
	sentinels := map[comms.Code]error{
		comms.CodeBadRequest:  ErrBadRequest,
		comms.CodeNotFound:    ErrNotFound,
		comms.CodeConflict:    ErrConflict,
		comms.CodeUnavailable: ErrUnavailable,
		comms.CodeLost:        ErrLost,
		comms.CodeMemory:      ErrStoreFull,
		comms.CodeDenied:      ErrDenied,
	}
	if r.Code == comms.CodeOK {
		return nil
	}
	sentinel, ok := sentinels[r.Code]
	if !ok {
		sentinel = ErrInternal
	}
	if r.Message == "" {
		return sentinel
	}
	if text, ok := strings.CutPrefix(r.Message, sentinel.Error()+": "); ok {
		return fmt.Errorf("%w: %s", sentinel, text)
	}
	return fmt.Errorf("%w: %s", sentinel, r.Message)
}

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
