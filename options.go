package cascade

import (
	"time"

	"github.com/rs/zerolog"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/client"
)

// Option sets how a client or a local cluster behaves.
type Option func(*options)

type options struct {
	client.Config
	state   string
	cpu     float64
	memory  int64
	store   int64
	warm    int
	custom  []comms.Amount
	gpus    int
	gpuMem  int64
	inspect bool
	durable Durability
	warmDir string
	gcs     int64
	retain  Retention
}

func newOptions(opts []Option) options {
	o := options{Config: client.Config{Log: zerolog.Nop(), Patience: 30 * time.Second, Build: Version()}}
	for _, f := range opts {
		f(&o)
	}
	return o
}

// WithLog sends the log of links, controller and agent to l. The default is silence.
func WithLog(l zerolog.Logger) Option { return func(o *options) { o.Log = l } }

// WithInsecureTestNetwork permits plain TCP to a controller that permits it too.
func WithInsecureTestNetwork() Option { return func(o *options) { o.Insecure = true } }

// WithCredentials sets the folder of the certificate with which a client proves
// itself over TCP. The default is the folder in which admin.JoinCluster left one for the
// address that is dialed.
func WithCredentials(dir string) Option { return func(o *options) { o.Credentials = dir } }

// WithState sets the folder in which a local cluster keeps its state. The
// default is cascade/NAME in $XDG_STATE_HOME, or in ~/.local/state, where NAME is
// the program's: one program's executors do not know another's functions.
func WithState(dir string) Option { return func(o *options) { o.state = dir } }

// WithCPU sets how many cores a local cluster may use; the default is all that
// the process may use.
func WithCPU(cores float64) Option { return func(o *options) { o.cpu = cores } }

// WithMemory sets how many bytes of private memory the tasks of a local cluster may use.
func WithMemory(bytes int64) Option { return func(o *options) { o.memory = bytes } }

// WithResource gives a local cluster an amount of a resource that tasks ask for by
// name, such as licences.
func WithResource(name string, amount float64) Option {
	return func(o *options) {
		o.custom = append(o.custom, comms.Amount{Name: name, N: int64(amount * 1000)})
	}
}

// WithGPUs sets how many devices (GPUs) the tasks of a local cluster may use, and how many
// bytes of memory each has (0: as its driver says). The default is those that are found;
// of more than these nothing is known but a number; negative: none.
func WithGPUs(n int, memory int64) Option {
	return func(o *options) { o.gpus, o.gpuMem = n, memory }
}

// WithStore sets how many bytes of shared memory a local cluster may use for datasets.
func WithStore(bytes int64) Option { return func(o *options) { o.store = bytes } }

// WithPatience sets how long a broken link may take to come back before open calls
// fail with ErrUnavailable; the default is 30 s. Jobs go on meanwhile.
func WithPatience(d time.Duration) Option { return func(o *options) { o.Patience = d } }

// WithWarmDir sets the folder in which the executors start that a local cluster
// keeps warm: that of the jobs to come (see WithDir), whose tasks find them ready
// then. The default is the working folder.
func WithWarmDir(dir string) Option { return func(o *options) { o.warmDir = dir } }

// WithProgram has the functions of this program run in copies of it, on whichever agents
// a client's jobs run: it is sent with the first of them, once, and an agent fetches it
// once. Without it agents run functions with the executor that they were started
// with (cascade-agent --executor). The program must call Main first, and is best built
// with CGO_ENABLED=0: hosts may have other C libraries. In a local cluster the executors
// are this program in any case.
func WithProgram() Option { return func(o *options) { o.SendProgram = true } }

// WithBinary is WithProgram, and gives the file of the same program that was built for
// agents of another platform, such as "linux/arm64"; agents of platforms for which there
// is none get no task of its functions. Of this program's own platform it replaces the copy.
func WithBinary(platform, path string) Option {
	return func(o *options) {
		o.SendProgram, o.Programs = true, append(o.Programs, client.Binary{Platform: platform, Path: path})
	}
}

// WithDurability sets what a local cluster's acknowledgements survive; the default is Crash.
func WithDurability(d Durability) Option { return func(o *options) { o.durable = d } }

// WithoutExecutors makes a local cluster that only answers questions about what
// its state folder holds: no task runs and no executor starts.
func WithoutExecutors() Option { return func(o *options) { o.inspect = true } }

// WithStoreMemory sets how many bytes the tables and caches of a local cluster's
// control store may take in memory; the default is 64 MiB.
func WithStoreMemory(bytes int64) Option { return func(o *options) { o.gcs = bytes } }

// Retention says which ended jobs a local cluster keeps; see WithRetention.
type Retention struct {
	Age   time.Duration // since the end; default 30 days, negative: no bound
	Jobs  int           // how many; default 1,000,000, negative: no bound
	Bytes int64         // what they take in the control store; default 4 GiB, negative: no bound
}

// WithRetention sets which ended jobs a local cluster keeps: those submitted
// WithKeep, and of the others the last, within the bounds. Jobs beyond a bound are
// deleted with their lineage and outputs, the job that ended first before others.
func WithRetention(r Retention) Option { return func(o *options) { o.retain = r } }
