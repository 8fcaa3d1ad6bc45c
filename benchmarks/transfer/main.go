//go:build linux

package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/docker/go-units"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/agent/transfer"
	"github.com/cascade-run/cascade/benchmarks/internal/exit"
	"github.com/cascade-run/cascade/benchmarks/internal/hosts"
	"github.com/cascade-run/cascade/internal/netlab"
)

func main() {
	cascade.Main()
	hosts.Main()
	var o options
	worker := flag.Bool("worker", false, "be the worker of a host (this command starts those itself)")
	only := flag.String("only", "unshaped,shaped,broadcast,memory,agents,heartbeat", "what to measure, separated by commas")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds of each measurement")
	flag.Int64Var(&o.bytes, "bytes", 1<<30, "size of the dataset")
	flag.Int64Var(&o.rate, "rate", 1_000_000_000, "bits per second of shaped links")
	flag.Int64Var(&o.large, "large", 4<<30, "size of the dataset whose cost in memory is measured")
	flag.IntVar(&o.times, "times", 10, "datasets that move while heartbeats are measured, in each round")
	flag.Uint64Var(&o.tuning.Chunk, "chunk", 0, "bytes of a piece; 0: the default")
	flag.IntVar(&o.tuning.Window, "window", 0, "pieces that are asked for ahead on each connection; 0: the default")
	flag.Parse()
	err := errors.New("-rounds, -bytes, -rate, -large and -times want positive numbers")
	switch {
	case *worker:
		err = serve()
	case min(int64(o.rounds), o.bytes, o.rate, o.large, int64(o.times)) > 0:
		err = o.run(strings.Split(*only, ","))
	}
	exit.On("transfer", err)
}

type options struct {
	rounds, times      int
	bytes, rate, large int64
	tuning             transfer.Tuning
}

// tuned returns what the flags say, with the given fan-out and connections.
func (o *options) tuned(fanout, connections int) transfer.Tuning {
	t := o.tuning
	t.Fanout, t.Connections, t.Stripe = fanout, connections, 1<<20
	return t
}

func (o *options) run(parts []string) error {
	if _, err := exec.LookPath("iperf3"); err != nil {
		return fmt.Errorf("%w: install it (Debian: apt-get install iperf3)", err)
	}
	measures := map[string]func() error{
		"unshaped": func() error { return o.pairs("unshaped", 0, o.bytes) },
		"shaped": func() error {
			return o.pairs(fmt.Sprintf("shaped to %.3g Gbit/s", float64(o.rate)/1e9), o.rate, o.bytes/4)
		},
		"broadcast": o.broadcast,
		"memory":    o.peaks,
		"agents":    o.agents,
		"heartbeat": o.heartbeats,
	}
	for _, p := range parts {
		m := measures[p]
		if m == nil {
			return fmt.Errorf("-only: %q is not known", p)
		}
		if err := m(); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return nil
}

// table prints rows that are aligned.
type table struct{ w *tabwriter.Writer }

func newTable(title string, heads ...string) table {
	fmt.Printf("\n%s\n", title)
	t := table{tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)}
	t.row(heads...)
	return t
}

func (t table) row(cells ...string) { fmt.Fprintln(t.w, strings.Join(cells, "\t")) }

func median[T any](all []T, of func(T) float64) float64 {
	var v []float64
	for _, x := range all {
		v = append(v, of(x))
	}
	slices.Sort(v)
	return v[len(v)/2]
}

func seconds(r run) float64 { return r.seconds }
func cpu(r run) float64     { return r.cpu }

// contender is one row of a table.
type contender struct {
	name  string
	links int
	run   func() (run, error)
	runs  []run
}

// take lets all contenders run in turn, and a first time that does not count: it
// makes links and maps pages.
func (o *options) take(all []*contender) error {
	for round := range o.rounds + 1 {
		for _, c := range all {
			r, err := c.run()
			if err != nil {
				return fmt.Errorf("%s over %d connections: %w", c.name, c.links, err)
			}
			if round > 0 {
				c.runs = append(c.runs, r)
			}
		}
	}
	return nil
}

