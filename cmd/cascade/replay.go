package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/zeebo/xxh3"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

func (a *app) replayCommand() *cobra.Command {
	var verify bool
	var from []string
	var one taskFlags
	var sim simulateFlags
	c := &cobra.Command{
		Use:   "replay JOB | FILE",
		Short: "Replay an earlier job: verify, debug one task, or simulate",
		Long: `Run tasks of an earlier job as a new job with the same graph, parameters and
folder. Code and files are used as they are now.

--verify runs all tasks, or with --from some of them, and compares every dataset
that the earlier job kept with the new one, byte by byte. It names datasets that
differ although the inputs of their task do not: the task is not deterministic,
or something outside the job has changed. The exit code is then 1. Outputs are
not copied to the destinations in the job file.

--from TASK runs that task and everything that depends on it, and reuses the
other results of the earlier job as run --resume does.

--task TASK runs one attempt of one task on this host in the foreground, with
the task's inputs, parameters, environment and attempt number. Its output goes
to the terminal, its results are discarded, and its exit code is the exit code
of this command. --rebuild recomputes inputs that are not kept. The variables of
the original host's environment are not recorded: those of this shell apply.
TASK may be a called task (cascade ls calls): its calls are answered as they
were, and results that were not recorded are recomputed.
--debug stops at the beginning of the task's function: Go functions run under
Delve (dlv, which must be in PATH), Python functions under pdb.

--simulate runs nothing. It predicts how long the job or session would take on
the hosts where it ran, beside the measured time, and with --hosts on others.
Each task, also a called one, takes its measured time and writes its measured
bytes. FILE is a recording in WfFormat, of cascade export or of another system.

` + taskHelp + "\n" + jobHelp,
		Example: `  cascade replay last --verify
  cascade replay last --from spread[2]
  cascade replay last --from spread --verify
  cascade replay last --task spread[2] --rebuild
  cascade replay mysession --task root/3 --debug
  cascade replay last --simulate --hosts 8x16c64g --bandwidth 20Gbit/s`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if f := c.Flags(); !sim.do && (f.Changed("hosts") || f.Changed("bandwidth") || f.Changed("evaluations") || f.Changed("seed")) {
				return badInputf("replay: --hosts, --bandwidth, --evaluations and --seed are for --simulate")
			}
			if sim.do {
				if verify || len(from) > 0 || one != (taskFlags{}) {
					return badInputf("replay: --simulate runs nothing: give no --verify, --from or --task")
				}
				return a.simulate(c.Context(), args[0], &sim)
			}
			if one.task != "" {
				if verify || len(from) > 0 {
					return badInputf("replay: --task runs one task here, and --verify and --from run a job: give one of them")
				}
				return a.replayTask(c.Context(), args[0], &one)
			}
			if one != (taskFlags{}) {
				return badInputf("replay: --attempt, --rebuild, --debug and --executor are for --task")
			}
			if !verify && len(from) == 0 {
				return badInputf("replay: say what to do: --verify, --from TASK, --task TASK or --simulate")
			}
			return a.withExecutors(c.Context(), nil, func(client *cascade.Client) error {
				return a.replay(c.Context(), client, args[0], verify, from)
			})
		},
	}
	c.Flags().BoolVar(&verify, "verify", false, "compare every dataset with the one of the earlier job")
	c.Flags().StringArrayVar(&from, "from", nil, "run only this `task` or family, and what depends on it; repeatable")
	c.Flags().StringVar(&one.task, "task", "", "run one attempt of this task here, in the foreground")
	c.Flags().Uint32Var(&one.attempt, "attempt", 0, "with --task: number of the attempt (default the last)")
	c.Flags().Lookup("attempt").DefValue = "0" // shows no default: the text tells it
	c.Flags().BoolVar(&one.rebuild, "rebuild", false, "with --task: recompute inputs that are not kept")
	c.Flags().BoolVar(&one.debug, "debug", false, "with --task: debug with dlv (Go functions) or pdb (Python functions)")
	c.Flags().StringVar(&one.executor, "executor", "", "with --task: program with the functions of tasks without an environment")
	c.Flags().BoolVar(&sim.do, "simulate", false, "predict the duration, where the job ran and on --hosts")
	sim.at.add(c)
	return c
}

func (a *app) replay(ctx context.Context, client *cascade.Client, name string, verify bool, from []string) error {
	old, err := findJob(ctx, client, name)
	if err != nil {
		return err
	}
	g, dir, err := client.Graph(ctx, old.ID())
	if err != nil {
		return err
	}
	opts := []cascade.SubmitOption{cascade.WithDir(dir), cascade.WithLabel("replay", old.ID().String())}
	if len(from) > 0 {
		opts = append(opts, cascade.WithResume(old.ID(), from...))
	}
	j, err := client.Submit(ctx, g.Retaining(), opts...)
	if err != nil {
		return err
	}
	if len(from) > 0 {
		if err := a.explainResume(ctx, client, j, old.ID(), true); err != nil {
			return err
		}
	}
	if !verify {
		return a.follow(ctx, client, j, g, dir)
	}
	last, err := a.watch(ctx, client, j, g)
	if err != nil {
		return err
	}
	if failure := cascade.JobResult(last); failure != nil {
		a.explainFailure(ctx, client, g, last, failure)
		return reported{failure}
	}
	return a.verify(ctx, client, g, old, j)
}

