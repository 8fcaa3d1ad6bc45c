package profiles

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// LinkEntry is what is known of the way from one host to another, in a file. Rates
// are bytes a second; means weigh recent flows more; deviations are standard deviations.
type LinkEntry struct {
	From string `json:"from,omitempty"` // the agent that sent; "" for several at once
	To   string `json:"to"`

	Bandwidth float64 `json:"bandwidth"` // to look at: what plans count with; 0 unknown
	Latency   float64 `json:"latency"`   // to look at, in seconds

	Flows         uint64  `json:"flows"` // measurements without a break, of large datasets
	Rate          float64 `json:"rate"`  // their mean
	RateDeviation float64 `json:"rate_deviation,omitempty"`
	Delays        uint64  `json:"delays,omitempty"` // small datasets that came alone
	Delay         float64 `json:"delay,omitempty"`  // mean, in seconds
	Bytes         float64 `json:"bytes,omitempty"`  // measured in all
	At            int64   `json:"at,omitempty"`     // when last, seconds since 1970

	Quantiles *LinkQuantiles `json:"quantiles,omitempty"`       // to look at: they are read from the histograms
	Rates     [][2]float64   `json:"rate_histogram,omitempty"`  // bucket and weight: see Sketch
	Waits     [][2]float64   `json:"delay_histogram,omitempty"` // of seconds
}

// LinkQuantiles are what half, 90 % and 99 % stay below.
type LinkQuantiles struct {
	Rate  [3]float64 `json:"rate"`
	Delay [3]float64 `json:"delay"`
}

// Pair returns the hosts that the entry is about.
func (e *LinkEntry) Pair() Pair { return Pair{e.From, e.To} }

func (e *LinkEntry) check() error {
	switch {
	case strings.ContainsRune(e.From+e.To, 0):
		return errors.New("a name holds a NUL")
	case e.To == "" || e.From == e.To:
		return errors.New("want two hosts; only from may be empty, for several at once")
	case e.Flows == 0 && e.Delays == 0:
		return errors.New("flows and delays are 0: a link has at least one measurement")
	case e.At < 0:
		return fmt.Errorf("at is %d; want seconds since 1970", e.At)
	}
	if err := checkHistogram("rate_histogram", e.Rates); err != nil {
		return err
	}
	if err := checkHistogram("delay_histogram", e.Waits); err != nil {
		return err
	}
	return checkCosts([]cost{{"rate", e.Rate}, {"rate_deviation", e.RateDeviation}, {"delay", e.Delay}, {"bytes", e.Bytes}})
}

// LinkEntryOf is what is known of a pair as an entry of a file.
func LinkEntryOf(p Pair, l *Link) LinkEntry {
	e := LinkEntry{From: p.From, To: p.To, Bandwidth: l.Bandwidth(), Latency: l.Latency(), Flows: l.Flows, Rate: l.Rate, RateDeviation: math.Sqrt(l.Var),
		Delays: l.Delays, Delay: l.Delay, Bytes: l.Bytes, At: l.At, Rates: l.Rates.pairs(), Waits: l.Waits.pairs()}
	if len(e.Rates)+len(e.Waits) > 0 {
		e.Quantiles = &LinkQuantiles{l.Rates.three(), l.Waits.three()}
	}
	return e
}

// Link is the entry as it is kept. The entry must be one that ParseFile returned. One
// without histograms, as a person writes it by hand, stands for its means.
func (e *LinkEntry) Link() *Link {
	l := &Link{Flows: e.Flows, Rate: e.Rate, Var: e.RateDeviation * e.RateDeviation, Delays: e.Delays, Delay: e.Delay,
		Bytes: e.Bytes, At: e.At, Rates: sketchOf(e.Rates), Waits: sketchOf(e.Waits)}
	if len(l.Rates.bins) == 0 && l.Flows > 0 {
		l.Rates.add(l.Rate, linkWindow)
	}
	if len(l.Waits.bins) == 0 && l.Delays > 0 {
		l.Waits.add(l.Delay, linkWindow)
	}
	return l.settle()
}

// LinkDrift is how the way from one host to another has changed. A ratio is the later
// value over the earlier, 0 where one of them is unknown.
type LinkDrift struct {
	From      string  `json:"from,omitempty"`
	To        string  `json:"to"`
	Change    string  `json:"change"` // "drift", "new", "gone"
	Before    float64 `json:"before_bandwidth"`
	After     float64 `json:"after_bandwidth"`
	Bandwidth float64 `json:"bandwidth_ratio"`
	Latency   float64 `json:"latency_ratio"`
}

// DiffLinks returns how links of b differ from those of a, as Diff does of tasks.
func DiffLinks(a, b []LinkEntry) []LinkDrift {
	old := map[Pair]*LinkEntry{}
	for i := range a {
		old[a[i].Pair()] = &a[i]
	}
	var out []LinkDrift
	for i := range b {
		e, now := &b[i], b[i].Link()
		d := LinkDrift{From: e.From, To: e.To, Change: "new", After: now.Bandwidth()}
		if was := old[e.Pair()]; was != nil {
			delete(old, e.Pair())
			d.Change, d.Before = "drift", was.Link().Bandwidth()
			if same(d.After, d.Before) && same(now.Latency(), was.Link().Latency()) {
				continue
			}
			d.Bandwidth, d.Latency = over(d.After, d.Before), over(now.Latency(), was.Link().Latency())
		}
		out = append(out, d)
	}
	for _, e := range old {
		out = append(out, LinkDrift{From: e.From, To: e.To, Change: "gone", Before: e.Link().Bandwidth()})
	}
	slices.SortFunc(out, func(x, y LinkDrift) int {
		return cmp.Or(cmp.Compare(x.Change, y.Change), cmp.Compare(moved(y.Bandwidth), moved(x.Bandwidth)), cmp.Compare(x.From, y.From), cmp.Compare(x.To, y.To))
	})
	return out
}
