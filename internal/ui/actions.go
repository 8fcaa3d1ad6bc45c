package ui

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/cascade-run/cascade/comms"
)

// action is what a page asks to be done.
type action struct {
	Reason string   `json:"reason"`
	Tasks  []string `json:"tasks"` // of rerun
}

// mostReason is the longest reason, in bytes.
const mostReason = 1000

func actionOf(r *http.Request) (a action, err error) {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil && !errors.Is(err, io.EOF) {
		return a, badf("the action is not understood: %w", err)
	}
	if len(a.Reason) > mostReason {
		return a, badf("the reason has %d bytes; %d are the most", len(a.Reason), mostReason)
	}
	if a.Reason == "" {
		a.Reason = "by the page"
	} else {
		a.Reason += " (by the page)"
	}
	return a, nil
}

// steer changes the course of a job. The cluster checks the role, and logs it.
func (h *Handler) steer(r *http.Request) (any, error) {
	id, err := jobOf(r)
	if err != nil {
		return nil, err
	}
	verb, known := map[string]comms.SteerAction{"hold": comms.SteerHold, "release": comms.SteerRelease, "cancel": comms.SteerCancel,
		"rerun": comms.SteerRerun, "remove": comms.SteerForget}[r.PathValue("action")]
	if !known {
		return nil, badf("there is no action %q: hold, release, cancel, rerun and remove are those of a job", r.PathValue("action"))
	}
	a, err := actionOf(r)
	if err != nil {
		return nil, err
	}
	if verb != comms.SteerRerun && len(a.Tasks) > 0 {
		return nil, badf("only rerun takes tasks")
	}
	if err := h.cfg.Source.Control(r.Context(), comms.Control{Job: id, Action: verb, Tasks: a.Tasks, Reason: a.Reason}); err != nil {
		return nil, err
	}
	return struct{}{}, nil
}

// drain has a host leave.
func (h *Handler) drain(r *http.Request) (any, error) {
	a, err := actionOf(r)
	if err != nil {
		return nil, err
	}
	if err := h.cfg.Source.Drain(r.Context(), r.PathValue("host"), a.Reason); err != nil {
		return nil, err
	}
	return struct{}{}, nil
}
