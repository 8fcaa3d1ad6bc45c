package controller

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/cascade-run/cascade/controller/core"
)

// hookTime is how long a hook may run.
const hookTime = time.Minute

// warn says that a job is predicted to miss deadlines: in the log, in the audit
// file, and to the hook that the configuration names. A job names no hook: it would
// run with the controller's rights.
func (c *Controller) warn(a core.Warn) {
	c.log.Warn().Stringer("job", a.Job).Str("name", a.Name).Str("why", a.Text).Msg("job is predicted to be late")
	if c.audit.file != nil {
		c.audit.log.Log().Str("what", "late").Stringer("job", a.Job).Str("name", a.Name).Str("owner", a.Owner).Str("outcome", a.Text).Send()
	}
	if len(c.cfg.LateHook) == 0 {
		return
	}
	c.work.Go(func() {
		if err := c.hook(a); err != nil {
			c.log.Error().Err(err).Stringer("job", a.Job).Msg("hook")
		}
	})
}

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
	cmd := exec.CommandContext(ctx, c.cfg.LateHook[0], c.cfg.LateHook[1:]...)
	cmd.Env = append(os.Environ(), "CASCADE_JOB="+a.Job.String(), "CASCADE_JOB_NAME="+a.Name, "CASCADE_OWNER="+a.Owner, "CASCADE_LATE="+a.Text)
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("late hook %s: %w: %.200s", c.cfg.LateHook[0], err, out)
	}
	return nil
}
