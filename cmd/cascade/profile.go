package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/admin"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/outfile"
	"github.com/cascade-run/cascade/internal/report"
	"github.com/cascade-run/cascade/profiles"
)

func (a *app) profileCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "profile",
		Short: "Show, export, import and compare task profiles",
		Long: `Show, export, import and compare task profiles. The controller, or this host's
state folder, records the duration, cores, output bytes and peak memory of each
family of tasks of a job and of each function in all jobs, and the bandwidth
between hosts. Plans use these records. A wrong profile costs time but never
changes a result.`,
		Example: "  cascade profile show\n  cascade profile export -o job.profile.json --of montage",
		Args:    known,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.profileShowCommand(), a.profileExportCommand(), a.profileImportCommand(), a.profileDiffCommand())
	return c
}

// knownProfiles asks for what is known; of is the name of a job, task, function or host, "" for all.
func (a *app) knownProfiles(ctx context.Context, of string) (f profiles.File, err error) {
	f.Version = profiles.FileVersion
	err = a.withJobs(ctx, func(client *cascade.Client) error {
		rows, err := cascade.Rows[comms.ProfileRow](ctx, client, comms.QueryProfiles, comms.JobID{}, of)
		if err != nil {
			return err
		}
		if f.Profiles, err = entries[profiles.Entry]("profile", rows, func(r *comms.ProfileRow) string { return r.Entry }); err != nil {
			return err
		}
		links, err := cascade.Rows[comms.LinkRow](ctx, client, comms.QueryLinks, comms.JobID{}, of)
		if errors.Is(err, cascade.ErrBadRequest) {
			return nil // an older controller, which measures none
		}
		if err != nil {
			return err
		}
		f.Links, err = entries[profiles.LinkEntry]("link", links, func(r *comms.LinkRow) string { return r.Entry })
		return err
	})
	return f, err
}

// entries reads the entries of a profile file that rows hold.
func entries[E, R any](what string, rows []R, entry func(*R) string) ([]E, error) {
	all := make([]E, len(rows))
	for i := range rows {
		if err := json.Unmarshal([]byte(entry(&rows[i])), &all[i]); err != nil {
			return nil, fmt.Errorf("read %s %d of the answer: %w", what, i, err)
		}
	}
	return all, nil
}

func readProfileFile(path string) (*profiles.File, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, badInputf("read profiles: %w", err)
	}
	f, err := profiles.ParseFile(path, b)
	if err != nil {
		return nil, badInput{err}
	}
	return f, nil
}

// profileLine is a line of profile show.
type profileLine struct {
	Job      string `json:"job"`
	Task     string `json:"task"`
	Function string `json:"function"`
	Runs     uint64 `json:"runs"`
	Seconds  string `json:"mean"`
	Stddev   string `json:"stddev"`
	Median   string `json:"median"`
	Most     string `json:"p90"`
	Bytes    string `json:"output"`
	Memory   string `json:"peak_memory"`
	CPU      string `json:"cores"`
	Grows    string `json:"grows"`
}

func (a *app) profileShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show [NAME]",
		Short: "Show task profiles",
		Long: `Show the profiles of all tasks, or of a job, a family of tasks, a function or a
host: mean, standard deviation, median and 90 % quantile of the duration, output
bytes, peak memory, and cores kept busy. Recent runs weigh more. GROWS says how
the duration grows with the bytes of the inputs, if a line explains at least
80 % of its variance.

The second table shows the links between hosts: how many bytes went FROM one TO
another, and how fast. BANDWIDTH and LATENCY are the values that plans use, for
links that were measured often enough. --json prints everything.`,
		Example: "  cascade profile show\n  cascade profile show montage --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			f, err := a.knownProfiles(c.Context(), first(args))
			if errors.Is(err, errNothing) {
				return a.listing(err)
			}
			if err != nil {
				return err
			}
			if len(args) > 0 && len(f.Profiles)+len(f.Links) == 0 {
				return notHere{hintedf(a.hint("profile", "show")+" lists the profiles", "no profile of %q", args[0])}
			}
			if a.json {
				for i := range f.Profiles {
					if err := a.printJSON(&f.Profiles[i]); err != nil {
						return err
					}
				}
				for i := range f.Links {
					if err := a.printJSON(&f.Links[i]); err != nil {
						return err
					}
				}
				return nil
			}
			lines := make([]profileLine, len(f.Profiles))
			for i := range f.Profiles {
				lines[i] = lineOf(&f.Profiles[i])
			}
			if len(lines) > 0 || len(f.Links) == 0 {
				if err := table(a, lines, "job", "task", "function", "runs", "mean", "stddev", "median", "p90", "output", "peak_memory", "cores", "grows"); err != nil {
					return err
				}
			}
			return a.printLinks(f.Links, len(lines) > 0)
		},
	}
}

func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

func lineOf(e *profiles.Entry) profileLine {
	l := profileLine{Job: e.Job, Task: e.Task, Function: e.Function, Runs: e.Runs, Seconds: report.Seconds(e.Seconds), Stddev: report.Seconds(e.SecondsDeviation), Bytes: units.BytesSize(e.Bytes)}
	if q := e.Quantiles; q != nil {
		l.Median, l.Most = report.Seconds(q.Seconds[0]), report.Seconds(q.Seconds[1])
	}
	if e.MemoryRuns > 0 {
		l.Memory = units.BytesSize(e.MemoryPeak)
	}
	if e.CPU > 0 {
		l.CPU = fmt.Sprintf("%.2f", e.CPU)
	}
	if e.Scale != nil && e.Scale.Seconds != nil {
		l.Grows = fmt.Sprintf("%s/MiB (%.0f%%)", report.Seconds(e.Scale.Seconds.PerByte*(1<<20)), e.Scale.Seconds.R2*100)
	}
	return l
}

