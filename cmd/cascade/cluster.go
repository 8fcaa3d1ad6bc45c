package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cmd/internal/daemon"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller"
	"github.com/cascade-run/cascade/internal/owner"
)

func (a *app) clusterCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "cluster",
		Short: "Make a cluster of hosts, and say who may be in it",
		Long: `Hosts and people become members of a cluster by tokens, and prove themselves by
certificates of the cluster's own authority. What is asked of a controller that
runs on this host goes over its Unix socket: of the state folder that --state
names, unless --to names another controller.`,
		Example: `  cascade cluster init                                   # where the controller is to run
  cascade-controller --listen tcp://10.0.0.1:7420
  cascade-agent --join 10.0.0.1 --token cascade1.…       # on every host
  cascade cluster user anna --role submit                # prints what anna has to type`,
		Args: known,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.clusterInitCommand(), a.clusterTokenCommand(), a.clusterUserCommand(), a.clusterJoinCommand(),
		a.clusterMembersCommand(), a.clusterTokensCommand(), a.clusterRevokeCommand(), a.clusterDrainCommand(), a.clusterRenewCommand(),
		a.clusterBackupCommand(), a.clusterRestoreCommand())
	return c
}

// controllerState is the state folder of the controller on this host.
func (a *app) controllerState() (string, error) {
	if a.state != "" {
		return filepath.Abs(a.state)
	}
	return owner.StateFolder("controller")
}

// head connects to the controller that is meant.
func (a *app) head(ctx context.Context, f func(*cascade.Client) error) (err error) {
	to, dir := a.to, ""
	if to == "" {
		if dir, err = a.controllerState(); err != nil {
			return err
		}
		to = daemon.ControllerSocket(dir)
	}
	c, err := cascade.Dial(ctx, to, a.options()...)
	if err != nil {
		if dir != "" && owner.NobodyListens(err) {
			return fmt.Errorf("no controller serves %s on this host: start cascade-controller --state %s (after cascade cluster init), or say another with --state or --to: %w", dir, quoted(dir), err)
		}
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return f(c)
}

func (a *app) clusterInitCommand() *cobra.Command {
	var cfg controller.Founding
	c := &cobra.Command{
		Use:   "init",
		Short: "Make the authority of a new cluster, and the first token",
		Long: `Makes the key and certificate of the cluster's authority in the state folder of a
controller that does not run yet, and a token with which its hosts join. The
name is what --to takes on this host from now on.`,
		Example: "  cascade cluster init\n  cascade cluster init --state /var/lib/cascade --name hpc --uses 100",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			var err error
			if cfg.State, err = a.controllerState(); err != nil {
				return err
			}
			t, expires, err := controller.Found(cfg)
			if errors.Is(err, fs.ErrExist) {
				return badInputf("%w; cascade cluster token makes a token for more hosts", err)
			}
			if errors.Is(err, controller.ErrInvalid) {
				return badInput{err}
			}
			if err != nil {
				return err
			}
			if _, err := cascade.RememberCluster(cfg.Name, daemon.ControllerSocket(cfg.State)); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(tokenObject{Cluster: cfg.Name, State: cfg.State, Token: t.String(), Role: "agent", Uses: cfg.Uses, Expires: expires})
			}
			_, err = fmt.Fprintf(a.out, `cluster %s: its authority is in %s; keep a copy of that folder safe
start the controller:  cascade-controller --state %s --listen tcp://ADDRESS:%s
on each host:          cascade-agent --join ADDRESS --token %s
The token admits %s until %s.
`, cfg.Name, filepath.Join(cfg.State, "pki"), cfg.State, comms.DefaultPort, t, plural(cfg.Uses, "host"), expires.Local().Format(time.DateTime))
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&cfg.Name, "name", "cascade", "name of the cluster")
	f.IntVar(&cfg.Uses, "uses", 32, "how many hosts may join with the token")
	f.DurationVar(&cfg.Life, "for", 24*time.Hour, "how long the token is good")
	f.IntVar(&cfg.Shards, "shards", 0, "shards of the store (default 2)")
	return c
}

type tokenObject struct {
	Cluster string    `json:"cluster,omitempty"`
	State   string    `json:"state,omitempty"`
	Token   string    `json:"token"`
	Role    string    `json:"role"`
	Name    string    `json:"name,omitempty"`
	Uses    int       `json:"uses"`
	Expires time.Time `json:"expires"`
}

