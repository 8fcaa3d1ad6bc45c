//go:build linux

package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cascade-run/cascade/agent/transfer"
	"github.com/cascade-run/cascade/internal/testing/netlab"
)

// heartbeats measures round trips on a control link while nothing else happens,
// and while datasets move between the same two processes.
func (o *options) heartbeats() error {
	for _, rate := range []int64{0, o.rate} {
		if err := o.heartbeatsAt(rate); err != nil {
			return err
		}
	}
	return nil
}

// meanwhile is what happens while heartbeats are measured.
type meanwhile struct {
	name   string
	do     func() error
	rounds [][]time.Duration // round trips, sorted
}

func (o *options) heartbeatsAt(rate int64) (err error) {
	s, err := open(netlab.Config{Hosts: 2, Rate: rate})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	bytes, title := o.bytes, "unshaped"
	if rate > 0 {
		bytes, title = o.bytes/8, fmt.Sprintf("shaped to %.3g Gbit/s", float64(rate)/1e9)
	}
	via, err := s.start(variant{tuning: o.tuned(0, 1)})
	if err != nil {
		return err
	}
	var lasts time.Duration // as long as the transfer did
	idle := func() error { time.Sleep(lasts); return nil }
	move := func() error {
		began := time.Now()
		defer func() { lasts = time.Since(began) }()
		return s.moveAgain(via, bytes, o.times)
	}
	total := bytes * int64(o.times)
	all := []*meanwhile{
		{name: "nothing", do: idle},
		{name: fmt.Sprintf("%d x %s", o.times, size(bytes)), do: move},
		{name: fmt.Sprintf("iperf3, %s", size(total)), do: func() error { _, err := iperf(s.lab, 1, total); return err }},
		{name: "nothing, again", do: idle},
	}
	if err := move(); err != nil { // makes links, maps pages, and says how long nothing shall happen
		return err
	}
	for range o.rounds {
		for _, m := range all {
			beats, err := s.beatsWhile(via, m.do)
			if err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
			m.rounds = append(m.rounds, beats)
		}
	}
	t := newTable(fmt.Sprintf("round trips on a control link, one each %v, %s, %d rounds in turn", beatEvery, title, o.rounds),
		"meanwhile", "p50", "p99", "most", "count", "p99, of that with nothing", "least", "most")
	for _, m := range all {
		beats := slices.Concat(m.rounds...)
		slices.Sort(beats)
		r := p99Ratios(m.rounds, all[0].rounds)
		t.row(m.name, part(beats, 50).String(), part(beats, 99).String(), beats[len(beats)-1].String(), fmt.Sprint(len(beats)),
			fmt.Sprintf("%.2f", r[len(r)/2]), fmt.Sprintf("%.2f", r[0]), fmt.Sprintf("%.2f", r[len(r)-1]))
	}
	return t.w.Flush()
}

// part returns the percentile of sorted times.
func part(sorted []time.Duration, percent int) time.Duration {
	return sorted[len(sorted)*percent/100]
}

// p99Ratios returns by how much the p99 of each round differs from that of the
// same round of others, sorted.
func p99Ratios(rounds, of [][]time.Duration) (ratios []float64) {
	for i, r := range rounds {
		ratios = append(ratios, part(r, 99).Seconds()/part(of[i], 99).Seconds())
	}
	slices.Sort(ratios)
	return ratios
}

// beatsWhile returns the round trips from the second host to the first while do runs, sorted.
func (s *site) beatsWhile(via int, do func() error) ([]time.Duration, error) {
	if _, err := s.hosts[1].ask(command{Do: "beat", To: s.hosts[0].control[via]}); err != nil {
		return nil, err
	}
	if err := do(); err != nil {
		return nil, err
	}
	a, err := s.hosts[1].ask(command{Do: "beats"})
	if err == nil && len(a.Beats) == 0 {
		err = errors.New("no heartbeat came back")
	}
	return a.Beats, err
}

// moveAgain moves a dataset some times, without a look at the bytes.
func (s *site) moveAgain(via int, bytes int64, times int) error {
	from, to := s.hosts[0], s.hosts[1]
	if _, err := from.ask(command{Do: "offer", Via: via, Key: 2, Bytes: bytes}); err != nil {
		return err
	}
	for range times {
		c := command{Do: "pull", Via: via, Key: 2, Bytes: bytes, From: []transfer.Source{{Agent: from.name, At: from.at[via]}}}
		if _, err := to.ask(c); err != nil {
			return err
		}
		if _, err := to.ask(command{Do: "drop", Via: via, Key: 2}); err != nil {
			return err
		}
	}
	_, err := from.ask(command{Do: "drop", Via: via, Key: 2})
	return err
}
