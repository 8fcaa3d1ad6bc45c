package sim

import (
	"flag"
	"fmt"
	"slices"
	"strings"
)

// Options says what to run.
type Options struct {
	Seed     uint64
	Story    bool     // keep the story
	Gangs    bool     // half of the families of tasks are gangs, of which half are too large for one agent
	Without  []string // kinds of trouble, and groups of jobs, to leave out, as Shrink names them
	Forwards bool     // several agents that are small for their jobs; calls go from one to another
	Devices  bool     // agents have devices, and tasks ask for them
	Steals   bool     // several agents that are small for their jobs; idle ones take work of others
	Varies   bool     // some tasks make other bytes in each attempt
	Rots     bool     // tasks call much, memory is small, and much of what goes to disk is lost there
	Programs bool     // most tasks call, much
}

// mode is an option that is on or off, with the flag that sets it.
type mode struct {
	flag  string
	on    *bool
	usage string
}

func (o *Options) modes() []mode {
	return []mode{
		{"gangs", &o.Gangs, "jobs have gangs"},
		{"devices", &o.Devices, "agents have devices, and tasks ask for them"},
		{"steals", &o.Steals, "several agents that are small for their jobs, of which idle ones take work of others"},
		{"forwards", &o.Forwards, "several agents that are small for their jobs, whose calls go to other agents"},
		{"varies", &o.Varies, "some tasks make other bytes in each attempt"},
		{"rots", &o.Rots, "tasks call much, memory is small, and disks lose what is written there"},
		{"programs", &o.Programs, "most tasks run random programs of calls, values, waits, cancels and streams"},
	}
}

// Register declares the flags of the command sim that set these options.
func (o *Options) Register(flags *flag.FlagSet) {
	flags.Uint64Var(&o.Seed, "seed", 0, "run this seed alone")
	for _, m := range o.modes() {
		flags.BoolVar(m.on, m.flag, false, m.usage)
	}
	flags.Func("without", "kinds of trouble to leave out, as -shrink prints them", func(text string) error {
		o.Without = slices.DeleteFunc(strings.Split(text, ","), func(kind string) bool { return kind == "" })
		return nil
	})
}

// Flags are those of the command sim that run these options.
func (o *Options) Flags() string {
	f := fmt.Sprintf("-seed %d", o.Seed)
	for _, m := range o.modes() {
		if *m.on {
			f += " -" + m.flag
		}
	}
	if len(o.Without) > 0 {
		f += " -without " + strings.Join(o.Without, ",")
	}
	return f
}