// invite has a token made and prints it: alone, so that scripts can use it, or
// with what its bearer has to type.
func (a *app) invite(ctx context.Context, o tokenObject, life time.Duration, how string) error {
	return a.head(ctx, func(client *cascade.Client) error {
		token, expires, err := client.Invite(ctx, o.Role, o.Name, o.Uses, life)
		if err != nil {
			return err
		}
		if o.Token, o.Expires = token, expires; a.json {
			return a.printJSON(o)
		}
		if how == "" {
			fmt.Fprintf(a.err, "It admits %s until %s; for more: %s\n", plural(o.Uses, admitted(o.Role)), expires.Local().Format(time.DateTime), a.hint("cluster", "token", "--role", o.Role, "--uses", "N"))
			_, err = fmt.Fprintln(a.out, token)
			return err
		}
		_, err = fmt.Fprintf(a.out, how, token, expires.Local().Format(time.DateTime))
		return err
	})
}

// admitted is what one that joins with a role is called.
func admitted(role string) string {
	if role == "agent" {
		return "host"
	}
	return "person"
}

func (a *app) clusterTokenCommand() *cobra.Command {
	o := tokenObject{}
	var life time.Duration
	c := &cobra.Command{
		Use:   "token",
		Short: "Make a token with which hosts join",
		Long: `Makes a token and prints it, and on standard error for how many and until when it
is good. One that names nobody admits no host under the name
of a member; one that names a host replaces that host, whose certificate is
revoked then.`,
		Example: "  cascade cluster token --uses 8 --for 2h\n  cascade cluster token --name node7",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.invite(c.Context(), o, life, "") },
	}
	f := c.Flags()
	f.StringVar(&o.Role, "role", "agent", "of who joins: agent, admin, submit or observe")
	f.StringVar(&o.Name, "name", "", "of who joins (default: who joins chooses one)")
	f.IntVar(&o.Uses, "uses", 1, "how many may join with it")
	f.DurationVar(&life, "for", time.Hour, "how long it is good")
	return c
}

func (a *app) clusterUserCommand() *cobra.Command {
	o := tokenObject{Uses: 1}
	var life time.Duration
	c := &cobra.Command{
		Use:   "user NAME",
		Short: "Let a person into the cluster",
		Long: `Makes a token for one person and prints what to type with it. An observer may look
at jobs and results, a submitter also submit jobs and steer those that are his
or hers, an admin everything.`,
		Example: "  cascade cluster user anna\n  cascade cluster user ben --role observe",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if o.Name = args[0]; strings.TrimSpace(o.Name) == "" {
				return badInputf("user: the NAME is empty: say who the token is for")
			}
			return a.invite(c.Context(), o, life, o.Name+" types:  cascade cluster join ADDRESS --name "+o.Name+" --token %s\nThe token is good until %s.\n")
		},
	}
	f := c.Flags()
	f.StringVar(&o.Role, "role", "submit", "observe, submit or admin")
	f.DurationVar(&life, "for", 24*time.Hour, "how long the token is good")
	return c
}

func (a *app) clusterJoinCommand() *cobra.Command {
	var token, name string
	c := &cobra.Command{
		Use:   "join HOST[:PORT] --token TOKEN",
		Short: "Become a member of a cluster, as a person",
		Long: `Makes a key, has it certified by the cluster's authority, and keeps both in the
folder cascade/clusters in $XDG_CONFIG_HOME (~/.config). Then --to takes the
address, or the cluster's name. The certificate renews itself when it is used;
it ends when it is not used for 30 days. (Hosts join by cascade-agent --join.)`,
		Example: "  cascade cluster join head.example.org --token cascade1.…\n  cascade status --to head.example.org",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if token == "" {
				if token = a.getenv("CASCADE_TOKEN"); token == "" {
					return badInputf("join: a token is needed (--token, CASCADE_TOKEN); an admin makes it: cascade cluster user NAME")
				}
			}
			if name == "" {
				u, err := user.Current()
				if err != nil {
					return badInputf("join: find your name (or say it with --name): %w", err)
				}
				name = u.Username
			}
			cluster, err := cascade.JoinCluster(c.Context(), args[0], token, name)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(struct {
					Cluster string `json:"cluster"`
					Name    string `json:"name"`
				}{cluster, name})
			}
			_, err = fmt.Fprintf(a.out, "%s is a member of cluster %s: cascade status --to %s\n", name, cluster, cluster)
			return err
		},
	}
	c.Flags().StringVar(&token, "token", "", "the token, also CASCADE_TOKEN")
	c.Flags().StringVar(&name, "name", "", "your name in the cluster, which the token must be for (default your user's)")
	return c
}

