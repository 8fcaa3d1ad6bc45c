package ui

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Limits of a stream.
const (
	mostAsked  = 16                     // topics of one stream
	least      = 250 * time.Millisecond // between two messages of a topic
	alive      = 10 * time.Second       // between signs of life
	writeLimit = 10 * time.Second       // for which a page may not read
)

// stream sends the states of topics, as server-sent events: the newest of each at once, then when it
// changes. A page that does not read is cut off, and comes back.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request) {
	names := strings.Split(r.URL.Query().Get("topics"), ",")
	if len(names) > mostAsked {
		h.refuse(w, http.StatusBadRequest, fmt.Sprintf("a stream has %d topics at most", mostAsked))
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.life, cancel)()
	var looked []*topic
	for _, name := range names {
		t, leave, err := h.look(name)
		if err != nil {
			h.refuse(w, statusOf(err), sentence(err))
			return
		}
		defer leave()
		looked = append(looked, t)
	}
	h.work.Add(1)
	defer h.work.Done()
	head := w.Header()
	head.Set("Content-Type", "text/event-stream")
	head.Set("X-Accel-Buffering", "no") // of a proxy
	s := &sender{w: w, control: http.NewResponseController(w)}
	if s.send(": hello\n\n") != nil {
		return
	}
	wake := make(chan struct{}, 1)
	for _, t := range looked {
		h.work.Go(func() { notify(ctx, t, wake) })
	}
	sent := make([]uint64, len(looked))
	for ctx.Err() == nil {
		quiet := true
		for i, t := range looked {
			state, _, version, _ := t.newest()
			if version == sent[i] {
				continue
			}
			sent[i], quiet = version, false
			if s.send("event: %s\ndata: %s\n\n", t.name, state) != nil {
				return
			}
		}
		if !quiet {
			rest(ctx, least)
			continue
		}
		timer := time.NewTimer(alive)
		select {
		case <-wake:
		case <-timer.C:
			if s.send(": %d\n\n", h.cfg.Now().Unix()) != nil {
				return
			}
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// notify wakes a stream for each change of a topic.
func notify(ctx context.Context, t *topic, wake chan<- struct{}) {
	for {
		_, _, _, changed := t.newest()
		select { // also for what changed before we had this
		case wake <- struct{}{}:
		default:
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// sender writes to a page that may not read.
type sender struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func (s *sender) send(format string, args ...any) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(writeLimit)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(s.w, format, args...); err != nil {
		return err
	}
	return s.control.Flush()
}