// errDiffers ends replay --verify when datasets differ.
var errDiffers = errors.New("datasets differ")

// difference is a dataset that is not what it was, though all that its task read is.
type difference struct {
	Dataset string `json:"dataset"`
	Then    string `json:"then"`
	Now     string `json:"now"` // "" it was not made
	ref     comms.DatasetRef
}

// verdict is what replay --verify found.
type verdict struct {
	Job      string       `json:"job"`
	Replayed string       `json:"replayed"`
	Compared int          `json:"compared"`
	Differ   int          `json:"differ"`
	First    []difference `json:"first,omitempty"`
	Kept     bool         `json:"kept"` // the earlier job kept all that it made
}

// verify compares all that the earlier job kept with what the replay made.
func (a *app) verify(ctx context.Context, client *cascade.Client, g *dag.Graph, old, j *cascade.Job) error {
	v := verdict{Job: old.ID().String(), Replayed: j.ID().String(), Kept: g.Retain}
	rows, err := cascade.Rows[comms.DatasetRow](ctx, client, comms.QueryDatasets, old.ID(), "")
	if err != nil {
		return err
	}
	var differ []difference
	for _, row := range rows {
		if row.Place == "lost" {
			continue
		}
		then, ref, err := hashOf(ctx, old, row.Name)
		if errors.Is(err, cascade.ErrNotFound) {
			continue // it is not kept any more
		}
		if err != nil {
			return err
		}
		now, _, err := hashOf(ctx, j, row.Name)
		if err != nil && !errors.Is(err, cascade.ErrNotFound) {
			return err
		}
		if v.Compared++; then != now {
			differ = append(differ, difference{Dataset: row.Name, Then: then, Now: now, ref: ref})
		}
	}
	v.Differ = len(differ)
	if v.First, err = firstOf(g, differ); err != nil {
		return err
	}
	return a.printVerdict(&v, g)
}

// firstOf returns those of the datasets that differ whose task read nothing that differs.
func firstOf(g *dag.Graph, differ []difference) (first []difference, err error) {
	tasks := map[dag.TaskIndex]bool{}
	groups := map[string]bool{}
	for _, d := range differ {
		tasks[d.ref.Task] = true
		groups[g.Group(d.ref.Task).Name] = true
	}
	for _, d := range differ {
		inputs, err := g.Inputs(d.ref.Task)
		if err != nil {
			return nil, fmt.Errorf("inputs of %s: %w", g.TaskName(d.ref.Task), err)
		}
		follows := slices.ContainsFunc(inputs, func(in dag.Input) bool {
			return slices.ContainsFunc(in.Sources, func(s dag.Source) bool {
				return tasks[s.Task] || s.Kind == dag.SourceGroup && groups[g.Group(s.Task).Name]
			})
		})
		if !follows {
			first = append(first, d)
		}
	}
	return first, nil
}

// mostDifferences is how many datasets are named; --json has all.
const mostDifferences = 10

func (a *app) printVerdict(v *verdict, g *dag.Graph) error {
	var found error
	if v.Differ > 0 {
		found = reported{errDiffers}
	}
	if a.json {
		return errors.Join(a.printJSON(v), found)
	}
	if v.Differ == 0 {
		fmt.Fprintf(a.out, "%s compared, none differs\n", plural(v.Compared, "dataset"))
	} else {
		fmt.Fprintf(a.out, "%d of %s differ\n", v.Differ, plural(v.Compared, "dataset"))
	}
	for i, d := range v.First {
		if i == mostDifferences {
			fmt.Fprintf(a.out, "and %d more\n", len(v.First)-i)
			break
		}
		if d.Now == "" {
			fmt.Fprintf(a.out, "%s was not made\n", d.Dataset)
		} else {
			fmt.Fprintf(a.out, "%s was %s, is %s\n", d.Dataset, d.Then, d.Now)
		}
	}
	if n := v.Differ - len(v.First); n > 0 {
		fmt.Fprintf(a.out, "the other %d follow from that\n", n)
	}
	if !v.Kept {
		fmt.Fprintf(a.out, "job %s kept its outputs only: with retain: true in the job file all datasets are compared\n", g.Name)
	}
	return found
}

// hashOf reads a dataset of a job and returns its hash, as comms.Hash prints it.
func hashOf(ctx context.Context, j *cascade.Job, name string) (string, comms.DatasetRef, error) {
	located, err := j.Locate(ctx, name)
	if err != nil {
		return "", comms.DatasetRef{}, err
	}
	h := xxh3.New()
	if err := j.Fetch(ctx, located[0], h); err != nil {
		return "", comms.DatasetRef{}, err
	}
	sum := h.Sum128()
	b := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte{comms.HashXXH3}, sum.Hi), sum.Lo)
	return comms.Hash(b).String(), located[0].Desc.Ref, nil
}
