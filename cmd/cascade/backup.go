package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/controller"
	"github.com/cascade-run/cascade/controller/gcs"
)

func (a *app) clusterBackupCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "Write the controller's store and the authority's key to a file",
		Long: `Writes jobs, lineage, profiles, members and tokens as they are at one moment, and the
key of the cluster's authority: keep FILE as safe as the state folder. It works on
the controller's host, beside a controller that runs and without one. Bytes of
datasets are the agents' and not in it: what is still needed of them is computed
again if it is lost.`,
		Example: "  cascade cluster backup /backup/cascade.$(date +%F)",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			file, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			dir, err := a.controllerState()
			if err != nil {
				return err
			}
			if a.to == "" {
				if _, err := os.Stat(filepath.Join(dir, "store")); err != nil {
					return badInputf("backup: there is no controller's store in %s (--state): %w", dir, err)
				}
				err = controller.Backup(dir, file)
			}
			if running := new(gcs.LockedError); a.to != "" || errors.As(err, &running) {
				err = a.head(c.Context(), func(client *cascade.Client) error { return client.Backup(c.Context(), file) })
			}
			if err != nil || a.json {
				return err
			}
			info, err := os.Stat(file)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.out, "%s: %s\n", file, size(uint64(info.Size())))
			return err
		},
	}
}

func (a *app) clusterRestoreCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a controller's state folder out of a backup",
		Long: `Makes the store and the authority out of a backup, in a state folder that has none.
The controller that starts on it goes on with the jobs as they were; agents that
live tell it what they have, and what has ended since the backup is done again as
far as it is needed.`,
		Example: "  cascade cluster restore /backup/cascade.2026-11-21 --state /var/lib/cascade",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := a.controllerState()
			if err != nil {
				return err
			}
			if err := controller.Restore(dir, args[0]); err != nil {
				return err
			}
			if a.json {
				return nil
			}
			_, err = fmt.Fprintf(a.out, "%s is ready: cascade-controller --state %s\n", dir, dir)
			return err
		},
	}
}
