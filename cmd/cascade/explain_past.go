package main

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
)

// past is what the story of a task says of it.
type past struct {
	before *restart        // what became of the last attempt that another followed; nil when nothing says so
	begun  bool            // some attempt has begun
	start  *comms.StoryRow // of the last attempt; nil when it has not started
	lost   *comms.StoryRow // the loss of its agent, for which it waits; nil when it does not
}

// restart is what became of an attempt after which there was another.
type restart struct {
	At      string `json:"at"`
	Attempt uint32 `json:"attempt,omitempty"` // 0: the story does not say which
	Done    bool   `json:"done,omitempty"`    // it had ended well; else it ended without result
	Why     string `json:"why"`
	lost    bool   // with its agent, or what it had produced was
}

// readPast reads the story of a task.
func readPast(story iter.Seq2[*comms.StoryRow, error]) (p past, err error) {
	done, again := false, false // the attempt has ended well; it is known what became of it
	for row, err := range story {
		if err != nil {
			return past{}, err
		}
		switch row.What {
		case "started":
			done, again = false, false
			p.begun, p.start, p.lost = true, row, nil
		case "finished":
			done, again = true, false
			p.lost = nil
		case "retried", "starts over":
			p.before = &restart{At: row.At, Attempt: row.Attempt, Done: done, Why: whyOf(row), lost: len(row.Lost) > 0}
			if p.lost != nil && slices.Equal(row.Lost, []string{p.lost.Agent}) {
				p.before.Why += " at " + atSecond(p.lost.At) + " (" + p.lost.Cause + ")"
			}
			done, again = false, true
			p.start, p.lost = nil, nil
		case "gang starts over":
			if again { // with the attempt that ended here
				p.before.At = row.At
				continue
			}
			p.before = &restart{At: row.At, Done: done, Why: whyOf(row)}
			done, again = false, true
			p.start = nil
		case "failed", "skipped", "cancelled", "agent back", "moved":
			p.lost = nil
		case "agent lost":
			p.lost = row
		}
	}
	return p, nil
}

// whyOf is what a row says of its cause: that an attempt ended by itself says nothing.
func whyOf(row *comms.StoryRow) string {
	why := []string{row.Cause, row.Detail}
	return strings.Join(slices.DeleteFunc(why, func(s string) bool { return s == "" || s == "the run" }), "; ")
}

// text says what became of the attempt, that before the last unless it is known which; the last
// itself when none has begun since, as of a task that waits.
func (b *restart) text(last uint32, waits bool) string {
	attempt := cmp.Or(b.Attempt, last-1)
	if waits {
		attempt = cmp.Or(b.Attempt, last)
	}
	switch {
	case b.lost && waits && !b.Done:
		return fmt.Sprintf("attempt %d was %s", attempt, oneLine(b.Why))
	case b.lost && b.Done:
		return fmt.Sprintf("attempt %d was done, and was repeated from %s on: its outputs were %s", attempt, clock(b.At), oneLine(b.Why))
	case b.lost:
		return fmt.Sprintf("attempt %d was %s; it was given out again at %s", attempt, oneLine(b.Why), clock(b.At))
	case b.Done:
		return fmt.Sprintf("attempt %d was done, and was repeated from %s on: %s", attempt, clock(b.At), oneLine(b.Why))
	}
	return fmt.Sprintf("attempt %d ended without result at %s: %s", attempt, clock(b.At), oneLine(b.Why))
}

// cause makes the last input the one that the story names as the cause of the start: an
// element is there before its generator ends, and another input may have ended later than
// what the start waited for.
func (x *explanation) cause(ctx context.Context, client *cascade.Client, job comms.JobID, producers []comms.TaskRow, start *comms.StoryRow) error {
	data, published := strings.CutSuffix(start.Cause, " was published")
	task, ended := strings.CutSuffix(start.Cause, " ended")
	for i := range producers {
		p := &producers[i]
		switch {
		case published && strings.HasPrefix(data, p.Name+"."):
			at, end, err := publishedAt(cascade.EachRow[comms.StoryRow](ctx, client, comms.QueryStory, job, p.Name), data, start.At)
			if err != nil {
				return err
			}
			if x.Last, x.Place = (&waited{Task: p.Name, State: p.State, Agent: p.Agent, Ended: at}), 0; !end {
				x.Last.Data = data
			}
		case ended && task == p.Name:
			x.Last, x.Place = &waited{Task: p.Name, State: p.State, Agent: p.Agent, Ended: endOf(p)}, 0
		default:
			continue
		}
		from, err := time.Parse(time.RFC3339Nano, x.Last.Ended)
		if to, wrong := time.Parse(time.RFC3339Nano, x.Started); err == nil && wrong == nil && to.After(from) {
			x.Place = to.Sub(from).Seconds()
		}
		return nil
	}
	return nil // of no input: the start had another cause
}

// publishedAt finds in the story of a task when its last attempt before a time published a
// dataset, and whether that was its end; "" when the story does not say.
func publishedAt(story iter.Seq2[*comms.StoryRow, error], data, before string) (at string, end bool, err error) {
	for row, err := range story {
		if err != nil {
			return "", false, err
		}
		if (row.What == "published" || row.What == "finished") && !earlier(before, row.At) && strings.Contains("; "+row.Detail, "; "+data+" ") {
			at, end = row.At, row.What == "finished"
		}
	}
	return at, end, nil
}

// endOf is when the last attempt at a task ended; "" when it has not.
func endOf(r *comms.TaskRow) string {
	at, err := time.Parse(time.RFC3339Nano, r.Started)
	if err != nil || open(*r) {
		return ""
	}
	return at.Add(time.Duration(r.Seconds * 1e9)).Format(time.RFC3339Nano)
}
