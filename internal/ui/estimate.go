package ui

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// estimate is when a job ends: in half of the draws before Expected, in eight of ten between Low and
// High. All are seconds from now.
type estimate struct {
	Low      float64 `json:"low"`
	Expected float64 `json:"expected"`
	High     float64 `json:"high"`
	Plan     float64 `json:"plan"`    // that the plan said at the start, in seconds of the whole job
	Unknown  int     `json:"unknown"` // families of which no task has ended, of those that have tasks to run
}

// draws is how often an end is drawn.
const draws = 200

// doubt is how far the time of a family is from its plan while none of it has ended: the deviation of
// the logarithm.
const doubt = 0.35

// work is a task that has not ended, by the plan.
type work struct {
	family int
	takes  float64 // seconds
	behind float64 // seconds from its end to the end of the job, along the longest way
	ran    float64 // for which it has run
}

// pace is how much longer the tasks of a family take than planned: the logarithm, and how sure that is.
type pace struct {
	mean, deviation float64
	n               int
}

// predict draws ends of a job. In each draw every family is as much slower or faster than its plan as its
// tasks were that have ended, give or take what is not known; the end is no earlier than the longest way of
// what is left, and than what is left divided by how much the plan runs side by side. It is nil when
// there is no plan of what is left, or nothing is left.
func predict(rows []comms.TaskRow, plan []comms.PlanRow, seed uint64) *estimate {
	at := make(map[string]*comms.PlanRow, len(plan))
	e := &estimate{}
	all := 0.0
	for i := range plan {
		p := &plan[i]
		at[p.Task] = p
		e.Plan = max(e.Plan, p.Finish)
		all += p.Finish - p.Start
	}
	families := map[string]int{}
	ratios := [][]float64{}
	var left []work
	for i := range rows {
		r := &rows[i]
		p := at[r.Name]
		if p == nil {
			continue
		}
		f, ok := families[r.Group]
		if !ok {
			f = len(ratios)
			families[r.Group], ratios = f, append(ratios, nil)
		}
		switch takes := p.Finish - p.Start; {
		case r.State == "done" && takes > 0 && r.Seconds > 0:
			ratios[f] = append(ratios[f], math.Log(r.Seconds/takes))
		case unended(r.State):
			w := work{family: f, takes: takes, behind: max(0, p.Rank-takes)}
			if r.State == "running" {
				w.ran = r.Seconds
			}
			left = append(left, w)
		}
	}
	if len(left) == 0 || e.Plan <= 0 {
		return nil
	}
	paces, job := pacesOf(ratios)
	open := map[int]bool{}
	for _, w := range left {
		if !open[w.family] && paces[w.family].n == 0 {
			e.Unknown++
		}
		open[w.family] = true
	}
	ends := drawn(left, paces, job, max(1, all/e.Plan), seed)
	e.Low, e.Expected, e.High = ends[draws/10], ends[draws/2], ends[draws*9/10]
	return e
}

// pacesOf are the paces of families and of all of the job. A family of which few tasks have ended is
// taken to be near the job's.
func pacesOf(ratios [][]float64) ([]pace, pace) {
	job := paceOf(slices.Concat(ratios...), pace{deviation: doubt})
	paces := make([]pace, len(ratios))
	for f, r := range ratios {
		paces[f] = paceOf(r, job)
	}
	return paces, job
}

// prior is how many tasks what is known otherwise counts as.
const prior = 2

func paceOf(ratios []float64, other pace) pace {
	p := pace{n: len(ratios)}
	n := float64(len(ratios))
	for _, r := range ratios {
		p.mean += r
	}
	p.mean = (p.mean + prior*other.mean) / (n + prior)
	squares := prior * doubt * doubt
	for _, r := range ratios {
		squares += (r - p.mean) * (r - p.mean)
	}
	p.deviation = max(0.05, math.Sqrt(squares/(n+prior)))
	return p
}

// drawn are ends, in seconds from now, sorted.
func drawn(left []work, paces []pace, job pace, abreast float64, seed uint64) []float64 {
	random := rand.New(rand.NewPCG(seed, 1))
	ends := make([]float64, draws)
	factors := make([]float64, len(paces))
	for k := range ends {
		shared := random.NormFloat64() // a slow host is slow for all
		for f, p := range paces {
			own := p.deviation / math.Sqrt(float64(1+p.n)) * random.NormFloat64()
			factors[f] = math.Exp(p.mean + own + 0.5*p.deviation*shared)
		}
		rest := math.Exp(job.mean + 0.5*job.deviation*shared)
		longest, sum := 0.0, 0.0
		for _, w := range left {
			takes := w.takes * factors[w.family]
			if takes -= w.ran; takes <= 0 { // it runs for longer than it should: for how much longer grows with that
				takes = w.ran * (1/math.Sqrt(1-random.Float64()) - 1)
			}
			sum += takes
			longest = max(longest, takes+w.behind*rest)
		}
		ends[k] = max(longest, sum/abreast)
	}
	slices.Sort(ends)
	return ends
}

// unended tells whether a task in a state has yet to end.
func unended(state string) bool {
	return !slices.Contains([]string{"done", "failed", "skipped", "cancelled"}, strings.TrimSpace(state))
}

// deadline is the time by which tasks of a family should have ended.
type deadline struct {
	Family   string  `json:"family"`
	At       string  `json:"at"`
	Expected string  `json:"expected"`         // when the last of them ends
	Low      string  `json:"low"`              // no earlier, in nine of ten
	High     string  `json:"high"`             // no later
	Over     float64 `json:"over"`             // seconds from At to Expected; below 0 there is time left
	Missed   bool    `json:"missed,omitempty"` // At is over, and tasks have yet to end
}

// due is when a family should end, against when it does by an estimate of the job's end. behind is how long
// the job goes on at least after the family's last task.
func due(family string, started, now time.Time, after time.Duration, behind float64, e *estimate) deadline {
	at := started.Add(after)
	d := deadline{Family: family, At: at.UTC().Format(time.RFC3339), Missed: now.After(at)}
	if e != nil {
		end := func(left float64) time.Time { return now.Add(time.Duration(max(0, left-behind) * 1e9)) }
		d.Expected, d.Low, d.High = end(e.Expected).UTC().Format(time.RFC3339), end(e.Low).UTC().Format(time.RFC3339), end(e.High).UTC().Format(time.RFC3339)
		d.Over = end(e.Expected).Sub(at).Seconds()
	}
	return d
}
