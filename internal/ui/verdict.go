package ui

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// verdict is how a job stands in one word, why, and what can be done: what a person who is called at night
// reads first.
type verdict struct {
	Kind    string   `json:"kind"` // done, failed, cancelled, late, held, waiting or running
	Because []string `json:"because"`
	Do      []advice `json:"do"`
}

// advice is something to do: a sentence, and the words behind cascade that do it, or that tell more.
type advice struct {
	Text  string   `json:"text"`
	Words []string `json:"words,omitempty"`
}

// slowBy is how many times as long as its family a task runs that is called slow, and a second more.
const slowBy = 1.5

// judge says how a job stands.
func judge(s *sight, p *picture) verdict {
	v := verdict{Kind: "running", Because: []string{}, Do: []advice{}}
	id := s.progress.Job.String()
	switch s.progress.Phase {
	case comms.JobDone:
		v.Kind = "done"
	case comms.JobFailed:
		v.Kind = "failed"
	case comms.JobCancelled:
		v.Kind = "cancelled"
	case comms.JobHeld:
		v.Kind = "held"
		v.because("It is on hold: nothing more of it starts until it is released.")
		v.do("Release it", "release", id)
	case comms.JobQueued:
		v.Kind = "waiting"
	}
	late := s.progress.Late != ""
	for _, d := range p.Deadlines {
		late = late || d.Missed || d.Over > 0
	}
	if late && !s.progress.Phase.Final() && v.Kind != "held" {
		v.Kind = "late"
	}
	if !s.progress.Phase.Final() { // first what it waits for, then what did not go well
		v.waits(s)
		v.slow(p, id)
		v.losses(p)
		if len(v.Because) == 0 && late {
			v.lost(s, p, id)
		}
	}
	v.failures(p, id)
	return v
}

func (v *verdict) because(format string, args ...any) {
	v.Because = append(v.Because, fmt.Sprintf(format, args...))
}

func (v *verdict) do(text string, words ...string) { v.Do = append(v.Do, advice{text, words}) }

// failures names the first cause, and how to look into it.
func (v *verdict) failures(p *picture, id string) {
	if len(p.Causes) == 0 {
		return
	}
	c := p.Causes[0]
	for _, other := range p.Causes[1:] { // the one that came first
		if other.First != "" && other.First < c.First {
			c = other
		}
	}
	line, _, _ := strings.Cut(strings.TrimSpace(c.Message), "\n")
	if c.Count > 1 {
		v.because("%s and %d more of %s failed: %s", c.Task, c.Count-1, c.Family, line)
	} else {
		v.because("%s failed on %s: %s", c.Task, c.Host, line)
	}
	v.do("Read what it wrote", "logs", id, c.Task)
	v.do("Run it again here, with its own inputs", "replay", id, "--task", c.Task, "--debug")
	if v.Kind == "failed" || v.Kind == "cancelled" {
		v.do("When the cause is gone, run what failed again", "rerun", id)
	}
}

// waits says what nothing runs for.
func (v *verdict) waits(s *sight) {
	if w := s.progress.Waits; w != "" {
		v.because("It waits: %s.", strings.TrimRight(w, "."))
	}
	ready := false
	for i := range s.hosts {
		ready = ready || s.hosts[i].State == "ready"
	}
	if !ready && s.alone {
		v.because("Nothing serves this state now: the job was cut off when its command ended, and goes on with the next run.")
	} else if !ready {
		v.because("No host is there that could run its tasks.")
		v.do("Start an agent on a host: cascade-agent --join ADDRESS --token TOKEN")
	}
}

// slow names the task on the way to the end that takes longer than it should.
func (v *verdict) slow(p *picture, id string) {
	on := map[string]bool{}
	for _, n := range p.Next {
		on[n.Task] = true
	}
	for _, t := range p.Slow {
		if t.Usual <= 0 || t.Seconds < slowBy*t.Usual+1 || len(p.Next) > 0 && !on[t.Task] {
			continue
		}
		v.because("%s runs on %s for %s; tasks of %s usually take %s.", t.Task, t.Host, span(t.Seconds), t.Family, span(t.Usual))
		v.do("See why it runs there and what it waited for", "explain", id, t.Task)
		v.do("Follow what it writes", "logs", id, t.Task, "--follow")
		return
	}
}

func (v *verdict) losses(p *picture) {
	for i := range p.Losses {
		l := &p.Losses[i]
		v.because("Host %s was lost (%s) with %d tasks that ran there: %s.", l.Agent, l.Why, l.Running, strings.TrimRight(l.Then, "."))
	}
}

// lost says what became of the time when nothing else explains it.
func (v *verdict) lost(s *sight, p *picture, id string) {
	if p.Path != nil && p.Path.Waited > p.Path.Ran/4 {
		v.because("Tasks on its critical path waited %s for a place, and ran for %s.", span(p.Path.Waited), span(p.Path.Ran))
	} else if p.End != nil && p.End.Plan > 0 {
		took := s.now.Sub(time.Unix(0, s.progress.Started)).Seconds()
		v.because("It will take %s in all; the plan is %s.", span(took+p.End.Expected), span(p.End.Plan))
	}
	v.do("See what its end waits for", "explain", id)
}

// span is a duration in seconds for people, as the page says it: 3 min 12 s.
func span(s float64) string {
	switch {
	case s < 1:
		return fmt.Sprintf("%.3g ms", s*1e3)
	case s < 9.95:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", s), ".0") + " s"
	case s < 59.5:
		return fmt.Sprintf("%.0f s", s)
	}
	n := int(math.Round(s))
	for _, u := range []struct {
		of, then    int
		name, below string
	}{{86400, 3600, "d", "h"}, {3600, 60, "h", "min"}, {60, 1, "min", "s"}} {
		if n < u.of {
			continue
		}
		text := fmt.Sprintf("%d %s", n/u.of, u.name)
		if rest := n % u.of / u.then; rest > 0 {
			text += fmt.Sprintf(" %d %s", rest, u.below)
		}
		return text
	}
	return "0 s"
}
