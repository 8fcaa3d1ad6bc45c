package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade/admin"
	"github.com/cascade-run/cascade/internal/safedir"
	"github.com/cascade-run/cascade/internal/statedir"
)

func (a *app) connectCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "connect [FOLDER] --to CLUSTER",
		Short: "Open local sockets to a cluster for plain ZeroMQ programs",
		Long: `Open Unix sockets for programs of this user that have no TLS, such as Python
with pyzmq: controller.sock, and agent-NAME.sock for every agent. Their traffic
reaches the cluster by TLS with your certificate and role. The command prints
the address of the controller's socket when it is ready, and serves until it is
interrupted. FOLDER gets mode 0700; the default is a folder in $XDG_RUNTIME_DIR,
else in /tmp/cascade-UID.`,
		Example: "  cascade connect --to hpc\n  cascade connect ./sockets --to head.example.org",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if a.to == "" {
				return badInputf("connect: say which cluster (--to)")
			}
			dir, err := socketFolder(a.to)
			if len(args) == 1 {
				dir, err = args[0], nil
			} else if err == nil {
				err = safedir.Private(filepath.Dir(dir)) // it may be in /tmp, where others could have made it
			}
			if err != nil {
				return err
			}
			g, err := admin.OpenGateway(c.Context(), a.to, dir, a.options()...)
			if err != nil {
				return err
			}
			if a.json {
				err = a.printJSON(struct {
					Address string `json:"address"`
				}{g.Address()})
			} else {
				_, err = fmt.Fprintln(a.out, g.Address())
			}
			if err == nil {
				<-c.Context().Done()
			}
			if e := g.Close(); err == nil {
				err = e
			}
			return err
		},
	}
}

// socketFolder is where the sockets to a cluster are by default.
func socketFolder(to string) (string, error) {
	base, err := statedir.RuntimeFolder()
	if err != nil {
		return "", err
	}
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune("/:[]", r) {
			return '-'
		}
		return r
	}, strings.TrimPrefix(to, "tcp://"))
	return filepath.Join(base, "to-"+name), nil
}
