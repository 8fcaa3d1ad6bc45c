package perf

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/admin"
)

// Figure is one measured number.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Baseline is what the same machine does without Cascade, in the same unit,
	// measured next to the value; BaselineOf says what it is.
	Baseline float64 `json:"baseline"`
	// Ratio is Value over Baseline.
	Ratio      float64 `json:"ratio"`
	BaselineOf string  `json:"baseline_of"`
	Note       string  `json:"note,omitempty"`
}

// Options of a measurement.
type Options struct {
	State string   // folder of the clusters' state; their jobs stay there
	Only  []string // names of the figures wanted; empty: all
	Quick bool     // small sizes, which the figures' names tell: it shows that everything works, not how fast
	Log   zerolog.Logger
	// Skip is told of a figure that this host cannot give now, and why.
	Skip func(name, why string)
}

// measure is what yields one or more figures.
type measure struct {
	names []string
	run   func(context.Context, *bench) error
}

// measures lists everything in the order in which it runs. The first needs a
// young process: what later ones leave on the heap would count as the runtime's.
func measures() []measure {
	return []measure{
		{[]string{"noop_independent", "control_rss_1m"}, noopIndependent},
		{[]string{"noop_submits"}, noopSubmits},
		{[]string{"noop_fused"}, noopFused},
		{[]string{"chain_step"}, chainStep},
		{[]string{"chain_step_queued"}, chainStepQueued},
		{[]string{"task_latency_p50", "task_latency_p99"}, taskLatency},
		{[]string{"final_fsync_p50"}, finalFsync},
		{[]string{"metg50_stencil_wide"}, stencilWide},
		{[]string{"metg50_stencil_narrow"}, stencilNarrow},
		{[]string{"put_1GiB"}, putLarge},
		{[]string{"put_inplace_1GiB"}, putInPlace},
		{[]string{"put_1KiB_iops"}, putSmall},
		{[]string{"get_latency"}, getLatency},
		{[]string{"call_latency_p50"}, callLatency},
		{[]string{"calls_async", "calls_async_cpu"}, callsAsync},
		{[]string{"calls_nested", "calls_nested_cpu"}, callsNested},
		{[]string{"wait_1k", "wait_100k"}, callWaits},
		{[]string{"put_1KiB"}, putValues},
		{[]string{"call_memory"}, callMemory},
		{actorFigures, goActors},
		{[]string{"python_noop", "python_noop_p50"}, pythonNoop},
		{[]string{"python_array_handover_1GiB"}, pythonHandover},
		{pythonCallFigures, pythonCalls},
		{[]string{"python_init"}, pythonInit},
		{environmentFigures, environments},
		{[]string{"yaml_100k", "plan_100k", "submit_100k"}, largeGraph},
		{[]string{"gcs_commit"}, gcsCommit},
		{[]string{"gcs_commit_fsync_p99"}, gcsCommitFsync},
	}
}

// quick are the names of figures in their small size, where the name tells the size.
var quick = map[string]string{
	"control_rss_1m": "control_rss_5k", "put_1GiB": "put_1MiB", "put_inplace_1GiB": "put_inplace_1MiB",
	"wait_1k": "wait_50", "wait_100k": "wait_500",
	"python_wait_1k": "python_wait_50", "python_get_1GiB": "python_get_8MiB",
	"python_array_handover_1GiB": "python_array_handover_8MiB", "yaml_100k": "yaml_1k", "plan_100k": "plan_1k", "submit_100k": "submit_1k",
}

// named is the name of what is measured for a figure.
func (o *Options) named(figure string) string {
	if small, ok := quick[figure]; ok && o.Quick {
		return small
	}
	return figure
}

// Names lists the figures.
func Names() (names []string) {
	for _, m := range measures() {
		names = append(names, m.names...)
	}
	return names
}

// bench is one invocation of Run.
type bench struct {
	opts    Options
	emit    func(Figure) error
	cluster *cascade.Cluster // nil until a measure needs it
}

// Run measures and tells each figure as soon as it is known. It needs Register in
// this process and in its executors, and the state folder for itself.
func Run(ctx context.Context, o Options, emit func(Figure) error) (err error) {
	for _, name := range o.Only {
		if !slices.ContainsFunc(Names(), func(figure string) bool { return name == figure || name == o.named(figure) }) {
			return fmt.Errorf("%w %q: there are %s", ErrNoFigure, name, strings.Join(Names(), ", "))
		}
	}
	Register()
	b := &bench{opts: o, emit: emit}
	defer func() {
		if b.cluster != nil {
			err = errors.Join(err, b.cluster.Close())
		}
	}()
	for _, m := range measures() {
		if !slices.ContainsFunc(m.names, b.wants) {
			continue
		}
		if err := m.run(ctx, b); err != nil {
			return fmt.Errorf("measure %s: %w", m.names[0], err)
		}
	}
	return nil
}

// Errors of this package.
var (
	ErrNoFigure   = errors.New("there is no figure")
	errWrongBytes = errors.New("the bytes that came are not those that were published")
)

func (b *bench) wants(name string) bool {
	return len(b.opts.Only) == 0 || slices.Contains(b.opts.Only, name) || slices.Contains(b.opts.Only, b.opts.named(name))
}

// tell passes a figure on when it is wanted.
func (b *bench) tell(f Figure) error {
	if !b.wants(f.Name) {
		return nil
	}
	f.Name = b.opts.named(f.Name)
	if f.Baseline > 0 {
		f.Ratio = f.Value / f.Baseline
	}
	return b.emit(f)
}

// skip leaves a figure out.
func (b *bench) skip(name, why string) {
	if b.opts.Skip != nil {
		b.opts.Skip(b.opts.named(name), why)
	}
}

// size chooses between the real size of a figure and the quick one.
func (b *bench) size(full, quick int) int {
	if b.opts.Quick {
		return quick
	}
	return full
}

// local returns the cluster of most figures: warm, with the options of `cascade run`.
func (b *bench) local(ctx context.Context) (*cascade.Cluster, error) {
	if b.cluster != nil {
		return b.cluster, nil
	}
	c, err := b.start(ctx, "embedded")
	b.cluster = c
	return c, err
}

// state is the folder of a cluster's state.
func (b *bench) state(cluster string) string { return filepath.Join(b.opts.State, cluster) }

// start starts a cluster of its own and runs a few tasks on it, so that executors are up.
// Jobs of earlier measurements go: with a million of them a submit deletes one, too.
func (b *bench) start(ctx context.Context, name string, opts ...cascade.Option) (*cascade.Cluster, error) {
	state := b.state(name)
	_, err := admin.Clean(state, admin.CleanAll())
	if err != nil && !errors.Is(err, cascade.ErrNotFound) { // no state, or the beginning of one: nothing was measured
		return nil, fmt.Errorf("remove what was measured before (or delete the folder %s): %w", state, err)
	}
	opts = append([]cascade.Option{cascade.WithState(state), cascade.WithLog(b.opts.Log)}, opts...)
	c, err := cascade.Local(ctx, opts...)
	if err != nil {
		return nil, err
	}
	if !c.Owned() {
		return nil, errors.Join(fmt.Errorf("state folder %s is in use by another process, whose speed this would be", b.opts.State), c.Close())
	}
	for range 3 {
		if _, err := b.timed(ctx, c, independent("warm", 1000)); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}
