package main

import (
	"fmt"
	"strings"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade"
)

func (a *app) cleanCommand() *cobra.Command {
	var force, all bool
	c := &cobra.Command{
		Use:   "clean",
		Short: "Remove what a killed run or daemon left behind",
		Long: `Clean ends the processes and removes the shared memory and sockets that a killed
cascade run, cascade-agent or cascade-controller left, and says what it did. It
knows them by what they wrote into the state folder that --state names, and
touches nothing else. Jobs and results stay, and the next run goes on with them.
With --all they go, too; the keys of a cluster and its members (pki) and the audit
log (audit.log) are kept even then: remove the folder to be rid of these.`,
		Example: "  cascade clean\n  cascade clean --state /var/lib/cascade-agent --force",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			var opts []cascade.CleanOption
			if force {
				opts = append(opts, cascade.CleanForce())
			}
			if all {
				opts = append(opts, cascade.CleanAll())
			}
			done, err := cascade.Clean(a.state, opts...)
			for _, d := range done {
				if e := a.printCleaned(d); e != nil {
					return e
				}
			}
			return err
		},
	}
	c.Flags().BoolVar(&force, "force", false, "end a living owner, and its tasks, first")
	c.Flags().BoolVar(&all, "all", false, "remove the state as well: jobs, logs and results, but no keys and no audit log")
	return c
}

func (a *app) printCleaned(c cascade.Cleaned) error {
	if a.json {
		return a.printJSON(c)
	}
	var did []string
	if c.Owner != 0 {
		did = append(did, fmt.Sprintf("ended process %d, which served it", c.Owner))
	}
	if n := len(c.Ended); n > 0 {
		did = append(did, fmt.Sprintf("ended what it had started: %s", strings.Trim(fmt.Sprint(c.Ended), "[]")))
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
