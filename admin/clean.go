package admin

import "github.com/cascade-run/cascade/internal/statedir"

// Cleaned says what Clean removed of one part of a state folder.
type Cleaned struct {
	Part string `json:"part"` // agent, controller or state
	Dir  string `json:"dir"`
	statedir.Cleaned
	Removed bool     `json:"removed,omitempty"` // the state, too
	Kept    []string `json:"kept,omitempty"`    // what Dir holds still, when the state was removed: keys, audit logs, what others put there
}

// CleanOption sets what Clean does besides.
type CleanOption func(*cleanOptions)

type cleanOptions struct{ force, all bool }

// CleanForce ends a living owner and all its tasks first.
func CleanForce() CleanOption { return func(o *cleanOptions) { o.force = true } }

// CleanAll removes the state, too: jobs, logs, results. Keys and audit logs stay.
func CleanAll() CleanOption { return func(o *cleanOptions) { o.all = true } }