// pairs moves a dataset from one host to another.
func (o *options) pairs(title string, rate, bytes int64) (err error) {
	s, err := open(netlab.Config{Hosts: 2, Rate: rate})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	links := []int{1, 2, 4, 8}
	var all []*contender
	base := map[int]*contender{}
	for _, n := range links {
		base[n] = &contender{name: "iperf3", links: n, run: func() (run, error) { return iperf(s.lab, n, bytes) }}
		all = append(all, base[n])
	}
	for _, v := range []variant{{name: "plain"}, {name: "plain, no checksums", noSums: true}, {name: "TLS", tls: true}} {
		for _, n := range links {
			v.tuning = o.tuned(0, n)
			via, err := s.start(v)
			if err != nil {
				return err
			}
			all = append(all, &contender{name: v.name, links: n, run: func() (run, error) { return s.move(via, bytes, 1) }})
		}
	}
	if err := o.take(all); err != nil {
		return err
	}
	t := newTable(fmt.Sprintf("%s from host to host, %s, median of %d", size(bytes), title, o.rounds),
		"", "connections", "s", "Gbit/s", "of iperf3", "cpu s")
	for _, c := range all {
		took := median(c.runs, seconds)
		t.row(c.name, fmt.Sprint(c.links), fmt.Sprintf("%.3f", took), fmt.Sprintf("%.2f", float64(bytes)*8e-9/took),
			fmt.Sprintf("%.0f %%", 100*o.ratio(c, base[c.links])), fmt.Sprintf("%.2f", median(c.runs, cpu)))
	}
	return t.w.Flush()
}

// ratio is the median of how much faster c was than base in the same round.
func (o *options) ratio(c, base *contender) float64 {
	rounds := make([]int, o.rounds)
	for i := range rounds {
		rounds[i] = i
	}
	return median(rounds, func(i int) float64 { return base.runs[i].seconds / c.runs[i].seconds })
}

func size(bytes int64) string { return units.BytesSize(float64(bytes)) }

// broadcast moves a dataset from one host to eight others.
func (o *options) broadcast() error {
	for _, rate := range []int64{o.rate, 0} {
		bytes, title := o.bytes/4, "unshaped"
		if rate > 0 {
			title = fmt.Sprintf("shaped to %.3g Gbit/s", float64(rate)/1e9)
		}
		if err := o.broadcastAt(title, rate, bytes); err != nil {
			return err
		}
	}
	return nil
}

const receivers = 8

func (o *options) broadcastAt(title string, rate, bytes int64) (err error) {
	s, err := open(netlab.Config{Hosts: 1 + receivers, Rate: rate})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	base := &contender{name: "iperf3 -P 8, one host to one", links: 8, run: func() (run, error) { return iperf(s.lab, 8, bytes) }}
	all := []*contender{base}
	var one *contender
	for _, fanout := range []int{1, 2, 8} {
		via, err := s.start(variant{tuning: o.tuned(fanout, 1)})
		if err != nil {
			return err
		}
		if fanout == 1 {
			one = &contender{name: "to one host", links: 1, run: func() (run, error) { return s.move(via, bytes, 1) }}
			all = append(all, one)
		}
		all = append(all, &contender{name: fmt.Sprintf("to 8 hosts, each serves %d", fanout), links: receivers,
			run: func() (run, error) { return s.move(via, bytes, receivers) }})
	}
	if err := o.take(all); err != nil {
		return err
	}
	t := newTable(fmt.Sprintf("%s to many hosts, %s, median of %d", size(bytes), title, o.rounds),
		"", "s", "times one", "Gbit/s in sum", "of iperf3 -P 8", "cpu s")
	for _, c := range all {
		took, sum := median(c.runs, seconds), float64(bytes)*8e-9
		if c.links == receivers && c != base {
			sum *= receivers
		}
		t.row(c.name, fmt.Sprintf("%.3f", took), fmt.Sprintf("%.2f", 1/o.ratio(c, one)), fmt.Sprintf("%.2f", sum/took),
			fmt.Sprintf("%.0f %%", 100*sum/took/(float64(bytes)*8e-9/median(base.runs, seconds))), fmt.Sprintf("%.2f", median(c.runs, cpu)))
	}
	return t.w.Flush()
}

// peaks moves one large dataset and tells what both ends took beside it.
func (o *options) peaks() (err error) {
	s, err := open(netlab.Config{Hosts: 2})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	t := newTable(fmt.Sprintf("private memory (RssAnon) while %s move", size(o.large)), "", "before", "most, sender", "most, receiver")
	for _, v := range []variant{{name: "plain, 1 connection", tuning: o.tuned(0, 1)}, {name: "plain, 8 connections", tuning: o.tuned(0, 8)},
		{name: "TLS, 8 connections", tls: true, tuning: o.tuned(0, 8)}} {
		via, err := s.start(v)
		if err != nil {
			return err
		}
		before, err := s.peak()
		if err != nil {
			return err
		}
		if _, err := s.move(via, o.large, 1); err != nil {
			return err
		}
		most, err := s.peak()
		if err != nil {
			return err
		}
		t.row(v.name, size(max(before[0], before[1])), size(most[0]), size(most[1]))
	}
	return t.w.Flush()
}

// peak returns the highest private memory of each host since it was asked last.
func (s *site) peak() (out []int64, err error) {
	time.Sleep(100 * time.Millisecond) // some looks at it
	for _, h := range s.hosts {
		a, err := h.ask(command{Do: "peak"})
		if err != nil {
			return nil, err
		}
		out = append(out, a.Peak)
	}
	return out, nil
}
