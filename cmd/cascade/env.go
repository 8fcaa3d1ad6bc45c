package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade/agent/runtimeenv"
	"github.com/cascade-run/cascade/cmd/internal/amount"
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

func (a *app) envCommand() *cobra.Command {
	var f envFlags
	c := &cobra.Command{
		Use:   "env",
		Short: "List, show or remove environments built on this host",
		Long: `List, show or remove environments built on this host. An environment of a job
consists of several entries: its requirements, the base below them, its modules.
Entries in use by an agent are never removed. Agents remove the least recently
used entries beyond their limits.`,
		Example: "  cascade env ls\n  cascade env prune --keep 5GiB",
		Args:    known,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.PersistentFlags().StringVar(&f.cache, "cache", "", "folder of built environments (default cascade/environments in $XDG_CACHE_HOME or ~/.cache)")
	c.PersistentFlags().StringVar(&f.plugins, "plugins", "", "folder of environment plugins (default cascade/plugins in $XDG_CONFIG_HOME or ~/.config)")
	c.AddCommand(a.envListCommand(&f), a.envShowCommand(&f), a.envPruneCommand(&f))
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

func (a *app) envListCommand(f *envFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Short:   "List built environments, most recently used first",
		Example: "  cascade env ls",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
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
}

// short is as much of a key as people need to tell one from another.
func short(key string) string { return key[:min(len(key), 12)] }

func (a *app) envShowCommand(f *envFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "show ID",
		Short:   "Show one entry: what was requested, which versions are installed",
		Example: "  cascade env show python-1c4be7bdcbe2",
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
				return badInputf("no environment on this host has an ID that begins with %q; cascade env ls lists them", args[0])
			case len(found) > 1:
				return badInputf("%d entries have IDs that begin with %q: write more of it", len(found), args[0])
			}
			return a.printEnv(found[0])
		},
	}
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

func (a *app) envPruneCommand(f *envFlags) *cobra.Command {
	var keep string
	var age time.Duration
	c := &cobra.Command{
		Use:   "prune",
		Short: "Remove environments that no agent uses: all, or the oldest",
		Long: `Remove environments that were built on this host and are not in use, and print
what a replay of earlier jobs will miss. Files of packages are hard links to
uv's own cache: uv cache prune frees those.`,
		Example: `  cascade env prune
  cascade env prune --keep 5GiB
  cascade env prune --age 30d`,
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
	return c
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
