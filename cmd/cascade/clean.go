package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade/admin"
)

func (a *app) cleanCommand() *cobra.Command {
	var force, all, yes bool
	c := &cobra.Command{
		Use:   "clean",
		Short: "Remove what a killed run or daemon left behind",
		Long: `End the processes and remove the shared memory and sockets that a killed cascade
run, cascade-agent or cascade-controller left behind, and report what was done.
They are recorded in the state folder that --state names; nothing else is
touched. Jobs and results stay, and the next run continues them.

With --all jobs and results are removed as well. The keys of a cluster and its
members (pki) and the audit log (audit.log) stay even then: remove the folder to
delete them.`,
		Example: "  cascade clean\n  cascade clean --state /var/lib/cascade-agent --force",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if all {
				if err := a.confirm(yes, "remove all jobs, logs and results of "+cmp.Or(a.state, "this host's state folder")); err != nil {
					return err
				}
			}
			var opts []admin.CleanOption
			if force {
				opts = append(opts, admin.CleanForce())
			}
			if all {
				opts = append(opts, admin.CleanAll())
			}
			done, err := admin.Clean(a.state, opts...)
			for _, d := range done {
				if e := a.printCleaned(d); e != nil {
					return e
				}
			}
			return err
		},
	}
	c.Flags().BoolVar(&force, "force", false, "first stop a process that is using the folder, and its tasks")
	c.Flags().BoolVar(&all, "all", false, "also remove jobs, logs and results, but not keys and the audit log")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "with --all: do not ask")
	return c
}

func (a *app) removeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "rm",
		Short:   "Remove jobs, environments or members of the cluster",
		Long:    "Remove what is not needed any more. cascade ls lists what there is; cascade clean\nremoves what killed runs and daemons left behind.",
		Example: "  cascade rm jobs last\n  cascade rm environments --age 30d\n  cascade rm members node7",
		Args:    known,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.removeJobCommand(), a.removeEnvironmentsCommand(), a.removeMemberCommand())
	return c
}

func (a *app) printCleaned(c admin.Cleaned) error {
	if a.json {
		return a.printJSON(c)
	}
	var did []string
	if c.Owner != 0 {
		did = append(did, fmt.Sprintf("ended process %d, which served it", c.Owner))
	}
	if n := len(c.Ended); n > 0 {
		did = append(did, fmt.Sprintf("ended its processes: %s", strings.Trim(fmt.Sprint(c.Ended), "[]")))
	}
	if c.Memory != "" {
		did = append(did, fmt.Sprintf("removed %s of shared memory in %s", units.BytesSize(float64(c.Bytes)), c.Memory))
	}
	if n := len(c.Sockets); n > 0 {
		did = append(did, "removed "+plural(n, "socket"))
	}
	if c.Removed {
		did = append(did, "removed its state")
		if len(c.Kept) > 0 {
			did = append(did, fmt.Sprintf("kept %s: rm -r %s removes that", strings.Join(c.Kept, ", "), quoted(c.Dir)))
		}
	}
	if len(did) == 0 {
		did = []string{"nothing was left"}
	}
	_, err := fmt.Fprintf(a.out, "%s in %s: %s\n", c.Part, c.Dir, strings.Join(did, "; "))
	return err
}
