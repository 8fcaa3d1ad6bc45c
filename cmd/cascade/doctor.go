package main

import (
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/doctor"
)

// errUnfit says that a check of doctor failed.
var errUnfit = errors.New("this host is not fit")

func (a *app) doctorCommand() *cobra.Command {
	var iface, port string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check this host and suggest fixes",
		Long: `Check shared memory, disk, limits, cgroups, clock, network, and the programs
that build environments. Each line is ok, warn (something is missing that some
jobs need) or fail (no job runs, or not for long). The exit code is 3 if a check
fails. Nothing is changed.`,
		Example: "  cascade doctor\n  cascade doctor --interface ib0 --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			state, err := a.controllerState()
			if err != nil {
				return err
			}
			lines := doctor.ThisHost(state, iface, port).Examine()
			unfit := false
			w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
			for _, l := range lines {
				unfit = unfit || l.State == doctor.Fail
				if a.json {
					if err := a.printJSON(l); err != nil {
						return err
					}
					continue
				}
				fmt.Fprintf(w, "%s\t%s\t%s\n", l.State, l.Check, l.Found)
				if l.Mend != "" {
					fmt.Fprintf(w, "\t\t  %s\n", l.Mend)
				}
			}
			if err := w.Flush(); err != nil {
				return err
			}
			if unfit {
				return reported{errUnfit}
			}
			return nil
		},
	}
	c.Flags().StringVar(&iface, "interface", "", "network interface or address of this host to check (default any)")
	c.Flags().StringVar(&port, "port", comms.DefaultPort, "port on which a controller would listen")
	return c
}
