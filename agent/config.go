//go:build linux

package agent

import (
	"cmp"
	"errors"
	"fmt"
	"github.com/cascade-run/cascade/agent/core"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/docker/go-units"
	"github.com/rs/zerolog"

	"github.com/cascade-run/cascade/agent/devices"
	"github.com/cascade-run/cascade/agent/runtimeenv"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/diskspace"
	"github.com/cascade-run/cascade/internal/graphcache"
)

// Config says how an agent works. Zero fields take the default that is stated.
type Config struct {
	Name       string // unique in the cluster; default: the host's name
	Controller string // address of the controller, as comms.ParseAddress reads it; required
	Listen     string // address for clients beside the agent's own socket; default none
	// Credentials is the folder of the certificate with which the agent proves itself
	// over TCP, as pki.Enter writes it; default none, and then TCP is refused.
	Credentials string

	State   string // folder of what outlives the agent: numbers, logs, spilled datasets; required
	Runtime string // folder of its sockets, mode 0700; default: run in State
	Cache   string // folder of built environments; default: cascade in the user's cache folder
	Plugins string // folder of external plugins that make environments; default: cascade/plugins in the user's folder of settings
	Dir     string // working folder of executors of the default environment; default: the process's

	Build    string             // version of the program, which the controller lists; default none
	Platform string             // for which binaries run here, such as "linux/arm64"; default: that of this process, others by emulation
	CPU      int64              // thousandths of a core that tasks may use; default: what the cgroup and affinity allow
	Memory   int64              // bytes of private memory that tasks may use; default: what the host or cgroup has, less Store and a tenth
	Store    int64              // bytes of shared memory for datasets; default: 30 % of memory, bounded by what /dev/shm has free
	MinFree  uint64             // free bytes below which a controller on the disk of State commits nothing: spilled datasets, logs and environments leave more; default 256 MiB
	GPUs     int                // devices that tasks may use, the first ones; default: those that are found; more than these are counted too; negative: none
	GPUMem   int64              // bytes of memory of each of them; default: what their driver says
	Custom   []comms.Amount     // custom resources
	Host     devices.Host       // where devices are looked for; default: this host
	Show     []string           // absolute paths of the host that containers see beside those that they always do, such as libraries of a driver
	Inproc   *comms.Inproc      // names that can be reached inside this process; default none
	Graphs   *graphcache.Graphs // that other parts of this process decode too; default none
	Warm     int                // executors to start before the first task; default: one per core; negative: none
	Drain    time.Duration      // how long Run waits for running tasks when its context has ended; default 0: they are killed
	Env      []string           // NAME=value for executors, added to the agent's own environment
	// Unfused sends each task to an executor by itself, when its inputs are published:
	// slower, to see what fusion is worth or whether a fault has to do with it.
	Unfused bool
	// ForwardAfter is how long calls of tasks wait here before the controller is asked
	// for agents that could run them; default 20 ms; negative: they never go elsewhere.
	ForwardAfter time.Duration
	Silence      time.Duration // after which the link of the controller, an agent or a client counts as broken; default comms.DefaultSilence
	Limits       Limits        // bounds
	// GangPorts is the ports that members of gangs are leased; default 27000-28999.
	GangPorts PortRange
	Log       zerolog.Logger // of the agent

	// Executor is program and arguments of the default environment's executors;
	// default: this process's own binary, which must call executor.Main (or
	// cascade.Main) before anything else.
	Executor []string

	InsecureTestNetwork bool // permit plain TCP, for tests and benchmarks

	watch func(core.Event, []core.Action) // sees what the core hears and answers, for tests
}

// Limits bounds what an agent keeps.
type Limits struct {
	TaskLog int64 // bytes of log per task; default 64 MiB
	Backlog int64 // bytes of log text that wait to be written; default 16 MiB
	// LogAge is how long logs are kept of jobs that are neither asked for nor
	// forgotten; counted from the last text. Default 30 days.
	LogAge time.Duration
	// Environments bounds the cache of built environments; defaults as stated there.
	Environments runtimeenv.Limits
	Executors    int // most executors; default: the core's
	// Stopped is how long an executor may be stopped (SIGSTOP) before it is killed
	// and its run tried again. Default 10 s.
	Stopped time.Duration
}

