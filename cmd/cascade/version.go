package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade/cmd/internal/daemon"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the protocol and the platform",
		Long: `Print the version and revision of this program, the version of the protocol that
it speaks, and the Go release and platform for which it was built. --version
prints the same; --json also has the version of what --json prints (schema).`,
		Example: "  cascade version\n  cascade --version\n  cascade version --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				return a.printJSON(struct {
					Schema int `json:"schema"`
					daemon.Build
				}{jsonVersion, daemon.ThisBuild()})
			}
			_, err := fmt.Fprintln(a.out, "cascade", daemon.ThisBuild())
			return err
		},
	}
}
