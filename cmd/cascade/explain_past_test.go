package main

import (
	"strings"
	"testing"

	"github.com/cascade-run/cascade/comms"
)

// A task that starts with an element of a generator names that element, as its story does,
// and not an input that was there long before; of a task that has ended no plan is told.
func TestExplainAgreesWithStory(t *testing.T) {
	h := newHost(t)
	h.write("job.yaml", `job: stream
tasks:
  first: {run: Ramp, with: {n: 3}, out: [values]}
  parts: {run: Parts, with: {n: 3}, generates: {part: "*"}}
  each: {for: {i: "parts.part[*]"}, command: "cat ${in.a} ${in.b} > ${out.y}", in: {a: "parts.part[${i}]", b: first.values}, out: [y]}
`)
	h.start("", "run", "job.yaml", "--cpu", "1").wait()
	for i := range 3 {
		name := "each[" + string(rune('0'+i)) + "]"
		story, explained := h.start("", "story", "last", name).wait(), h.start("", "explain", "last", name).wait()
		cause := ""
		for line := range strings.Lines(story) {
			if f := strings.Fields(line); len(f) > 5 && f[3] == "started" {
				cause = f[4] // DATASET was published
			}
		}
		task, _, _ := strings.Cut(cause, ".")
		_, text, found := strings.Cut(explained, "started  ")
		if text, _, _ = strings.Cut(text, "\n"); !found || task == "" || !strings.Contains(text, "its last input, "+task) {
			t.Errorf("%s started when %q was published, and is explained as\n%s%s", name, cause, explained, story)
		}
		if strings.Contains(explained, "plan") {
			t.Errorf("%s has ended, and is explained as\n%s", name, explained)
		}
	}
}

// When the last attempt before a start published a dataset: with its end, or before.
func TestPublishedAt(t *testing.T) {
	story := []comms.StoryRow{
		{At: "2026-11-20T08:00:01Z", What: "started"},
		{At: "2026-11-20T08:00:02Z", What: "published", Detail: "executor 7; gen.part[1] 8 bytes in memory"},
		{At: "2026-11-20T08:00:03Z", What: "published", Detail: "executor 7; gen.part[12] 8 bytes in memory"},
		{At: "2026-11-20T08:00:04Z", What: "finished", Detail: "executor 7; gen.sum 8 bytes in store; 3 s"},
		{At: "2026-11-20T08:00:09Z", What: "published", Detail: "gen.part[1] 8 bytes in memory"},
	}
	for _, tt := range []struct {
		data, before, at string
		end              bool
	}{
		{"gen.part[1]", "2026-11-20T08:00:05Z", "2026-11-20T08:00:02Z", false},
		{"gen.part[12]", "2026-11-20T08:00:05Z", "2026-11-20T08:00:03Z", false},
		{"gen.part[1]", "2026-11-20T08:00:10Z", "2026-11-20T08:00:09Z", false},
		{"gen.sum", "2026-11-20T08:00:05Z", "2026-11-20T08:00:04Z", true},
		{"gen.part[2]", "2026-11-20T08:00:05Z", "", false},
	} {
		at, end, err := publishedAt(func(yield func(*comms.StoryRow, error) bool) {
			for i := range story {
				if !yield(&story[i], nil) {
					return
				}
			}
		}, tt.data, tt.before)
		if err != nil || at != tt.at || end != tt.end {
			t.Errorf("%s before %s: %q, with the end: %t, %v", tt.data, tt.before, at, end, err)
		}
	}
}

// A task whose agent is lost says what it waits for until it is back, or starts elsewhere.
func TestLossIsExplained(t *testing.T) {
	lost := &comms.StoryRow{At: "2026-11-20T08:00:02Z", What: "agent lost", Agent: "node2", Cause: "connection closed", Detail: "its task restarts after a grace of 30 s"}
	for next, want := range map[string]bool{"": true, "agent back": false, "moved": false, "starts over": false, "started": false, "finished": false, "cancelled": false} {
		told, err := readPast(func(yield func(*comms.StoryRow, error) bool) {
			if yield(&comms.StoryRow{What: "started", Attempt: 1}, nil) && yield(lost, nil) && next != "" {
				yield(&comms.StoryRow{What: next, Attempt: 1}, nil)
			}
		})
		if err != nil || (told.lost != nil) != want {
			t.Errorf("behind %q: %+v, %v", next, told.lost, err)
		}
	}
}

// A task that waits after the loss of its agent says with which agent its attempt was lost, when and how.
func TestLostAttemptIsExplained(t *testing.T) {
	rows := []comms.StoryRow{
		{At: "2026-11-20T08:00:01Z", What: "started", Attempt: 1, Agent: "b"},
		{At: "2026-11-20T08:00:02Z", What: "agent lost", Agent: "b", Cause: "connection closed"},
		{At: "2026-11-20T08:00:03Z", What: "starts over", Cause: "lost with agent b", Lost: []string{"b"}},
	}
	told, err := readPast(func(yield func(*comms.StoryRow, error) bool) {
		for i := range rows {
			if !yield(&rows[i], nil) {
				return
			}
		}
	})
	want := "attempt 1 was lost with agent b at " + atSecond(rows[1].At) + " (connection closed)"
	if err != nil || !told.begun || told.before == nil || told.before.text(1, true) != want {
		t.Errorf("told is %+v, %v: want %q", told, err, want)
	}
}