func (a *app) clusterMembersCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "members",
		Short: "List who may be in the cluster, by certificate",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.head(c.Context(), func(client *cascade.Client) error {
				rows, err := cascade.Rows[comms.MemberRow](c.Context(), client, comms.QueryMembers, comms.JobID{}, "")
				if err != nil {
					return err
				}
				return table(a, rows, "role", "name", "state", "expires", "serial")
			})
		},
	}
}

func (a *app) clusterTokensCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "tokens",
		Short: "List the tokens that are good for somebody",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.head(c.Context(), func(client *cascade.Client) error {
				rows, err := cascade.Rows[comms.TokenRow](c.Context(), client, comms.QueryTokens, comms.JobID{}, "")
				if err != nil {
					return err
				}
				return table(a, rows, "id", "role", "name", "uses", "expires")
			})
		},
	}
}

func (a *app) clusterDrainCommand() *cobra.Command {
	var grace time.Duration
	var reason string
	c := &cobra.Command{
		Use:   "drain AGENT",
		Short: "Have an agent leave: others take its work and its datasets, then it ends",
		Long: `What the agent has not begun goes to others at once. What only it has of datasets
that are still needed moves to others. What runs there may end, as long as the
grace says; what does not runs again elsewhere. Then the agent ends. SIGTERM to
its process does the same.`,
		Example: "  cascade cluster drain node7\n  cascade cluster drain node7 --grace 5m --reason \"new kernel\"",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if grace < 0 {
				return badInputf("drain: --grace %v: it cannot be negative", grace)
			}
			return a.head(c.Context(), func(client *cascade.Client) error {
				if err := client.Drain(c.Context(), args[0], grace, reason); err != nil {
					return err
				}
				if a.json {
					return nil
				}
				_, err := fmt.Fprintf(a.out, "agent %s leaves: cascade ls agents tells when it is gone\n", args[0])
				return err
			})
		},
	}
	c.Flags().DurationVar(&grace, "grace", 0, "how long what runs there may take to end (default: the agent's own --drain)")
	c.Flags().StringVar(&reason, "reason", "", "why, for the logs")
	return c
}

func (a *app) clusterRevokeCommand() *cobra.Command {
	var role, serial string
	c := &cobra.Command{
		Use:   "revoke [NAME]",
		Short: "End memberships: certificates are refused and links closed from now on",
		Long: `Ends the memberships of a role and name, and voids the tokens for it; or the one
certificate or token with a serial number, as members and tokens list them.`,
		Example: "  cascade cluster revoke node7\n  cascade cluster revoke anna --role submit\n  cascade cluster revoke --serial 5d1f…",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			switch {
			case (name == "") == (serial == ""):
				return badInputf("revoke: say a NAME, or --serial")
			case serial != "":
				role = ""
			}
			return a.head(c.Context(), func(client *cascade.Client) error {
				if err := client.Revoke(c.Context(), role, name, serial); err != nil {
					return err
				}
				if a.json {
					return nil
				}
				_, err := fmt.Fprintf(a.out, "%s %s%s is revoked\n", role, name, serial)
				return err
			})
		},
	}
	c.Flags().StringVar(&role, "role", "agent", "role of the member: agent, admin, submit or observe")
	c.Flags().StringVar(&serial, "serial", "", "serial number of one certificate, or identifier of one token")
	return c
}

func (a *app) clusterRenewCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "renew",
		Short: "Renew your certificate now, which otherwise happens by itself",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if a.to == "" {
				return badInputf("renew: say which cluster (--to)")
			}
			return a.head(c.Context(), func(client *cascade.Client) error { return client.Renew(c.Context()) })
		},
	}
}
