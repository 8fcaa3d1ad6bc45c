package ui

import (
	"net/http"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/report"
)

// mostCalls is the most called tasks of which a page shows sums.
const mostCalls = 20_000

// callsState are the called tasks of a job that have ended, by function. Durations are seconds.
type callsState struct {
	Calls     int             `json:"calls"`
	More      bool            `json:"more"` // there are others, which are not in these sums
	Busy      float64         `json:"busy"` // for which at least one ran
	Together  float64         `json:"together"`
	Functions []calledRow     `json:"functions"`
	Newest    []comms.CallRow `json:"newest"`
}

// calledRow sums up the called tasks of a function.
type calledRow struct {
	Function string  `json:"function"`
	Calls    int     `json:"calls"`
	Failed   int     `json:"failed"`
	Tries    int     `json:"more_tries"`
	Total    float64 `json:"total"`
	Median   float64 `json:"median"`
	P95      float64 `json:"p95"`
	Waited   float64 `json:"waited"`
	Where    string  `json:"where"`
	Error    string  `json:"error"`
}

// calls answers with the called tasks of a job or session.
func (h *Handler) calls(r *http.Request) (any, error) {
	id, err := jobOf(r)
	if err != nil {
		return nil, err
	}
	rows, err := rowsOf[comms.CallRow](r.Context(), h.cfg.Source, comms.QueryCalls, id, "", mostCalls+1)
	if err != nil {
		return nil, err
	}
	c := &callsState{More: len(rows) > mostCalls, Functions: []calledRow{}, Newest: []comms.CallRow{}}
	rows = rows[:min(len(rows), mostCalls)]
	if c.Calls = len(rows); c.Calls == 0 {
		return c, nil
	}
	graph, err := graphOf(r.Context(), h.cfg.Source, id)
	if err != nil {
		return nil, err
	}
	run, err := report.NewRun(graph, nil, rows)
	if err != nil {
		return nil, err
	}
	for _, f := range run.Functions() {
		c.Functions = append(c.Functions, calledRow{f.Function, f.Calls, f.Failed, f.Tries, f.Total, f.Median, f.P95, f.Waited, f.Where, clip(f.Error)})
	}
	c.Busy, c.Together = run.Busy()
	for _, row := range slices.Backward(rows[max(0, len(rows)-shownRows):]) {
		row.Error = clip(row.Error)
		c.Newest = append(c.Newest, row)
	}
	return c, nil
}
