//go:build linux

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/docker/go-units"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/benchmarks/internal/exit"
	"github.com/cascade-run/cascade/benchmarks/internal/hosts"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/profiles"
)

var (
	_ = cascade.Func1("locality_make", produce, "with -> part")
	_ = cascade.Func1("locality_use", consume, "part -> sum")
)

type makeSettings struct{ Size int }

// produce makes a dataset of Size bytes.
func produce(ctx context.Context, s makeSettings) (cascade.Array[uint8], error) {
	a, err := cascade.Alloc[uint8](ctx, s.Size)
	for i := 0; i < len(a.Data); i += 4096 {
		a.Data[i] = 1
	}
	return a, err
}

// consume looks at each page of a dataset.
func consume(_ context.Context, a cascade.Array[uint8]) (int64, error) {
	sum := int64(0)
	for i := 0; i < len(a.Data); i += 4096 {
		sum += int64(a.Data[i])
	}
	return sum, nil
}

func main() {
	cascade.Main()
	hosts.Main()
	var o options
	sizes := flag.String("sizes", "100KB,1MB,10MB,100MB", "sizes of the datasets, separated by commas")
	flag.IntVar(&o.tasks, "tasks", 1000, "tasks of a job, where their datasets fit")
	total := flag.String("total", "1GB", "most bytes of a job's datasets: with larger ones there are fewer tasks")
	flag.Int64Var(&o.rate, "rate", 1_000_000_000, "bits per second of each host's link; 0: as fast as it goes")
	flag.BoolVar(&o.untold, "untold", false, "the controller is not told the bandwidth: it learns that, too, from the round that is thrown away")
	flag.IntVar(&o.rounds, "rounds", 3, "rounds of each measurement, beside one that is thrown away; aware and unaware take turns")
	flag.Uint64Var(&o.seed, "seed", 1, "of what is left to chance")
	flag.StringVar(&o.plot, "plot", "", "file for the plot, .svg or .png; none: no plot")
	flag.Parse()
	err := o.read(*sizes, *total)
	if err == nil {
		err = o.run()
	}
	exit.On("locality", err)
}

type options struct {
	sizes  []int64
	tasks  int
	total  int64
	rate   int64
	untold bool
	rounds int
	seed   uint64
	plot   string
}

func (o *options) read(sizes, total string) (err error) {
	if o.total, err = units.FromHumanSize(total); err != nil {
		return fmt.Errorf("-total %q: %w", total, err)
	}
	for _, text := range strings.Split(sizes, ",") {
		n, err := units.FromHumanSize(text)
		if err != nil || n < 1 || n > o.total {
			return fmt.Errorf("-sizes: %q: want a size of at most -total: %w", text, errors.Join(err))
		}
		o.sizes = append(o.sizes, n)
	}
	if o.tasks < 2 || o.rate < 0 || o.rounds < 1 {
		return errors.New("-tasks wants 2 at least, -rounds 1, -rate no negative number")
	}
	return nil
}

// result is what one size gave.
type result struct {
	size           int64
	tasks          int
	aware, unaware measured
}

type measured struct {
	wait  time.Duration // mean of the tasks: from when its dataset is there to its start
	took  time.Duration // the job
	moved int           // tasks that ran on another host than their dataset was made on
}

func (o *options) run() (err error) {
	c, err := hosts.Open(hosts.Config{Hosts: 2, Rate: o.rate, Untold: o.untold, Spread: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	var all []result
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "dataset\ttasks\taware: wait\tjob\tmoved\tunaware: wait\tjob\tmoved\t")
	for _, size := range o.sizes {
		r := result{size: size, tasks: int(max(2, min(int64(o.tasks), o.total/size)))}
		var aware, unaware []measured
		for range o.rounds + 1 {
			for _, a := range []bool{true, false} {
				m, err := measure(c.Client, o, size, r.tasks, a)
				if err != nil {
					return fmt.Errorf("datasets of %s: %w", units.HumanSize(float64(size)), err)
				}
				if a {
					aware = append(aware, m)
				} else {
					unaware = append(unaware, m)
				}
			}
		}
		r.aware, r.unaware = median(aware[1:]), median(unaware[1:]) // of the first the planner learns
		all = append(all, r)
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%d\t%s\t%s\t%d\t\n", units.HumanSize(float64(size)), r.tasks,
			short(r.aware.wait), short(r.aware.took), r.aware.moved, short(r.unaware.wait), short(r.unaware.took), r.unaware.moved)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if o.untold {
		if err := learnt(c.Client); err != nil {
			return err
		}
	}
	if o.plot == "" {
		return nil
	}
	return draw(o.plot, all)
}

// learnt prints what the controller has measured of the ways between the hosts.
func learnt(c *cascade.Client) error {
	rows, err := cascade.Rows[comms.LinkRow](context.Background(), c, comms.QueryLinks, comms.JobID{}, "")
	if err != nil {
		return err
	}
	for _, r := range rows {
		var l profiles.LinkEntry
		if err := json.Unmarshal([]byte(r.Entry), &l); err != nil {
			return fmt.Errorf("read a link of the answer: %w", err)
		}
		fmt.Printf("learnt from %s to %s: %.3g Mbit/s, mean %.3g of %d flows, latency %.2g ms\n", l.From, l.To, l.Bandwidth*8/1e6, l.Rate*8/1e6, l.Flows, l.Latency*1e3)
	}
	return nil
}

// median returns the job in the middle, by how long it took.
func median(all []measured) measured {
	slices.SortFunc(all, func(a, b measured) int { return cmp.Compare(a.took, b.took) })
	return all[len(all)/2]
}

func short(d time.Duration) string {
	if d < time.Second {
		return strconv.FormatFloat(float64(d.Microseconds())/1000, 'f', 1, 64) + " ms"
	}
	return strconv.FormatFloat(d.Seconds(), 'f', 2, 64) + " s"
}
