//go:build linux

package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/benchmarks/internal/exit"
	"github.com/cascade-run/cascade/benchmarks/internal/hosts"
	"github.com/cascade-run/cascade/benchmarks/scale/model"
)

func main() {
	cascade.Main()
	hosts.Main()
	var o options
	few := flag.String("hosts", "1,2,4", "numbers of hosts to measure; the first must be 1")
	many := flag.String("predict", "1,10,60,100,300,1000", "numbers of hosts to predict")
	flag.IntVar(&o.tasks, "tasks", 200_000, "empty tasks of a host; of 5 ms there are a fiftieth, a tenth of those that tasks call")
	flag.IntVar(&o.rounds, "rounds", 3, "rounds of each measurement, beside one that warms up")
	flag.IntVar(&o.cores, "cores", 32, "cores of each host that is predicted")
	flag.IntVar(&o.shards, "shards", 2, "shards of the store that is predicted")
	flag.StringVar(&o.plot, "plot", "", "file for the plot, .svg or .png; none: no plot")
	flag.Parse()
	var err error
	if o.real, err = numbers(*few); err == nil {
		o.many, err = numbers(*many)
	}
	if err == nil && (o.real[0] != 1 || o.tasks < 1000 || o.rounds < 1) {
		err = errors.New("-hosts must begin with 1, -tasks wants 1000 at least, -rounds 1")
	}
	if err == nil {
		err = o.run()
	}
	exit.On("scale", err)
}

type options struct {
	real, many    []int
	tasks, rounds int
	cores, shards int
	plot          string
}

func numbers(text string) (all []int, err error) {
	for f := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(f)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q: want numbers of hosts, separated by commas: %w", f, errors.Join(err))
		}
		all = append(all, n)
	}
	return all, nil
}

// The work of hosts that are measured. All share the cores of one machine.
const (
	longTask  = 5 * time.Millisecond
	otherTask = time.Millisecond // to which no cost is fitted
	slots     = 8
	drivers   = slots / perDriver
	perDriver = 4 // slots for each task that calls others
)

func (o *options) works() []work {
	return []work{{0, o.tasks, slots, 0}, {longTask, o.tasks / 50, slots, 0}, {otherTask, o.tasks / 20, slots, 0},
		{0, o.tasks / 10, slots, drivers}, {longTask, o.tasks / 50, slots, drivers}}
}

// The works to which costs are fitted.
const fewMessages, manyMessages, called = 0, 1, 3

func (o *options) run() error {
	var all []measured
	for _, n := range o.real {
		for _, w := range o.works() {
			m, err := measure(n, w, o.rounds)
			if err != nil {
				return fmt.Errorf("%d hosts, tasks of %v, %s: %w", n, w.task, way(w.drivers), err)
			}
			all = append(all, m)
		}
	}
	static, err := fit(all[fewMessages], all[manyMessages])
	if err != nil {
		return fmt.Errorf("fit: %w", err)
	}
	calls, err := fitCalls(all[called], static)
	if err != nil {
		return fmt.Errorf("fit of calls: %w", err)
	}
	of := func(drivers int) model.Costs {
		if drivers > 0 {
			return calls
		}
		return static
	}
	for _, d := range []int{0, drivers} {
		c := of(d)
		fmt.Printf("processor time, %s: controller's loop %s, beside it %s, agent %s, executor %s\n",
			way(d), costText(c.Controller), costText(c.Beside), costText(c.Agent), costText(c.Executor))
	}
	if err := check(all, of); err != nil {
		return err
	}
	return o.predict(of)
}

func costText(c model.Cost) string {
	return fmt.Sprintf("%.2f us a message and %.0f ns a task", float64(c.Message.Nanoseconds())/1000, float64(c.Task.Nanoseconds()))
}

// check shows the model of each run beside the run.
func check(all []measured, costs func(drivers int) model.Costs) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\nhosts\ttask\t\tmeasured tasks/s\tpredicted\terror\t\t")
	for i := range all {
		m := &all[i]
		r, err := model.Run(modelOf(m.hosts, m.work, costs(m.drivers)))
		if err != nil {
			return err
		}
		note := ""
		if i == fewMessages || i == manyMessages || i == called {
			note = "fitted to this"
		}
		fmt.Fprintf(w, "%d\t%v\t%s\t%.0f\t%.0f\t%+.0f %%\t%s\t\n", m.hosts, m.task, way(m.drivers), m.rate(), r.Rate, (r.Rate/m.rate()-1)*100, note)
	}
	fmt.Fprintln(w)
	return w.Flush()
}

// point is a prediction.
type point struct {
	task    time.Duration
	drivers int
	res     model.Result
	n       int
}

// name is that of a line of the plot.
func (p *point) name() string { return fmt.Sprintf("%s, %v", way(p.drivers), p.task) }

// ray is what figure 8b of the Ray paper (P. Moritz et al., OSDI 2018) has of empty
// tasks a second on some hosts, as its text says; its tasks call others.
var ray = map[int]float64{60: 1.0e6, 100: 1.8e6}

// predict shows clusters that were not measured.
func (o *options) predict(costs func(drivers int) model.Costs) error {
	var all []point
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "hosts of %d cores\ttask\t\ttasks/s\tof what its cores could do\tmessages of the controller a task\tbusiest\tRay paper\t\n", o.cores)
	for _, d := range []int{0, o.cores / perDriver} {
		for _, task := range []time.Duration{0, longTask} {
			for _, n := range o.many {
				cfg := o.config(n, task, d, costs(d))
				r, err := model.Run(cfg)
				if err != nil {
					return fmt.Errorf("%d hosts, tasks of %v, %s: %w", n, task, way(d), err)
				}
				ideal, paper := "-", ""
				if task > 0 {
					ideal = fmt.Sprintf("%.0f %%", 100*r.Rate*task.Seconds()/float64(n*o.cores))
				} else if rate := ray[n]; rate > 0 {
					paper = fmt.Sprintf("%.0f", rate)
				}
				fmt.Fprintf(w, "%d\t%v\t%s\t%.0f\t%s\t%.3f\t%s %.0f %%\t%s\t\n", n, task, way(d), r.Rate, ideal, float64(r.Controller)/float64(r.Tasks), r.Busiest, 100*r.BusyPart, paper)
				all = append(all, point{task, d, r, n})
			}
		}
	}
	if err := w.Flush(); err != nil || o.plot == "" {
		return err
	}
	return draw(o.plot, o.cores, all)
}

// config is a cluster of hosts of their own. Large ones get less work, in which the
// rate is reached all the same: the model takes longer than they would.
func (o *options) config(n int, task time.Duration, drivers int, costs model.Costs) model.Config {
	costs.Delay, costs.Bandwidth, costs.Sync = 50*time.Microsecond, 1.25e9, time.Millisecond
	cfg := model.Config{Hosts: n, Cores: o.cores, Shards: o.shards, Task: task, Tasks: o.tasks, Drivers: drivers, Costs: costs}
	if task > 0 {
		cfg.Tasks = int(2 * time.Second / task * time.Duration(o.cores)) // two seconds of work
	}
	most := 4_000_000 // of all hosts
	if drivers > 0 {
		most = 200_000
	}
	cfg.Tasks = min(cfg.Tasks, max(most/n, 10*o.cores))
	return cfg
}

// middle returns the run in the middle, by how long it took.
func middle(all []measured) measured {
	slices.SortFunc(all, func(a, b measured) int { return cmp.Compare(a.time, b.time) })
	return all[len(all)/2]
}
