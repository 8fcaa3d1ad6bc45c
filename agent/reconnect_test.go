package agent

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/cascade-run/cascade/comms"
)

// clocked notes when lines were logged that say that a controller does not answer.
type clocked struct {
	start time.Time
	at    []time.Duration
}

func (c *clocked) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("controller does not answer")) {
		c.at = append(c.at, time.Since(c.start))
	}
	return len(line), nil
}

// An agent whose controller does not answer says so once: its log is not silent, and does
// not fill up.
func TestNoControllerIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var log bytes.Buffer
		a := &Agent{log: zerolog.New(&log).Level(zerolog.InfoLevel), cfg: Config{Controller: "inproc://controller", Inproc: comms.NewInproc()}}
		if err := a.keepController(ctx); err != nil {
			t.Error(err)
		}
		if n := strings.Count(log.String(), "controller does not answer"); n != 1 || !strings.Contains(log.String(), `"address":"inproc://controller"`) {
			t.Errorf("it says %d times that its controller does not answer: %s", n, &log)
		}
	})
}

// TestReconnects has agents lose a controller at one moment, which is away for a while:
// they look for it at times of their own, first often and then at least each two seconds.
func TestReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const agents, away = 50, time.Minute
		ctx, cancel := context.WithTimeout(t.Context(), away)
		defer cancel()
		tries := make([]*clocked, agents)
		for i := range tries {
			tries[i] = &clocked{start: time.Now()}
			a := &Agent{log: zerolog.New(tries[i]), cfg: Config{Controller: "inproc://controller", Inproc: comms.NewInproc()}}
			go func() {
				if err := a.keepController(ctx); err != nil {
					t.Error(err)
				}
			}()
		}
		<-ctx.Done()
		synctest.Wait()
		at := map[time.Duration]int{}
		for i, c := range tries {
			before, bound := time.Duration(0), 10*time.Millisecond
			for k, d := range c.at[1:] {
				if pause := d - before; pause <= 0 || pause > bound {
					t.Errorf("agent %d pauses %v before try %d, at most %v are right", i, pause, k+2, bound)
				}
				before, bound = d, min(2*bound, 2*time.Second)
			}
			at[c.at[len(c.at)-1]]++
		}
		if len(at) < agents/2 {
			t.Errorf("%d agents make their last tries at %d moments", agents, len(at))
		}
	})
}
