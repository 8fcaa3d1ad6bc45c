package model

import (
	"errors"
	"fmt"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// Cost is processor time.
type Cost struct {
	Message time.Duration // of each message that is sent or received
	Task    time.Duration // of each task that is told of
}

func (c Cost) of(messages, tasks int) time.Duration {
	return time.Duration(messages)*c.Message + time.Duration(tasks)*c.Task
}

// Costs is what the processes take, and their network.
type Costs struct {
	Controller Cost          // the loop of the controller, one event after the other
	Beside     Cost          // of the controller, on any core: decoding, and writing to the store
	Agent      Cost          // all of an agent
	Executor   Cost          // all of an executor but what the task itself does
	Sync       time.Duration // of each group of the store; 0: it does not sync
	Delay      time.Duration // of a message between hosts
	Bandwidth  float64       // bytes a second between hosts; 0: no bound
}

// Config is a cluster and its work.
type Config struct {
	Hosts   int  // with an agent each
	Cores   int  // of each host
	Slots   int  // tasks that run at once on an agent; default: Cores
	OneHost bool // controller and agents share the cores of one host, as namespaces of one machine do
	Shards  int  // of the store; default 2

	Tasks int           // of each job; each agent has one job
	Task  time.Duration // that a task takes
	// Drivers is how many tasks call those, as tasks of their own (bottom-up); 0: all tasks
	// are in the job's graph (static). The costs of a task are those of one that is called.
	Drivers int
	Window  int  // calls of a driver that are under way at most; default: three for each slot, by all drivers together
	Sleep   bool // tasks wait, and need no core while they do

	Costs Costs
	Meter *Meter // measures the controller's core; may be nil
}

// Meter sums up what was measured of the controller's core while a model ran.
type Meter struct {
	Clock    func() time.Duration // processor time of the thread on which Run is called
	Time     time.Duration        // by that clock
	Messages int                  // to and from it
	Tasks    int                  // of which it was told
}

// Result is what came of it.
type Result struct {
	Tasks    int
	Time     time.Duration // from the submission to the last end
	Rate     float64       // tasks a second
	Jobs     int           // that ended
	Traffic                // of all
	PerHost  Traffic       // the mean of agents
	Busiest  string        // what had no time left, if anything
	BusyPart float64       // of the busiest server's time
}

// Traffic counts messages.
type Traffic struct {
	Controller int // messages to and from the controller
	Executors  int // messages between agents and executors
}

const (
	settle   = time.Second // virtual: executors are there before the jobs come
	patience = time.Hour   // virtual
)

// Run predicts one cluster. It fails when the cores ask for what a cluster without
// faults does not need, or when the jobs do not end.
func Run(cfg Config) (Result, error) {
	if cfg.Hosts <= 0 || cfg.Cores <= 0 || cfg.Tasks <= 0 {
		return Result{}, errors.New("a model needs hosts, cores and tasks")
	}
	if cfg.Slots == 0 {
		cfg.Slots = cfg.Cores
	}
	if cfg.Shards == 0 {
		cfg.Shards = 2
	}
	if cfg.Drivers > 0 && cfg.Window == 0 {
		cfg.Window = max(1, 3*cfg.Slots/cfg.Drivers)
	}
	g, err := graph(cfg.Tasks, cfg.Drivers)
	if err != nil {
		return Result{}, err
	}
	w := &world{}
	m := &machine{w: w, free: cfg.Cores}
	c := newController(w, m, &cfg, g)
	for i := range cfg.Hosts {
		on := m
		if !cfg.OneHost {
			on = &machine{w: w, free: cfg.Cores}
		}
		c.agents = append(c.agents, newAgent(w, on, &cfg, i, c))
	}
	for _, a := range c.agents {
		a.boot()
	}
	w.after(settle, c.submit)
	w.run(func() bool { return c.ended == cfg.Hosts || w.now > patience })
	if w.err == nil && c.ended < cfg.Hosts {
		w.err = fmt.Errorf("%d of %d jobs ended in %v of virtual time", c.ended, cfg.Hosts, w.now)
	}
	return c.result(), w.err
}

// graph is a job of n tasks that nothing binds together, or of those that call them.
func graph(n, drivers int) (*dag.Graph, error) {
	name := function
	if drivers > 0 {
		n, name = drivers, driverFunction
	}
	b := dag.NewBuilder("scale")
	b.Add(dag.Group{Name: "task", Run: dag.Run{Function: name}, Axes: []dag.Axis{dag.Range("i", 0, int64(n-1))}})
	return b.Build()
}

const function = "scale_task"

func (c *controller) result() (r Result) {
	r.Time = c.last - c.began
	r.Tasks, r.Jobs = c.ended*c.cfg.Tasks, c.ended
	r.Rate = float64(r.Tasks) / r.Time.Seconds()
	r.Controller = c.messages
	busy := func(name string, s *server) {
		if part := s.used.Seconds() / r.Time.Seconds(); part > r.BusyPart {
			r.Busiest, r.BusyPart = name, part
		}
	}
	busy("controller", &c.server)
	for _, s := range c.shards {
		busy("a shard of the store", s)
	}
	for _, a := range c.agents {
		busy("an agent", &a.server)
		r.Executors += a.messages
		for _, x := range a.executors {
			busy("an executor", &x.server)
		}
	}
	r.PerHost = Traffic{r.Controller / len(c.agents), r.Executors / len(c.agents)}
	return r
}

// size is how many bytes a message has, and the message as its receiver sees it.
func size(w *world, m comms.Message) (int, comms.Message) {
	b := comms.Encode(m)
	got, err := comms.Decode(b)
	if err != nil {
		w.fail(fmt.Errorf("a %T cannot be decoded: %w", m, err))
		return len(b), m
	}
	return len(b), got
}
