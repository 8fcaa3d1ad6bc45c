package executor

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// credits is how many elements a generator may publish now.
type credits struct {
	mu      sync.Mutex
	bounded bool
	left    uint64
	more    chan struct{} // not nil while the generator waits
}

// add raises what may be published.
func (c *credits) add(n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left += n
	if c.more != nil && c.left > 0 {
		close(c.more)
		c.more = nil
	}
}

// take spends one credit. Without any it returns what to wait for.
func (c *credits) take() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.bounded {
		return nil
	}
	if c.left > 0 {
		c.left--
		return nil
	}
	if c.more == nil {
		c.more = make(chan struct{})
	}
	return c.more
}

// generate runs a generator and publishes its elements as they come.
func (r *run) generate(in []any) ([]comms.Desc, []comms.StreamEnd, error) {
	const output = 0 // a generator has one
	decl := &r.kind.Outputs[output]
	var skip uint64
	if len(r.Skip) > output {
		skip = r.Skip[output]
	}
	r.spend.mu.Lock()
	r.spend.bounded = decl.Buffer > 0
	r.spend.left += decl.Buffer
	r.spend.mu.Unlock()

	var n uint64
	for v, err := range r.kind.fn.Seq(r.ctx, in) {
		if err != nil {
			return nil, nil, fmt.Errorf("element %d: %w", n, err)
		}
		if err := r.stoppedErr(); err != nil {
			return nil, nil, err
		}
		if decl.Generate == dag.GenerateFixed && n == decl.Count {
			return nil, nil, fmt.Errorf("it generates more than the %d elements of %q that the job declares: correct the count, or declare it open with \"*\"", decl.Count, decl.Name)
		}
		if n >= skip {
			if err := r.publish(output, n, v); err != nil {
				return nil, nil, err
			}
		}
		n++
	}
	if err := errors.Join(r.linkActors(), r.stoppedErr(), r.unchanged()); err != nil {
		return nil, nil, err
	}
	switch {
	case decl.Generate == dag.GenerateFixed && n < decl.Count:
		return nil, nil, fmt.Errorf("it generated %d elements of %q, the job declares %d", n, decl.Name, decl.Count)
	case n < skip:
		return nil, nil, fmt.Errorf("it generated %d elements of %q, an earlier attempt %d or more: a generator must repeat itself", n, decl.Name, skip)
	case decl.Generate == dag.GenerateOpen:
		return nil, []comms.StreamEnd{{Output: output, Count: n}}, nil
	}
	return nil, nil, nil
}

// publish makes one element visible, when its consumers have room for it.
func (r *run) publish(output uint32, element uint64, v any) error {
	if err := r.awaitCredit(); err != nil {
		return err
	}
	r.making.Lock() // a call of another goroutine settles what was sent, and this was not
	defer r.making.Unlock()
	d, err := r.publishable(output, element, v)
	if err != nil {
		return err
	}
	now := time.Now()
	r.exec.out.add(comms.ReportItem{Kind: comms.ReportPublished, Run: r.ID, At: now.UnixNano(), Outputs: []comms.Desc{d}}, now)
	r.exec.out.hurry()
	r.settle(false)
	return nil
}

// awaitCredit holds the generator back while too many of its elements are unconsumed.
func (r *run) awaitCredit() error {
	held := false
	for {
		wait := r.spend.take()
		if wait == nil {
			break
		}
		if !held {
			held = true
			r.report(comms.ReportThrottled)
		}
		select {
		case <-wait:
		case <-r.ctx.Done():
			return r.stoppedErr()
		}
	}
	if held {
		r.report(comms.ReportResumed)
	}
	return nil
}

// report tells the agent something about a run that goes on, at once.
func (r *run) report(kind comms.ReportKind) {
	now := time.Now()
	r.exec.out.add(comms.ReportItem{Kind: kind, Run: r.ID, At: now.UnixNano()}, now)
	r.exec.out.flush()
}