// withDefaults returns cfg with every unset field filled, or all that is wrong with it.
func (cfg Config) withDefaults() (Config, error) {
	var all []error
	if cfg.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			all = append(all, fmt.Errorf("name the agent after the host: %w", err))
		}
		cfg.Name = host
	}
	all = append(all, comms.CheckName("agent", cfg.Name), comms.CheckSilence(cfg.Silence))
	if cfg.Controller == "" {
		all = append(all, errors.New("the controller's address is missing"))
	}
	if cfg.State == "" {
		all = append(all, errors.New("the state folder is missing"))
	}
	var err error
	if cfg.State, err = filepath.Abs(cfg.State); err != nil {
		all = append(all, fmt.Errorf("state folder: %w", err))
	}
	cfg.Runtime = cmp.Or(cfg.Runtime, filepath.Join(cfg.State, "run"))
	if cfg.Runtime, err = filepath.Abs(cfg.Runtime); err != nil {
		all = append(all, fmt.Errorf("runtime folder: %w", err))
	}
	if cfg.Cache == "" {
		if cfg.Cache, err = runtimeenv.DefaultDir(); err != nil {
			cfg.Cache = filepath.Join(cfg.State, "cache", "environments")
		}
	}
	if cfg.Plugins == "" {
		if cfg.Plugins, err = runtimeenv.DefaultPlugins(); err != nil {
			cfg.Plugins = filepath.Join(cfg.State, "plugins")
		}
	}
	if cfg.Dir == "" {
		if cfg.Dir, err = os.Getwd(); err != nil {
			all = append(all, fmt.Errorf("find the working folder: %w", err))
		}
	}
	if len(cfg.Executor) == 0 {
		self, err := os.Executable()
		if err != nil {
			all = append(all, fmt.Errorf("find the agent's own binary: %w", err))
		}
		cfg.Executor = []string{self}
	}
	if err := cfg.detect(); err != nil {
		all = append(all, err)
	}
	if err := cfg.needsCertificate(); err != nil {
		all = append(all, err)
	}
	for _, n := range []int64{int64(cfg.Drain), cfg.CPU, cfg.Memory, cfg.Store, cfg.GPUMem, cfg.Limits.TaskLog, cfg.Limits.Backlog, int64(cfg.Limits.Stopped)} {
		if n < 0 {
			all = append(all, fmt.Errorf("negative amount %d", n))
		}
	}
	for _, path := range cfg.Show {
		if _, err := os.Stat(path); err != nil || !filepath.IsAbs(path) || filepath.Clean(path) == "/" {
			all = append(all, fmt.Errorf("show %q in containers: want the absolute path of a file or folder below / that is there: %w", path, cmp.Or(err, fs.ErrInvalid)))
		}
	}
	cfg.ForwardAfter = max(cmp.Or(cfg.ForwardAfter, 20*time.Millisecond), 0)
	cfg.MinFree = cmp.Or(cfg.MinFree, diskspace.DefaultCommit)
	cfg.Limits.TaskLog = cmp.Or(cfg.Limits.TaskLog, 64<<20)
	cfg.Limits.LogAge = cmp.Or(cfg.Limits.LogAge, 30*24*time.Hour)
	cfg.Limits.Backlog = cmp.Or(cfg.Limits.Backlog, 16<<20)
	cfg.Limits.Stopped = cmp.Or(cfg.Limits.Stopped, 10*time.Second)
	switch {
	case cfg.Warm == 0:
		cfg.Warm = max(1, int(cfg.CPU/1000))
	case cfg.Warm < 0:
		cfg.Warm = 0
	}
	return cfg, errors.Join(all...)
}

// needsCertificate refuses TCP without certificates.
func (cfg *Config) needsCertificate() error {
	if cfg.GangPorts == (PortRange{}) {
		cfg.GangPorts = PortRange{firstGangPort, lastGangPort}
	}
	for _, addr := range []string{cfg.Controller, cfg.Listen} {
		if addr == "" {
			continue
		}
		endpoints, err := comms.ParseAddress(addr)
		if err != nil {
			return err
		}
		for _, e := range endpoints {
			if e.Scheme == "tcp" && cfg.Credentials == "" && !cfg.InsecureTestNetwork {
				return fmt.Errorf("%s: TCP needs a certificate: join the cluster with --join HOST --token TOKEN; `cascade cluster token`, where the controller runs, makes one "+
					"(--insecure-test-network permits plain TCP, for benchmarks on a network of your own only)", e)
			}
		}
	}
	return nil
}

// detect fills the resources that are not set.
func (cfg *Config) detect() error {
	if cfg.Platform == "" {
		cfg.Platform = runtimeenv.ThisPlatform
	}
	cfg.CPU = cmp.Or(cfg.CPU, cpuQuota("/sys/fs/cgroup", "/proc/self/cgroup", int64(runtime.NumCPU())*1000))
	free, room, err := freeSpace(shmFolder)
	if err != nil {
		return fmt.Errorf("detect free shared memory: %w", err)
	}
	if cfg.Store > room {
		return fmt.Errorf("the store shall have %s, and %s holds %s at most: ask for less (--store), or enlarge it: mount -o remount,size=%d %s",
			units.BytesSize(float64(cfg.Store)), shmFolder, units.BytesSize(float64(room)), cfg.Store, shmFolder)
	}
	if cfg.Memory != 0 && cfg.Store != 0 {
		return nil
	}
	total, err := memoryTotal("/sys/fs/cgroup", "/proc/self/cgroup", "/proc/meminfo")
	if err != nil {
		return fmt.Errorf("detect memory (set it to go on without): %w", err)
	}
	if cfg.Store == 0 {
		const slack = 64 << 20
		store := min(total*3/10, free-slack)
		if store < 1<<20 {
			return fmt.Errorf("%s has %s free, too little for datasets and other programs: enlarge it (mount -o remount,size=1G %s), or say how much to take (--store)",
				shmFolder, units.BytesSize(float64(free)), shmFolder)
		}
		cfg.Store = store
	}
	if cfg.Memory == 0 {
		cfg.Memory = max(total-cfg.Store-total/10, total/4)
	}
	return nil
}
