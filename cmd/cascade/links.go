package main

import (
	"fmt"
	"time"

	"github.com/docker/go-units"

	"github.com/cascade-run/cascade/internal/report"
	"github.com/cascade-run/cascade/profiles"
)

// linkLine is a line of the links of profile show.
type linkLine struct {
	From      string `json:"from"`
	To        string `json:"to"`
	Bandwidth string `json:"bandwidth"`
	Latency   string `json:"latency"`
	Flows     uint64 `json:"flows"`
	Mean      string `json:"mean"`
	Stddev    string `json:"stddev"`
	Median    string `json:"median"`
	Small     uint64 `json:"small"`
	Moved     string `json:"moved"`
	Last      string `json:"last"`
}

// printLinks prints the ways between hosts, if any are known, below other lines or alone.
func (a *app) printLinks(links []profiles.LinkEntry, below bool) error {
	if len(links) == 0 {
		return nil
	}
	if below {
		fmt.Fprintln(a.out)
	}
	lines := make([]linkLine, len(links))
	for i := range links {
		e := &links[i]
		lines[i] = linkLine{From: sender(e.From), To: e.To, Bandwidth: profiles.BitsText(e.Bandwidth), Flows: e.Flows, Small: e.Delays, Moved: units.BytesSize(e.Bytes)}
		if e.Latency > 0 {
			lines[i].Latency = report.Seconds(e.Latency)
		}
		if e.Flows > 0 {
			lines[i].Mean, lines[i].Stddev = profiles.BitsText(e.Rate), profiles.BitsText(e.RateDeviation)
		}
		if q := e.Quantiles; q != nil && e.Flows > 0 {
			lines[i].Median = profiles.BitsText(q.Rate[0])
		}
		if e.At > 0 {
			lines[i].Last = time.Unix(e.At, 0).Local().Format(time.DateTime)
		}
	}
	return table(a, lines, "from", "to", "bandwidth", "latency", "flows", "mean", "stddev", "median", "small", "moved", "last")
}

// linkDriftLine is a line of the links of profile diff.
type linkDriftLine struct {
	From      string `json:"from"`
	To        string `json:"to"`
	Change    string `json:"change"`
	Before    string `json:"before"`
	After     string `json:"after"`
	Bandwidth string `json:"bandwidth"`
	Latency   string `json:"latency"`
}

func (a *app) printLinkDrift(links []profiles.LinkDrift, below bool) error {
	if len(links) == 0 {
		return nil
	}
	if below {
		fmt.Fprintln(a.out)
	}
	lines := make([]linkDriftLine, len(links))
	for i, d := range links {
		lines[i] = linkDriftLine{From: sender(d.From), To: d.To, Change: d.Change, Before: profiles.BitsText(d.Before), After: profiles.BitsText(d.After),
			Bandwidth: times(d.Bandwidth), Latency: times(d.Latency)}
	}
	return table(a, lines, "from", "to", "change", "before", "after", "bandwidth", "latency")
}

func sender(name string) string {
	if name == "" {
		return "(several)"
	}
	return name
}

// counted says what a profile file holds.
func counted(f *profiles.File) string {
	text := plural(len(f.Profiles), "profile")
	if len(f.Links) > 0 {
		text += ", " + plural(len(f.Links), "link")
	}
	return text
}
