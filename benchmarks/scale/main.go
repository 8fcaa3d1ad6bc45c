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
	many := flag.String("predict", "1,3,10,30,100,300,1000", "numbers of hosts to predict")
	flag.IntVar(&o.tasks, "tasks", 200_000, "empty tasks of a host; of 5 ms there are a fiftieth")
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
)

func (o *options) works() []work {
	return []work{{0, o.tasks, slots}, {longTask, o.tasks / 50, slots}, {otherTask, o.tasks / 20, slots}}
}

func (o *options) run() error {
	var all []measured
	for _, n := range o.real {
		for _, w := range o.works() {
			m, err := measure(n, w, o.rounds)
			if err != nil {
				return fmt.Errorf("%d hosts, tasks of %v: %w", n, w.task, err)
			}
			all = append(all, m)
		}
	}
	costs, err := fit(all[0], all[1])
	if err != nil {
		return fmt.Errorf("fit: %w", err)
	}
	fmt.Printf("processor time: controller's loop %s, beside it %s, agent %s, executor %s\n\n",
		costText(costs.Controller), costText(costs.Beside), costText(costs.Agent), costText(costs.Executor))
	if err := check(all, costs); err != nil {
		return err
	}
	return o.predict(costs)
}

func costText(c model.Cost) string {
	return fmt.Sprintf("%.2f us a message and %.0f ns a task", float64(c.Message.Nanoseconds())/1000, float64(c.Task.Nanoseconds()))
}

// check shows the model of each run beside the run.
func check(all []measured, costs model.Costs) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "hosts\ttask\tmeasured tasks/s\tpredicted\terror\t\t")
	for i := range all {
		m := &all[i]
		r, err := model.Run(modelOf(m.hosts, m.work, costs))
		if err != nil {
			return err
		}
		note := ""
		if i < 2 {
			note = "fitted to this"
		}
		fmt.Fprintf(w, "%d\t%v\t%.0f\t%.0f\t%+.0f %%\t%s\t\n", m.hosts, m.task, m.rate(), r.Rate, (r.Rate/m.rate()-1)*100, note)
	}
	fmt.Fprintln(w)
	return w.Flush()
}

// point is a prediction.
type point struct {
	task time.Duration
	res  model.Result
	n    int
}

// predict shows clusters that nobody has measured.
func (o *options) predict(costs model.Costs) error {
	costs.Delay, costs.Bandwidth, costs.Sync = 50*time.Microsecond, 1.25e9, time.Millisecond
	var all []point
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "hosts of %d cores\ttask\ttasks/s\tof what its cores could do\tmessages of the controller a task\tbusiest\t\n", o.cores)
	for _, task := range []time.Duration{0, longTask} {
		for _, n := range o.many {
			cfg := model.Config{Hosts: n, Cores: o.cores, Shards: o.shards, Task: task, Tasks: o.tasks, Costs: costs}
			if task > 0 {
				cfg.Tasks = int(2 * time.Second / task * time.Duration(o.cores)) // two seconds of work
			} else if most := 20_000_000; n*cfg.Tasks > most {
				cfg.Tasks = most / n
			}
			r, err := model.Run(cfg)
			if err != nil {
				return fmt.Errorf("%d hosts, tasks of %v: %w", n, task, err)
			}
			ideal := "-"
			if task > 0 {
				ideal = fmt.Sprintf("%.0f %%", 100*r.Rate*task.Seconds()/float64(n*o.cores))
			}
			fmt.Fprintf(w, "%d\t%v\t%.0f\t%s\t%.3f\t%s %.0f %%\t\n", n, task, r.Rate, ideal, float64(r.Controller)/float64(r.Tasks), r.Busiest, 100*r.BusyPart)
			all = append(all, point{task, r, n})
		}
	}
	if err := w.Flush(); err != nil || o.plot == "" {
		return err
	}
	return draw(o.plot, o.cores, all)
}

// middle returns the run in the middle, by how long it took.
func middle(all []measured) measured {
	slices.SortFunc(all, func(a, b measured) int { return cmp.Compare(a.time, b.time) })
	return all[len(all)/2]
}
