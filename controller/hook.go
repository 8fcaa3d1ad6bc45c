package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/cascade-run/cascade/controller/core"
)

// hookTime is how long a hook may run.
const hookTime = time.Minute

// maxHooks is how many jobs wait for the hook at most: of those that come then it is
// only logged that they are late.
const maxHooks = 64

// warn says that a job is predicted to miss deadlines: in the log, in the audit
// file, and to the hook that the configuration names. A job names no hook: it would
// run with the controller's rights.
func (c *Controller) warn(a core.Warn) {
	c.log.Warn().Stringer("job", a.Job).Str("name", a.Name).Str("why", a.Text).Msg("job is predicted to be late")
	if c.audit.file != nil {
		c.audit.log.Log().Str("what", "late").Stringer("job", a.Job).Str("name", a.Name).Str("tenant", a.Tenant).Str("outcome", a.Text).Send()
	}
	if len(c.cfg.LateHook) == 0 {
		return
	}
	if !c.hooks.put(a, maxHooks) {
		c.log.Error().Stringer("job", a.Job).Int("waiting", maxHooks).Msg("the late hook is not run for this job: too many wait for it")
		return
	}
	c.work.Go(c.runHooks)
}

// runHooks runs the hook for each job that waits, one at a time: there is one
// worker, and others that are started return.
func (c *Controller) runHooks() {
	for {
		a, ok := c.hooks.next()
		if !ok {
			return
		}
		if err := c.hook(a); err != nil {
			c.log.Error().Err(err).Stringer("job", a.Job).Msg("hook")
		}
		select {
		case <-c.quit:
			return // no other goroutine becomes the worker any more
		default:
		}
		c.hooks.leave()
	}
}

// hook runs the hook: a program, or what answers at an http address.
func (c *Controller) hook(a core.Warn) error {
	ctx, cancel := context.WithTimeout(context.Background(), hookTime)
	defer cancel()
	ended := make(chan struct{})
	defer close(ended)
	go func() { // it does not outlive the controller
		select {
		case <-c.quit:
			cancel()
		case <-ended:
		}
	}()
	if at := c.cfg.LateHook[0]; isWeb(at) {
		return post(ctx, at, &a)
	}
	cmd := exec.CommandContext(ctx, c.cfg.LateHook[0], c.cfg.LateHook[1:]...)
	cmd.Env = append(os.Environ(), "CASCADE_JOB="+a.Job.String(), "CASCADE_JOB_NAME="+a.Name, "CASCADE_TENANT="+a.Tenant, "CASCADE_LATE="+a.Text)
	cmd.WaitDelay = time.Second
	out := tail{}
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("late hook %s: %w: %s", c.cfg.LateHook[0], err, out.last)
	}
	return nil
}

func isWeb(hook string) bool {
	return strings.HasPrefix(hook, "http://") || strings.HasPrefix(hook, "https://")
}

// post sends what a program is told by its environment as a JSON object. An answer other
// than 2xx is an error; its text is part of that. Errors name no more of the address than
// its scheme and host: the rest often holds a secret.
func post(ctx context.Context, address string, a *core.Warn) error {
	body, err := json.Marshal(map[string]string{"job": a.Job.String(), "name": a.Name, "tenant": a.Tenant, "late": a.Text})
	if err != nil {
		return fmt.Errorf("late hook: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return errors.New("late hook: its address is no URL")
	}
	who := fmt.Sprintf("late hook %s://%s", req.URL.Scheme, req.URL.Host)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		if whole := (*url.Error)(nil); errors.As(err, &whole) { // it names the address
			err = whole.Err
		}
		return fmt.Errorf("%s: %w", who, err)
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(res.Body, maxTail)) // it only explains
		return fmt.Errorf("%s: it answered %s: %s", who, res.Status, text)
	}
	return nil
}

// tail keeps the end of what is written to it.
type tail struct{ last []byte }

// maxTail is how much of a hook's output is kept.
const maxTail = 4 << 10

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.last = append(t.last, p[max(0, len(p)-maxTail):]...)
	if over := len(t.last) - maxTail; over > 0 {
		t.last = append(t.last[:0], t.last[over:]...)
	}
	return len(p), nil
}

// queue is what waits for one worker. The zero value is empty.
type queue[T any] struct {
	mu      sync.Mutex
	waiting []T
	busy    bool // the worker has one
}

// put adds to a queue that has room.
func (q *queue[T]) put(v T, room int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) >= room {
		return false
	}
	q.waiting = append(q.waiting, v)
	return true
}

// next makes the caller the worker for what has waited longest. It is false when
// there is nothing, or another worker, which looks again when it has done.
func (q *queue[T]) next() (v T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.busy || len(q.waiting) == 0 {
		return v, false
	}
	v, q.waiting, q.busy = q.waiting[0], q.waiting[1:], true
	return v, true
}

// leave ends the turn that next began.
func (q *queue[T]) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy = false
}
