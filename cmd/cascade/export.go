package main

import (
	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/internal/outfile"
)

func (a *app) exportCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "export JOB",
		Short: "Export a job or session as a recording in WfFormat",
		Long: `Write what a job or session did in WfFormat 1.5: its graph, and the times, sizes
and hosts of its tasks. Tasks that did not end well are left out. Another
cluster predicts from it with cascade replay FILE --simulate.

` + jobHelp,
		Example: "  cascade export last -o job.json\n  cascade replay job.json --simulate --hosts 8x16c64g",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withJob(c.Context(), args[0], func(client *cascade.Client, j *cascade.Job) error {
				b, err := a.record(c.Context(), client, j)
				if err != nil {
					return err
				}
				if output == "-" {
					_, err = a.bytes().Write(b)
					return err
				}
				if err := outfile.WriteBytes(output, b); err != nil {
					return badInputf("write recording: %w", err)
				}
				return nil
			})
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "-", "output `file`; - is standard output")
	return c
}
