package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/agent/runtimeenv"
	"github.com/cascade-run/cascade/cmd/internal/amount"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/report"
)

// envFlags are the flags of the commands on this host's environments.
type envFlags struct{ cache, plugins string }

func (f *envFlags) open() (*runtimeenv.Cache, error) { return runtimeenv.Open(f.cache, f.plugins) }

func (f *envFlags) list() ([]runtimeenv.Record, error) {
	cache, err := f.open()
	if err != nil {
		return nil, err
	}
	return cache.List()
}

func (f *envFlags) add(c *cobra.Command) *cobra.Command {
	c.Flags().StringVar(&f.cache, "cache", "", "folder of built environments (default cascade/environments in $XDG_CACHE_HOME or ~/.cache)")
	c.Flags().StringVar(&f.plugins, "plugins", "", "folder of environment plugins (default cascade/plugins in $XDG_CONFIG_HOME or ~/.config)")
	return c
}

// envRow is a record for a table.
type envRow struct {
	ID      string  `json:"id"`
	Size    uint64  `json:"size"`
	Seconds float64 `json:"seconds"`
	Used    string  `json:"used"`
	What    string  `json:"what"`
}

func (a *app) listEnvironmentsCommand() *cobra.Command {
	var f envFlags
	c := &cobra.Command{
		Use:   "environments [JOB]",
		Short: "List environments that were built on this host, or of a job",
		Long: `List the environments that were built on this host, the most recently used first,
or those of a job on its hosts. An environment of a job consists of several
entries on its host: its requirements, the base below them, its modules.

` + jobHelp,
		Example: "  cascade ls environments\n  cascade ls environments last --status building",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				return a.withJob(c.Context(), args[0], func(client *cascade.Client, j *cascade.Job) error {
					return listRows[comms.EnvironmentRow](c.Context(), a, client, comms.QueryEnvironments, j.ID(), "",
						"name", "kind", "state", "host", "seconds", "size", "used", "error")
				})
			}
			all, err := f.list()
			if err != nil {
				return err
			}
			if a.json {
				return table(a, all)
			}
			rows := make([]envRow, len(all))
			for i, r := range all {
				rows[i] = envRow{ID: r.Plugin + "-" + short(r.Key), Size: uint64(r.Bytes), Seconds: r.Seconds, Used: r.Used.Local().Format(time.DateTime), What: oneLine(r.What)}
				if r.InUse {
					rows[i].Used = "now"
				}
			}
			return table(a, rows, "id", "size", "seconds", "used", "what")
		},
	}
	return f.add(a.asList(c, "status", "host"))
}

// short is as much of a key as people need to tell one from another.
func short(key string) string { return key[:min(len(key), 12)] }

func (a *app) environmentCommand() *cobra.Command {
	var f envFlags
	return f.add(&cobra.Command{
		Use:     "environment ID",
		Short:   "Show an environment of this host: its versions, size and use",
		Example: "  cascade ls environments\n  cascade environment python-1c4be7bdcbe2",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := f.list()
			if err != nil {
				return err
			}
			var found []runtimeenv.Record
			for _, r := range all {
				if strings.HasPrefix(r.ID(), args[0]) || strings.HasPrefix(r.Key, args[0]) {
					found = append(found, r)
				}
			}
			switch {
			case len(found) == 0:
				return badInputf("no environment on this host has an ID that begins with %q; cascade ls environments lists them", args[0])
			case len(found) > 1:
				return badInputf("%d entries have IDs that begin with %q: write more of it", len(found), args[0])
			}
			return a.printEnv(found[0])
		},
	})
}

func (a *app) printEnv(r runtimeenv.Record) error {
	if a.json {
		return a.printJSON(r)
	}
	fmt.Fprintf(a.out, "%s\n", r.ID())
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(a.out, "  %-9s %s\n", name, text)
		}
	}
	line("what", r.What)
	line("for", strings.Trim(r.Name+" in "+r.Source, " "))
	line("built", fmt.Sprintf("%s, in %s", r.Made.Local().Format(time.DateTime), report.Seconds(r.Seconds)))
	used := r.Used.Local().Format(time.DateTime)
	if r.InUse {
		used = "now"
	}
	line("used", used)
	line("size", size(uint64(r.Bytes)))
	line("packages", strings.Join(r.Packages, "\n            "))
	return nil
}

func (a *app) removeEnvironmentsCommand() *cobra.Command {
	var f envFlags
	var keep string
	var age time.Duration
	c := &cobra.Command{
		Use:   "environments",
		Short: "Remove environments that no agent uses: all, or the oldest",
		Long: `Remove environments that were built on this host and are not in use, and print
what a replay of earlier jobs will miss. Files of packages are hard links to
uv's own cache: uv cache prune frees those.`,
		Example: `  cascade rm environments
  cascade rm environments --keep 5GiB
  cascade rm environments --age 30d`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			limits := runtimeenv.Limits{Bytes: -1, Count: math.MaxInt, Age: math.MaxInt64}
			if keep != "" {
				bytes, err := amount.ParseSize(keep)
				if err != nil {
					return badInputf("--keep %s: %w", keep, err)
				}
				limits.Bytes = max(bytes, 1) // 0 stands for the default
			} else if age != 0 {
				limits.Bytes = math.MaxInt64
			}
			if age != 0 {
				limits.Age = age
			}
			cache, err := f.open()
			if err != nil {
				return err
			}
			removed, err := cache.Prune(limits, time.Now())
			var bytes int64
			for _, r := range removed {
				bytes += r.Bytes
				if e := a.printPruned(r); e != nil {
					return e
				}
			}
			if err == nil && !a.json {
				fmt.Fprintf(a.out, "%d %s removed, %s\n", len(removed), map[bool]string{true: "entry", false: "entries"}[len(removed) == 1], size(uint64(bytes)))
			}
			return err
		},
	}
	c.Flags().StringVar(&keep, "keep", "", "size to keep of each kind, such as 5GiB (default nothing)")
	amount.Duration(c.Flags(), &age, "age", 0, "remove only entries unused for this long, such as 30d")
	return f.add(c)
}

func (a *app) printPruned(r runtimeenv.Record) error {
	if a.json {
		return a.printJSON(struct {
			runtimeenv.Record
			Replay string `json:"replay,omitempty"`
		}{r, r.Replay()})
	}
	fmt.Fprintf(a.out, "%s-%s  %s  %s\n", r.Plugin, short(r.Key), size(uint64(r.Bytes)), oneLine(r.What))
	if text := r.Replay(); text != "" {
		fmt.Fprintf(a.out, "  %s\n", text)
	}
	return nil
}
