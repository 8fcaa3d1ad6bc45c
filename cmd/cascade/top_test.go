package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/cascade-run/cascade/comms"
)

// A user looks at the jobs, chooses one, opens its page, is asked before it is cancelled, and loses
// the cluster for a moment. Names of others are text.
func TestTopScreen(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 1, 30, 0, time.UTC)
	ids := make([]comms.JobID, 14)
	all := topShot{at: at, hosts: []comms.AgentRow{{Name: "h1", State: "ready", Running: 3, CPU: 8, Memory: 16 << 30}, {Name: "h2", State: "away", CPU: 8, Memory: 16 << 30}}}
	for i := range ids {
		ids[i][15] = byte(i + 1)
		all.jobs = append(all.jobs, comms.JobRow{ID: ids[i].String(), Name: fmt.Sprintf("job%d", i), Phase: "running", Tasks: 10, Done: uint64(min(i, 10))})
	}
	all.jobs[1].Name = "\x1b[2Jn\u202eight"
	var did []string
	down := false
	m := &topModel{a: &app{}, width: 72, height: 24,
		act: func(do topAction, of comms.JobID) error {
			did = append(did, do.verb+" "+of.String())
			return nil
		},
		ask: func(of comms.JobID, page bool) topShot {
			if down {
				return topShot{err: errors.New("link to head: connection refused")}
			}
			if page {
				return topShot{at: at.Add(time.Minute), of: of, page: []string{"1m30s  the page of " + of.String()[34:], "  model 1/4 done"}}
			}
			s := all
			if s.of = of; of == (comms.JobID{}) {
				s.of = ids[0]
			}
			s.tasks = []comms.TaskRow{{Name: "task of " + s.of.String()[34:], Agent: "h1", State: "running", Started: "2026-11-20T08:00:50Z"}}
			return s
		}}
	var b strings.Builder
	show := func(what string) { fmt.Fprintf(&b, "== %s\n%s\n", what, m.View().Content) }
	shot := func() { m.Update(m.fetch()()) }
	press := func(keys ...rune) {
		for _, k := range keys {
			text := ""
			if k < 128 && k > ' ' {
				text = string(k)
			}
			if _, cmd := m.Update(tea.KeyPressMsg(tea.Key{Code: k, Text: text})); cmd != nil {
				m.Update(cmd())
			}
		}
	}
	shot()
	show("at first")
	press(tea.KeyDown)
	shot()
	show("the second is chosen")
	press('c')
	show("cancel asks")
	press('n', 'c', 'y')
	show("it is cancelled")
	press(tea.KeyEnter)
	show("enter")
	shot()
	show("its page")
	down = true
	shot()
	show("the cluster is lost")
	down = false
	press(tea.KeyEscape)
	for range 13 {
		press('j')
	}
	shot()
	show("the last, on the second screen of jobs")
	golden(t, "top-screen.golden", b.String())
	if want := "cancel " + ids[1].String(); strings.Join(did, ";") != want {
		t.Errorf("did %q, want %q once", did, want)
	}
	late := topShot{of: ids[0], page: []string{"late"}}
	if m.Update(late); m.shot.page != nil {
		t.Error("a page that came after Esc is shown")
	}
	if _, cmd := m.Update(tea.KeyPressMsg(tea.Key{Code: 'q', Text: "q"})); cmd == nil || cmd() != tea.Quit() {
		t.Error("q does not end it")
	}
}

// after is a reader that is empty, which is known when a channel is closed.
type after <-chan struct{}

func (a after) Read([]byte) (int, error) {
	<-a
	return 0, io.EOF
}

// On a terminal top runs until q; the terminal is left as it was.
func TestTopEnds(t *testing.T) {
	h := newHost(t)
	h.write("job.yaml", "job: one\ntasks: {a: {command: \"true\"}}\n")
	h.start("", "run", "job.yaml").wait()
	c := h.prepare("", "top")
	shown := make(chan struct{})
	c.app.in = io.MultiReader(after(shown), strings.NewReader("q"))
	c.app.terminal = func(io.Writer) bool { return true }
	c.app.environ = append(c.app.environ, "TERM=xterm")
	c.run()
	await(t, &c.out, "no job runs") // a frame is shown
	close(shown)
	c.wait()
	text := c.out.String()
	on, off := strings.Index(text, "\x1b[?1049h"), strings.LastIndex(text, "\x1b[?1049l")
	if on < 0 || off < on {
		t.Errorf("the alternate screen is not left: %q", text)
	}
}
