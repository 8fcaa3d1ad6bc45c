package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/client"
	"github.com/cascade-run/cascade/internal/report"
)

// references asks agents what they keep of a job, or of all. An agent that cannot be asked is noted.
func (a *app) references(ctx context.Context, cl *cascade.Client, job comms.JobID) ([]*comms.ReferenceRow, error) {
	agents, err := cascade.Rows[comms.AgentRow](ctx, cl, comms.QueryAgents, comms.JobID{}, "")
	if err != nil {
		return nil, err
	}
	var rows []*comms.ReferenceRow
	for i := range agents {
		g := &agents[i]
		if a.alone || a.list.host != "" && g.Name != a.list.host || g.State == "left" {
			continue // no agent runs that could be asked
		}
		got, err := client.AgentRows[comms.ReferenceRow](ctx, cl.Conn(), g.Name, g.Addresses, comms.QueryReferences, job)
		rows = append(rows, got...)
		if err == nil {
			continue
		}
		if ctx.Err() != nil || g.State == "ready" && !errors.Is(err, cascade.ErrUnavailable) {
			return nil, err
		}
		a.note("agent %s (%s) was not asked: %v", g.Name, g.State, err)
	}
	return rows, nil
}

// openCall is a called task that has not ended. Durations are seconds.
type openCall struct {
	Name     string  `json:"name"`
	Function string  `json:"function"`
	State    string  `json:"state"`
	Agent    string  `json:"agent,omitempty"` // that runs it, or is about to
	Waits    string  `json:"waits_for,omitempty"`
	Age      float64 `json:"age_seconds"` // since it was called
	Ran      float64 `json:"running_seconds,omitempty"`
}

// openCalls are the called tasks of a job that have not ended, those called first before others.
func (a *app) openCalls(ctx context.Context, cl *cascade.Client, job comms.JobID) ([]openCall, error) {
	rows, err := a.references(ctx, cl, job)
	if err != nil {
		return nil, err
	}
	return openOf(rows), nil
}

// openOf finds the calls that have not ended. One that another agent runs has a row there, too, which
// tells more than that of its owner.
func openOf(rows []*comms.ReferenceRow) []openCall {
	at := map[string]int{}
	calls := []openCall{}
	for _, r := range rows {
		if r.Kind != "call" || slices.Contains(endStates, r.State) {
			continue
		}
		c := openCall{r.Name, r.Function, r.State, r.Host, r.Waits, r.Age, r.Ran}
		i, known := at[r.Name]
		switch {
		case !known:
			at[r.Name] = len(calls)
			calls = append(calls, c)
		case calls[i].State == "away":
			c.Age = max(c.Age, calls[i].Age)
			calls[i] = c
		default:
			calls[i].Age = max(c.Age, calls[i].Age)
		}
	}
	slices.SortStableFunc(calls, func(a, b openCall) int { return cmp.Compare(b.Age, a.Age) })
	return calls
}

// does says where a call runs, or what it waits for.
func (c *openCall) does() string {
	switch {
	case c.Waits != "" && c.Agent != "":
		return fmt.Sprintf("on %s, waits for %s", c.Agent, c.Waits)
	case c.Waits != "":
		return "waits for " + c.Waits
	case c.Agent != "" && c.State == "running":
		return "runs on " + c.Agent
	case c.Agent != "":
		return "was given to " + c.Agent
	}
	return c.State // of an older agent
}

// printOpen sums calls that have not ended by what they do, and names the one of each that was called first.
func (a *app) printOpen(calls []openCall) {
	type group struct {
		n     int
		does  string
		first *openCall
	}
	var groups []*group
	by := map[string]*group{}
	for i := range calls {
		does := calls[i].does()
		g := by[does]
		if g == nil {
			g = &group{does: does, first: &calls[i]}
			by[does], groups = g, append(groups, g)
		}
		g.n++
	}
	slices.SortStableFunc(groups, func(a, b *group) int { return cmp.Compare(b.n, a.n) })
	for k, g := range groups {
		if k == explainNames {
			a.fact("not ended", "others in %d more ways; --json has all", len(groups)-k)
			break
		}
		more := ""
		if g.n > 1 {
			more = fmt.Sprintf(" and %d more", g.n-1)
		}
		a.fact("not ended", "%s%s: %s; called %s ago", g.first.Name, more, g.does, report.Seconds(g.first.Age))
	}
}

// explainOpen explains a called task that has not ended.
func (a *app) explainOpen(c *openCall) error {
	if a.json {
		return a.printJSON(c)
	}
	fmt.Fprintf(a.out, "%s: %s\n", c.Name, c.State)
	a.fact("function", "%s, called %s ago", c.Function, report.Seconds(c.Age))
	switch {
	case c.State == "running":
		a.fact("runs on", "agent %s, for %s", c.Agent, report.Seconds(c.Ran))
	case c.Agent != "":
		a.fact("place", "agent %s", c.Agent)
	}
	if c.Waits != "" {
		a.fact("waits for", "%s", c.Waits)
	}
	return nil
}
