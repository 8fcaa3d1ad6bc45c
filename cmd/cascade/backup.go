package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/admin"
	"github.com/cascade-run/cascade/controller"
	"github.com/cascade-run/cascade/controller/gcs"
)

func (a *app) clusterBackupCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "backup -o FILE",
		Short: "Back up the controller: its store and the authority's key",
		Long: `Write jobs, lineage, profiles, members and tokens as of one moment, and the key
of the cluster's authority, to a file. An older file of that name is replaced.
Protect it like the state folder. The command works on the controller's host, with or without a
running controller. Bytes of datasets belong to agents and are not included; if
they are lost and still needed, they are recomputed.`,
		Example: "  cascade cluster backup -o /backup/cascade.$(date +%F)",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if output == "" || output == "-" {
				return badInputf("backup: say which file to write (-o FILE); it holds a key and is not printed")
			}
			file, err := filepath.Abs(output)
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
				err = a.head(c.Context(), func(client *cascade.Client) error { return admin.Backup(c.Context(), client, file) })
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
	c.Flags().StringVarP(&output, "output", "o", "", "output `file`, which only its owner can read")
	return c
}

func (a *app) clusterRestoreCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore a controller's state folder from a backup",
		Long: `Create the store and the authority from a backup, in a state folder that has
none. The controller that starts on it continues the jobs as they were. Running
agents report what they have; tasks that ended after the backup run again if
their results are still needed and gone.`,
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
