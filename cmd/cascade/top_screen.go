package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/report"
	"github.com/cascade-run/cascade/internal/screen"
)

// topAction is what a key does with the chosen job.
type topAction struct {
	key, verb, said string
	do              func(ctx context.Context, j *cascade.Job) error
}

var topActions = []topAction{
	{"h", "hold", "held", func(ctx context.Context, j *cascade.Job) error { return j.Hold(ctx, "held by the user") }},
	{"r", "release", "released", func(ctx context.Context, j *cascade.Job) error { return j.Release(ctx) }},
	{"c", "cancel", "cancelled", func(ctx context.Context, j *cascade.Job) error { return j.Cancel(ctx, "cancelled by the user") }},
}

// topModel is the state of top on a terminal. It asks for nothing itself: ask and act are
// run beside it, and what they bring is a message.
type topModel struct {
	a             *app
	ask           func(of comms.JobID, page bool) topShot
	act           func(do topAction, of comms.JobID) error
	over          <-chan struct{} // top has ended
	width, height int

	shot   topShot
	chosen comms.JobID
	page   bool       // of the chosen job
	asked  *topAction // that waits for a yes
	note   string
}

// Messages of the model beside those of the terminal.
type (
	topTick struct{}
	topDone struct {
		text string
		err  error
	}
)

// tick is the next moment, unless top ends before.
func (m *topModel) tick() tea.Msg {
	next := time.NewTimer(topEvery)
	defer next.Stop()
	select {
	case <-next.C:
	case <-m.over:
	}
	return topTick{}
}

func (m *topModel) fetch() tea.Cmd {
	of, page := m.chosen, m.page
	return func() tea.Msg { return m.ask(of, page) }
}

// Init asks for the first shot. Each shot asks for the next, so that one is on its way at a time.
func (m *topModel) Init() tea.Cmd { return m.fetch() }

// Update changes what is shown by a key, a shot, or the end of an action.
func (m *topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case topShot:
		m.take(msg)
		return m, m.tick
	case topTick:
		return m, m.fetch()
	case topDone:
		if m.note = msg.text; msg.err != nil {
			m.note = oneLine(msg.err.Error())
		}
	case tea.KeyPressMsg:
		return m, m.press(msg.String())
	}
	return m, nil
}

// take shows a shot; one that was asked for before a key was pressed is late, and left out.
func (m *topModel) take(shot topShot) {
	switch {
	case shot.err != nil:
		m.shot.err = shot.err
	case m.page != (shot.page != nil):
	case m.page:
		m.shot.page, m.shot.at, m.shot.err = shot.page, shot.at, nil
	default:
		m.shot = shot
		m.chosen = shot.of
	}
}

func (m *topModel) press(key string) tea.Cmd {
	if asked := m.asked; asked != nil {
		if m.asked, m.note = nil, ""; key != "y" {
			return nil
		}
		of, name := m.chosen, m.nameOf(m.chosen)
		return func() tea.Msg {
			return topDone{asked.said + " " + name, m.act(*asked, of)}
		}
	}
	switch key {
	case "q", "ctrl+c":
		return tea.Quit
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "enter", "right":
		m.page = m.chosen != comms.JobID{}
	case "esc", "left", "backspace":
		m.page, m.shot.page = false, nil
	}
	for i := range topActions {
		if (m.chosen != comms.JobID{}) && topActions[i].key == key {
			m.asked = &topActions[i]
			m.note = fmt.Sprintf("%s job %s? y does so, any other key does not", m.asked.verb, m.nameOf(m.chosen))
		}
	}
	return nil
}

// move chooses another job.
func (m *topModel) move(by int) {
	if n := len(m.shot.jobs); n > 0 && !m.page {
		i := slices.IndexFunc(m.shot.jobs, func(j comms.JobRow) bool { return j.ID == m.chosen.String() })
		if id, err := comms.ParseJobID(m.shot.jobs[min(max(i+by, 0), n-1)].ID); err == nil {
			m.chosen, m.shot.tasks = id, nil
		}
	}
}

func (m *topModel) nameOf(of comms.JobID) string {
	for i := range m.shot.jobs {
		if m.shot.jobs[i].ID == of.String() {
			return m.shot.jobs[i].Name
		}
	}
	return of.String()
}