func (a *app) profileExportCommand() *cobra.Command {
	var of, output string
	c := &cobra.Command{
		Use:   "export",
		Short: "Export task profiles to a file",
		Long: `Export the profiles of all tasks, or with --of of some. cascade plan --profile
and cascade profile import read the file.`,
		Example: "  cascade profile export -o all.profile.json\n  cascade profile export --of montage | less",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, args []string) error {
			f, err := a.knownProfiles(c.Context(), of)
			if errors.Is(err, errNothing) {
				err = a.listing(err) // a file of none can be imported too
			}
			if err != nil {
				return err
			}
			b, err := f.Encode()
			if err != nil {
				return err
			}
			if output == "" || output == "-" {
				_, err := a.bytes().Write(b)
				return err
			}
			if err := outfile.WriteBytes(output, b); err != nil {
				return unwritten(output, err)
			}
			return a.said("%s: %s", output, counted(&f))
		},
	}
	outputFlag(c, &output, "")
	c.Flags().StringVar(&of, "of", "", "export only this job, family of tasks, function or host")
	return c
}

// said prints a line for people.
func (a *app) said(format string, args ...any) error {
	if a.json {
		return nil
	}
	_, err := fmt.Fprintf(a.out, format+"\n", args...)
	return err
}

func (a *app) profileImportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "import FILE",
		Short: "Import task profiles from a file",
		Long: `Replace the profiles of the tasks in FILE by those in FILE; - is standard input.
Running jobs keep the profile with which they started. On a cluster with
certificates this needs the role admin.`,
		Example: "  cascade profile import job.profile.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			path := args[0]
			var b []byte
			var err error
			if path == "-" {
				path = "standard input"
				b, err = io.ReadAll(a.in)
			} else {
				b, err = os.ReadFile(path)
			}
			if err != nil {
				return badInputf("read profiles: %w", err)
			}
			f, err := profiles.ParseFile(path, b)
			if err != nil {
				return badInput{err}
			}
			if err := a.withClient(c.Context(), func(client *cascade.Client) error { return admin.SetProfiles(c.Context(), client, f) }); err != nil {
				return err
			}
			return a.said("%s", counted(f))
		},
	}
}

// driftLine is a line of profile diff.
type driftLine struct {
	Job      string `json:"job"`
	Task     string `json:"task"`
	Function string `json:"function"`
	Change   string `json:"change"`
	Before   string `json:"before"`
	After    string `json:"after"`
	Time     string `json:"time"`
	Stddevs  string `json:"stddevs"`
	Bytes    string `json:"output"`
	Memory   string `json:"memory"`
}

func (a *app) profileDiffCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "diff [FILE [FILE]]",
		Short: "Compare two profiles, or one with the current profiles",
		Long: `Compare two profile files, the earlier first, or one file with the current
profiles. Without a file, compare the cost of tasks before their code changed
with their cost now. The largest change of duration comes first; equal entries
are left out. STDDEVS is the change of the mean in standard deviations of the
earlier profile.`,
		Example: `  cascade profile diff
  cascade profile diff last-month.json
  cascade profile diff before.json after.json --json`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			var now profiles.File
			var files []*profiles.File
			for _, path := range args {
				f, err := readProfileFile(path)
				if err != nil {
					return err
				}
				files = append(files, f)
			}
			if len(files) < 2 {
				var err error
				if now, err = a.knownProfiles(c.Context(), ""); err != nil {
					return err
				}
				files = append(files, &now)
			}
			if len(args) == 0 {
				return a.printDrift(profiles.DiffVersions(now.Profiles), nil)
			}
			return a.printDrift(profiles.Diff(files[0].Profiles, files[1].Profiles), profiles.DiffLinks(files[0].Links, files[1].Links))
		},
	}
}

func (a *app) printDrift(all []profiles.Drift, links []profiles.LinkDrift) error {
	if a.json {
		if err := table(a, all); err != nil {
			return err
		}
		return table(a, links)
	}
	lines := make([]driftLine, len(all))
	for i, d := range all {
		lines[i] = driftLine{Job: d.Job, Task: d.Task, Function: d.Function, Change: d.Change, Time: times(d.Time), Bytes: times(d.Bytes), Memory: times(d.Memory)}
		if d.Change != "new" {
			lines[i].Before = report.Seconds(d.Before)
		}
		if d.Change != "gone" {
			lines[i].After = report.Seconds(d.After)
		}
		if d.Spreads != 0 {
			lines[i].Stddevs = fmt.Sprintf("%+.1f", d.Spreads)
		}
	}
	if len(lines)+len(links) == 0 {
		return a.said("no differences")
	}
	if len(lines) > 0 {
		if err := table(a, lines, "job", "task", "function", "change", "before", "after", "time", "stddevs", "output", "memory"); err != nil {
			return err
		}
	}
	return a.printLinkDrift(links, len(lines) > 0)
}

// times prints a ratio, nothing for one that is unknown.
func times(x float64) string {
	if x == 0 {
		return ""
	}
	return fmt.Sprintf("x%.2f", x)
}
