package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
)

// topics are what pages look at now.
type topics struct {
	mu   sync.Mutex
	open map[string]*topic
}

// topic is one thing that pages look at: its newest state, and whoever waits for a newer one.
type topic struct {
	name    string
	viewers int
	idle    *time.Timer // ends it when no viewer has come back
	end     context.CancelFunc

	mu      sync.Mutex
	version uint64 // of state; 0: there is none yet
	state   []byte // JSON
	kept    any    // what the state was made of, for questions about parts of it; an error: why there is no newer state
	changed chan struct{}
}

// Limits of topics.
const (
	mostTopics = 256             // open at a time, of all pages
	lingers    = 5 * time.Second // a topic without a viewer
)

// look opens a topic, or joins those who look at it; leave ends that.
func (h *Handler) look(name string) (t *topic, leave func(), err error) {
	h.topics.mu.Lock()
	defer h.topics.mu.Unlock()
	t = h.topics.open[name]
	if t == nil {
		poll, err := h.poller(name)
		if err != nil {
			return nil, nil, err
		}
		if len(h.topics.open) >= mostTopics || h.life.Err() != nil {
			return nil, nil, fmt.Errorf("%w: pages look at %d things already: close some", cascade.ErrUnavailable, len(h.topics.open))
		}
		ctx, end := context.WithCancel(h.life)
		t = &topic{name: name, end: end, changed: make(chan struct{})}
		h.topics.open[name] = t
		h.work.Go(func() { poll(ctx, t) })
	}
	t.viewers++
	if t.idle != nil {
		t.idle.Stop()
		t.idle = nil
	}
	return t, sync.OnceFunc(func() { h.leave(t) }), nil
}

// leave ends a topic a while after its last viewer has left.
func (h *Handler) leave(t *topic) {
	h.topics.mu.Lock()
	defer h.topics.mu.Unlock()
	if t.viewers--; t.viewers > 0 {
		return
	}
	t.idle = time.AfterFunc(lingers, func() { h.close(t) })
}

func (h *Handler) close(t *topic) {
	h.topics.mu.Lock()
	defer h.topics.mu.Unlock()
	if t.viewers == 0 {
		t.end()
		if h.topics.open[t.name] == t {
			delete(h.topics.open, t.name)
		}
	}
}

// set makes value the state of a topic.
func (t *topic) set(value, kept any) {
	text, err := json.Marshal(value)
	if err != nil {
		text = fmt.Appendf(nil, `{"error":%q}`, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = kept
	if string(text) == string(t.state) {
		return
	}
	t.version++
	t.state = text
	close(t.changed)
	t.changed = make(chan struct{})
}

// failed tells why there is no newer state.
func (t *topic) failed(err error) { t.set(map[string]string{"error": sentence(err)}, err) }

// newest returns the state, its version, and what is closed when there is a newer one.
func (t *topic) newest() (state []byte, kept any, version uint64, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state, t.kept, t.version, t.changed
}

// first waits for the first state. Its error is also why there is no newer state.
func (t *topic) first(ctx context.Context) (state []byte, kept any, err error) {
	for {
		state, kept, version, changed := t.newest()
		if version > 0 {
			err, _ := kept.(error)
			return state, kept, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// poller returns what keeps the state of a topic new until its context ends.
func (h *Handler) poller(name string) (func(context.Context, *topic), error) {
	what, job, named := strings.Cut(name, ":")
	if !named {
		switch what {
		case "jobs":
			return h.every(2*time.Second, h.openJobs), nil
		case "hosts":
			return h.every(2*time.Second, h.hosts), nil
		case "use":
			return h.every(comms.UseEvery*time.Second, h.use), nil
		case "sessions":
			return h.every(2*time.Second, h.sessions), nil
		}
		return nil, badf("there is no topic %q", name)
	}
	id, err := comms.ParseJobID(job)
	if err != nil {
		return nil, badf("topic %q: this is not the ID of a job", name)
	}
	switch what {
	case "job":
		return func(ctx context.Context, t *topic) { h.watchJob(ctx, t, id) }, nil
	case "calls":
		return h.every(2*time.Second, h.calls(id)), nil
	case "memory":
		return h.every(2*time.Second, h.memory(id)), nil
	case "picture":
		return func(ctx context.Context, t *topic) { h.paint(ctx, t, id) }, nil
	}
	return nil, badf("there is no topic %q", name)
}

// every asks again and again.
func (h *Handler) every(pause time.Duration, ask func(context.Context) (any, error)) func(context.Context, *topic) {
	return func(ctx context.Context, t *topic) {
		for ctx.Err() == nil {
			one, cancel := context.WithTimeout(ctx, askTime)
			began := time.Now()
			value, err := ask(one)
			cancel()
			if err != nil && ctx.Err() == nil {
				t.failed(err)
			} else if err == nil {
				t.set(value, nil)
			}
			rest(ctx, max(pause, budget*time.Since(began)))
		}
	}
}

// budget is how many times as long as an answer took the pause is behind it.
const budget = 50

// rest waits for a time, or for the end of ctx.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// once answers with the state of a topic as it is now, for programs that want no stream.
func (h *Handler) once(r *http.Request) (any, error) {
	t, leave, err := h.look(r.PathValue("topic"))
	if err != nil {
		return nil, err
	}
	defer leave()
	state, _, err := t.first(r.Context())
	return json.RawMessage(state), err
}