// View is the whole terminal, with a line of keys at its foot.
func (m *topModel) View() tea.View {
	lines := m.lines()
	if m.page {
		lines = append([]string{styleText(styleBold, m.shot.at.Format(time.TimeOnly)), ""}, m.shot.page...)
		if m.shot.page == nil {
			lines = append(lines, "asking for job "+m.nameOf(m.chosen))
		}
	}
	foot := "up, down choose  enter shows  h hold  r release  c cancel  q end"
	if m.page {
		foot = "esc returns  h hold  r release  c cancel  q end"
	}
	var below []string
	if m.shot.err != nil {
		below = append(below, styleText(styleRed, oneLine(m.shot.err.Error())))
	}
	if m.note != "" {
		below = append(below, styleText(styleYellow, m.note))
	}
	below = append(below, styleText(styleDim, foot))
	if m.height > 0 {
		lines = lines[:min(len(lines), max(m.height-len(below)-1, 0))]
	}
	var b strings.Builder
	for _, line := range append(append(lines, ""), below...) {
		style, text := splitStyle(line)
		r := []rune(screen.Line(text))
		if m.width > 0 {
			r = r[:min(len(r), m.width)]
		}
		b.WriteString(m.a.styled(m.a.raw.out, style, string(r)) + "\n")
	}
	v := tea.NewView(strings.TrimSuffix(b.String(), "\n"))
	v.AltScreen = true
	return v
}

// lines are hosts, jobs, and the tasks of the chosen job.
func (m *topModel) lines() (lines []string) {
	hosts, jobs := m.shot.hosts, m.shot.jobs
	running := uint64(0)
	for i := range hosts {
		running += hosts[i].Running
	}
	lines = append(lines, styleText(styleBold, fmt.Sprintf("%s  %s, %s that have not ended, %s running", m.shot.at.Format(time.TimeOnly), plural(len(hosts), "host"), plural(len(jobs), "job"), plural(int(running), "task"))))
	var grid [][]string
	for i := range hosts[:min(len(hosts), topHosts)] {
		h := &hosts[i]
		grid = append(grid, []string{h.Name, h.State, fmt.Sprintf("%d running", h.Running), coreText(h.CPU), size(uint64(h.Memory))})
	}
	lines = append(lines, aligned(grid)...)
	if n := len(hosts) - topHosts; n > 0 {
		lines = append(lines, fmt.Sprintf("  and %d more", n))
	}
	if len(jobs) == 0 {
		return append(lines, "", "  no job runs")
	}
	// A page of jobs, with the chosen one on it.
	chosen := max(slices.IndexFunc(jobs, func(j comms.JobRow) bool { return j.ID == m.chosen.String() }), 0)
	first := chosen / topJobs * topJobs
	grid = nil
	for i := first; i < min(first+topJobs, len(jobs)); i++ {
		j := &jobs[i]
		grid = append(grid, []string{j.Name, j.Phase, bar(j.Done, j.Tasks, 20), fmt.Sprintf("%d/%d done", j.Done, j.Tasks), j.Waits})
	}
	rows := aligned(grid)
	if m.ask != nil { // on a terminal
		rows[chosen-first] = strings.Replace(rows[chosen-first], "  ", "> ", 1)
	}
	lines = append(append(lines, ""), rows...)
	if n := len(jobs) - len(rows); n > 0 {
		lines = append(lines, fmt.Sprintf("  and %d more", n))
	}
	grid = nil
	for i := range m.shot.tasks {
		t := m.shot.tasks[i]
		soFar(&t, m.shot.at)
		grid = append(grid, []string{t.Name, "on " + t.Agent, "for " + report.Seconds(t.Seconds)})
	}
	return append(append(lines, ""), aligned(grid)...)
}

// topScreen shows top on a terminal until the user ends it.
func (a *app) topScreen(ctx context.Context, s *topSource) error {
	m := &topModel{a: a, ask: func(of comms.JobID, page bool) topShot { return s.shot(ctx, of, page) },
		act: func(do topAction, of comms.JobID) error { return do.do(ctx, s.client.Job(of)) }}
	over := make(chan struct{})
	m.over = over
	defer close(over)
	to := a.raw.out // the library asks the file for its size
	if o, ok := to.(*output); ok {
		to = o.Writer
	}
	width, height := terminalSize(to)
	p := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(a.in), tea.WithOutput(to), tea.WithWindowSize(width, height), tea.WithEnvironment(a.environ), tea.WithoutSignalHandler())
	if _, err := p.Run(); err != nil && ctx.Err() == nil && !errors.Is(err, tea.ErrInterrupted) {
		return fmt.Errorf("show the screen: %w", err)
	}
	return context.Cause(ctx)
}
