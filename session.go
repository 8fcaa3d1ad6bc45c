package cascade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/executor"
	"github.com/cascade-run/cascade/internal/samehost"
)

// Session is this program as a task: it is the root of all that it calls, and can do what
// a task's function can. Its methods may be called from any goroutine.
type Session struct {
	task *executor.Session
	job  *Job
}

// SessionOption sets how a session is opened.
type SessionOption func(*sessionOptions)

type sessionOptions struct {
	name     string
	envs     []dag.Environment
	in       string
	submit   []SubmitOption
	out, err io.Writer
}

// WithSessionName sets the name under which people see the session; the default is the program's.
func WithSessionName(name string) SessionOption {
	return func(o *sessionOptions) { o.name = name }
}

// WithSessionEnvironments declares environments of the session. A call runs in one with the
// option In, and so can what it calls. Their files are sent when the session opens. An
// environment that names no executor of its own (Go, Python, Binary) has the functions of
// this program.
func WithSessionEnvironments(envs ...dag.Environment) SessionOption {
	return func(o *sessionOptions) { o.envs = append(o.envs, envs...) }
}

// WithSessionIn names the environment of calls that name none: one of those of
// WithSessionEnvironments. The session opens when that is built.
func WithSessionIn(environment string) SessionOption {
	return func(o *sessionOptions) { o.in = environment }
}

// WithSessionJob sets options of the job that the session is, such as WithTenant and WithPriority.
func WithSessionJob(opts ...SubmitOption) SessionOption {
	return func(o *sessionOptions) { o.submit = append(o.submit, opts...) }
}

// WithSessionOutput has what called tasks print written to out and err too, as it comes;
// nil drops it. Writing holds up the session. Text may be left out when more comes than is
// written; the log of the session's job has all.
func WithSessionOutput(out, err io.Writer) SessionOption {
	return func(o *sessionOptions) { o.out, o.err = out, err }
}

// Session makes this program a task that calls functions and waits for what they return,
// outside of any graph: give Session.Context to Call. It attaches the program to an agent
// of its host and user. Called functions run in the environment in which the functions of a
// graph would run that this client submits.
//
// A session is a job: it is listed and cancelled as one. It ends with Close, with the
// program, or with its agent, and all calls that have not ended end with it. ctx bounds
// the opening alone.
func (c *Client) Session(ctx context.Context, opts ...SessionOption) (*Session, error) {
	o := sessionOptions{}
	for _, f := range opts {
		f(&o)
	}
	if o.name == "" {
		o.name = filepath.Base(cmp.Or(executable(), "program"))
	}
	s, err := c.session(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("open session %s: %w", o.name, err)
	}
	return s, nil
}

func executable() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	return path
}

func (c *Client) session(ctx context.Context, o sessionOptions) (*Session, error) {
	at, err := c.near(ctx)
	if err != nil {
		return nil, err
	}
	g, err := dag.NewSession(dag.SessionPrefix+o.name, at.Name, o.in, o.envs...)
	if err != nil {
		return nil, err
	}
	j, err := c.Submit(ctx, g, o.submit...)
	if err != nil {
		return nil, err
	}
	opening, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.conn.Go(func(context.Context) { // its environment may not be built, or it is cancelled
		if _, err := j.Wait(opening); err != nil && opening.Err() == nil {
			cancel(err)
		}
	})
	task, err := executor.OpenSession(opening, executor.SessionConfig{Address: at.Sessions, Job: j.id, Log: c.opts.Log, Out: o.out, Err: o.err})
	if err != nil {
		return nil, j.unopened(at.Name, err)
	}
	s := &Session{task, j}
	c.conn.Go(s.accompany)
	return s, nil
}

// near returns an agent of this host that takes sessions.
func (c *Client) near(ctx context.Context) (*comms.AgentRow, error) {
	here := samehost.Resource()
	if here == "" {
		return nil, errors.New("this host cannot be told from others: sessions need Linux")
	}
	rows, err := Rows[comms.AgentRow](ctx, c, comms.QueryAgents, comms.JobID{}, "")
	if err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(a comms.AgentRow) bool {
		_, same := a.Resources[here]
		return !same || a.State != "ready" || a.Sessions == ""
	})
	if len(rows) == 0 {
		return nil, errors.New("no agent of this host is ready: a session is attached to one (start it with cascade-agent, or use Local)")
	}
	least := slices.MinFunc(rows, func(a, b comms.AgentRow) int { return cmp.Compare(a.Jobs, b.Jobs) })
	return &least, nil
}

// endTime bounds the requests by which the job of a session ends that did not open, or is lost.
const endTime = 10 * time.Second

// unopened ends the job of a session that did not open, and finds out why. A session that
// the agent has ended is not cancelled while the agent's reason may be on its way to the
// controller: a job that is cancelled has no other reason.
func (j *Job) unopened(agent string, cause error) error {
	failed := (*JobError)(nil)
	if errors.Is(cause, executor.ErrSessionNotBegun) {
		failed = j.reason()
	}
	cause = fmt.Errorf("attach to agent %s: %w", agent, cause)
	if failed == nil {
		ctx, cancel := context.WithTimeout(context.Background(), endTime)
		defer cancel()
		if err := j.Cancel(ctx, "its program could not be attached"); err != nil && !errors.Is(err, ErrConflict) {
			return errors.Join(cause, err)
		}
		failed = j.reason()
	}
	if failed != nil && failed.Cause != nil {
		return fmt.Errorf("%w: %w", cause, failed)
	}
	return cause
}

// reason waits for the end of the job of a session, and returns how it failed; nil when it has not.
func (j *Job) reason() *JobError {
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	_, err := j.Wait(ctx)
	failed := (*JobError)(nil)
	errors.As(err, &failed)
	return failed
}

// accompany ends the job of a session that is lost: its agent may never be able to.
func (s *Session) accompany(life context.Context) {
	select {
	case <-s.task.Done():
	case <-life.Done():
		return
	}
	if !errors.Is(s.task.Err(), ErrSessionLost) {
		return
	}
	ctx, cancel := context.WithTimeout(life, endTime)
	defer cancel()
	_ = s.job.Cancel(ctx, "its agent has ended") // it has ended, or the next agent ends it
}

// ID names the session. It is that of the job that the session is.
func (s *Session) ID() comms.JobID { return s.job.id }

// Job returns the job that the session is.
func (s *Session) Job() *Job { return s.job }

// Context is that of a task: calls are made with it, or with one derived from it. It ends
// with the session. Its cause is ErrSessionClosed, ErrSessionLost, or why the session was cancelled.
func (s *Session) Context() context.Context { return s.task.Context() }

// Close ends the session, and what it has called and not waited for. It returns when
// all of that has ended, or when ctx ends. The error tells how the session had ended before. Values
// that lie in shared memory are not to be used after Close.
func (s *Session) Close(ctx context.Context) error {
	if err := s.task.Close(ctx); err != nil {
		return fmt.Errorf("close session %s: %w", s.job.id, err)
	}
	if _, err := s.job.Wait(ctx); err != nil {
		return fmt.Errorf("close session %s: %w", s.job.id, err)
	}
	return nil
}
