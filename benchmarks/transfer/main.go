//go:build linux

package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/docker/go-units"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/agent/transfer"
	"github.com/cascade-run/cascade/benchmarks/internal/exit"
	"github.com/cascade-run/cascade/benchmarks/internal/hosts"
	"github.com/cascade-run/cascade/internal/testing/netlab"
)

func main() {
	cascade.Main()
	hosts.Main()
	var o options
	worker := flag.Bool("worker", false, "be the worker of a host (this command starts those itself)")
	only := flag.String("only", "unshaped,shaped,delayed,broadcast,memory,agents,heartbeat", "what to measure, separated by commas")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds of each measurement")
	flag.Int64Var(&o.bytes, "bytes", 1<<30, "size of the dataset")
	flag.Int64Var(&o.rate, "rate", 1_000_000_000, "bits per second of shaped links")
	flag.Int64Var(&o.large, "large", 4<<30, "size of the dataset whose cost in memory is measured")
	flag.IntVar(&o.times, "times", 10, "datasets that move while heartbeats are measured, in each round")
	flag.Uint64Var(&o.tuning.Chunk, "chunk", 0, "bytes of a piece; 0: the default")
	flag.IntVar(&o.tuning.Window, "window", 0, "pieces that are asked for ahead on each connection; 0: the default")
	delays := flag.String("delays", "0s,5ms,20ms", "how long links hold a packet, each in turn, where that is measured")
	connections := flag.String("connections", "1,2,4,8", "between two hosts, each in turn")
	flag.Parse()
	err := errors.New("-rounds, -bytes, -rate, -large, -times and -connections want positive numbers, -delays durations of 0 or more")
	var errs [2]error
	o.delays, errs[0] = each(*delays, time.ParseDuration)
	o.connections, errs[1] = each(*connections, strconv.Atoi)
	switch {
	case *worker:
		err = serve()
	case errors.Join(errs[:]...) != nil:
		err = fmt.Errorf("-delays, -connections: %w", errors.Join(errs[:]...))
	case min(int64(o.rounds), o.bytes, o.rate, o.large, int64(o.times), int64(slices.Min(o.connections))) > 0 && slices.Min(o.delays) >= 0:
		err = o.run(strings.Split(*only, ","))
	}
	exit.On("transfer", err)
}

// each reads what commas separate.
func each[T any](text string, read func(string) (T, error)) (all []T, err error) {
	for part := range strings.SplitSeq(text, ",") {
		v, e := read(part)
		all, err = append(all, v), errors.Join(err, e)
	}
	return all, err
}

type options struct {
	rounds, times      int
	bytes, rate, large int64
	connections        []int
	delays             []time.Duration
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
		"unshaped":  func() error { return o.pairs(netlab.Config{}, o.bytes) },
		"shaped":    func() error { return o.pairs(netlab.Config{Rate: o.rate}, o.bytes/4) },
		"delayed":   o.delayed,
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

// delayed moves a dataset over shaped links that hold each packet for longer and longer.
func (o *options) delayed() error {
	for _, delay := range o.delays {
		if err := o.pairs(netlab.Config{Rate: o.rate, Delay: delay}, o.bytes/4); err != nil {
			return err
		}
	}
	return nil
}

// described says what links are like.
func described(links netlab.Config) string {
	said := "unshaped"
	if links.Rate > 0 {
		said = fmt.Sprintf("shaped to %.3g Gbit/s", float64(links.Rate)/1e9)
	}
	if links.Delay > 0 {
		said += fmt.Sprintf(", %v each way", links.Delay)
	}
	return said
}

// pairs moves a dataset from one host to another.
func (o *options) pairs(between netlab.Config, bytes int64) (err error) {
	between.Hosts = 2
	s, err := open(between)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	links := o.connections
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
	t := newTable(fmt.Sprintf("%s from host to host, %s, median of %d", size(bytes), described(between), o.rounds),
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
		if err := o.broadcastAt(rate, o.bytes/4); err != nil {
			return err
		}
	}
	return nil
}

const receivers = 8

func (o *options) broadcastAt(rate, bytes int64) (err error) {
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
	t := newTable(fmt.Sprintf("%s to many hosts, %s, median of %d", size(bytes), described(netlab.Config{Rate: rate}), o.rounds),
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
