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
	"github.com/cascade-run/cascade/admin"
	"github.com/cascade-run/cascade/cmd/internal/amount"
	"github.com/cascade-run/cascade/cmd/internal/daemon"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller"
	"github.com/cascade-run/cascade/internal/statedir"
)

func (a *app) clusterCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "cluster",
		Short: "Create a cluster, and manage its members and hosts",
		Long: `Create a cluster, and manage its members and hosts. Hosts and people join with
tokens and authenticate with certificates of the cluster's own authority. On the
controller's host these commands use its Unix socket, in the state folder that
--state names; elsewhere name the cluster with --to.`,
		Example: `  cascade cluster init --name hpc              # on the host of the controller
  cascade-controller --listen tcp://10.0.0.1:7420
  cascade-agent --join 10.0.0.1 --token cascade1.…       # on every other host
  cascade cluster user anna --role submit      # prints the command for anna`,
		Args: known,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.clusterInitCommand(), a.clusterTokenCommand(), a.clusterUserCommand(), a.clusterJoinCommand(),
		a.clusterDrainCommand(), a.clusterRenewCommand(),
		a.clusterBackupCommand(), a.clusterRestoreCommand())
	return c
}

// controllerState is the state folder of the controller on this host.
func (a *app) controllerState() (string, error) {
	if a.state != "" {
		return filepath.Abs(a.state)
	}
	return statedir.StateFolder("controller")
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
		if dir != "" && statedir.NobodyListens(err) {
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
		Short: "Create a cluster: its authority and the first join token",
		Long: `Create the key and certificate of the cluster's authority in the state folder of
a controller that is not running yet, and print a token with which hosts join.
From now on --to on this host accepts the cluster's name.`,
		Example: "  cascade cluster init --name hpc\n  cascade cluster init --state /var/lib/cascade --name hpc --uses 100",
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
			if _, err := admin.RememberCluster(cfg.Name, daemon.ControllerSocket(cfg.State)); err != nil { // the authority is there, and its token is told once
				a.note("warning: %v; name the cluster by --to ADDRESS or --state %s", err, cfg.State)
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
	f.IntVar(&cfg.Uses, "uses", 32, "number of hosts that the token admits")
	amount.Duration(f, &cfg.Life, "for", 24*time.Hour, "validity of the token")
	f.IntVar(&cfg.Shards, "shards", 0, "number of shards of the store (default 2)")
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
		token, expires, err := admin.Invite(ctx, client, o.Role, o.Name, o.Uses, life)
		if err != nil {
			return err
		}
		if o.Token, o.Expires = token, expires; a.json {
			return a.printJSON(o)
		}
		if how == "" {
			a.note("It admits %s until %s; for more: %s", plural(o.Uses, admitted(o.Role)), expires.Local().Format(time.DateTime), a.hint("cluster", "token", "--role", o.Role, "--uses", "N"))
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
		Short: "Create a join token for hosts",
		Long: `Create a join token and print it. Standard error says how many hosts it admits
and until when. A token without --name admits no host under the name of an
existing member. A token with --name replaces that host: its certificate is
revoked when the token is used.`,
		Example: "  cascade cluster token --uses 8 --for 2h\n  cascade cluster token --name node7",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.invite(c.Context(), o, life, "") },
	}
	f := c.Flags()
	f.StringVar(&o.Role, "role", "agent", "role granted by the token: agent, admin, submit or observe")
	f.StringVar(&o.Name, "name", "", "member name (default: chosen at join)")
	f.IntVar(&o.Uses, "uses", 1, "number of members that the token admits")
	amount.Duration(f, &life, "for", time.Hour, "validity of the token")
	return c
}

func (a *app) clusterUserCommand() *cobra.Command {
	o := tokenObject{Uses: 1}
	var life time.Duration
	c := &cobra.Command{
		Use:   "user NAME",
		Short: "Create a join token for a person",
		Long: `Create a join token for one person and print the command that uses it. The role
observe reads jobs and results; submit also submits jobs and controls its own;
admin may do everything.`,
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
	f.StringVar(&o.Role, "role", "submit", "role of the person: observe, submit or admin")
	amount.Duration(f, &life, "for", 24*time.Hour, "validity of the token")
	return c
}

func (a *app) clusterJoinCommand() *cobra.Command {
	var token, name string
	c := &cobra.Command{
		Use:   "join HOST[:PORT] --token TOKEN",
		Short: "Join a cluster as a person",
		Long: `Create a key, have it certified by the cluster's authority, and keep both in
cascade/clusters in $XDG_CONFIG_HOME (~/.config). Afterwards --to accepts the
address and the cluster's name. The certificate renews itself when it is used,
and expires after 30 days without use. Hosts join with cascade-agent --join.`,
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
			cluster, err := admin.JoinCluster(c.Context(), args[0], token, name)
			switch {
			case err != nil && unreachable(err):
				return hinted{err, "is cascade-controller running there, and is its --listen this address and port?"}
			case err != nil:
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
	c.Flags().StringVar(&token, "token", "", "join token; also CASCADE_TOKEN")
	c.Flags().StringVar(&name, "name", "", "your name in the cluster, as in the token (default your user name)")
	return c
}

func (a *app) listMembersCommand() *cobra.Command {
	return a.asList(&cobra.Command{
		Use:   "members",
		Short: "List the members of the cluster and their certificates",
		Long: `List the members of the cluster and their certificates, one row for each
certificate. STATE is connected, valid (not connected now) or revoked. A
certificate that has expired is not listed.`,
		Example: "  cascade ls members\n  cascade ls members --to hpc --json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.head(c.Context(), func(client *cascade.Client) error {
				rows, err := cascade.Rows[comms.MemberRow](c.Context(), client, comms.QueryMembers, comms.JobID{}, "")
				if err != nil {
					return err
				}
				return table(a, rows, "name", "role", "state", "expires", "serial")
			})
		},
	})
}

func (a *app) listTokensCommand() *cobra.Command {
	return a.asList(&cobra.Command{
		Use:   "tokens",
		Short: "List valid join tokens",
		Long: `List the tokens that still admit members: not those that have expired or were
used up. USES is how many members each still admits. The secret of a token is
printed only when it is created.`,
		Example: "  cascade ls tokens",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.head(c.Context(), func(client *cascade.Client) error {
				rows, err := cascade.Rows[comms.TokenRow](c.Context(), client, comms.QueryTokens, comms.JobID{}, "")
				if err != nil {
					return err
				}
				return table(a, rows, "id", "role", "name", "uses", "expires")
			})
		},
	})
}

func (a *app) clusterDrainCommand() *cobra.Command {
	var grace time.Duration
	var reason string
	c := &cobra.Command{
		Use:   "drain HOST",
		Short: "Drain a host: move its tasks and datasets, then stop its agent",
		Long: `Drain a host. Its pending tasks move to other hosts at once, and datasets that
only it has and that are still needed are copied to others. Running tasks may
finish within the grace; those that do not run again elsewhere. Then its agent
stops. SIGTERM to the agent's process does the same. The command returns at once:
cascade ls hosts shows the host as leaving, then as left.`,
		Example: `  cascade cluster drain node7
  cascade cluster drain node7 --grace 5m --reason "new kernel"`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if grace < 0 {
				return badInputf("drain: --grace %v: it cannot be negative", grace)
			}
			return a.head(c.Context(), func(client *cascade.Client) error {
				err := admin.Drain(c.Context(), client, args[0], grace, reason)
				switch {
				case errors.Is(err, cascade.ErrNotFound):
					return hinted{err, a.hint("ls", "hosts") + " lists the hosts"}
				case err != nil:
					return err
				}
				if a.json {
					return nil
				}
				_, err = fmt.Fprintf(a.out, "host %s leaves: cascade ls hosts tells when it is gone\n", args[0])
				return err
			})
		},
	}
	amount.Duration(c.Flags(), &grace, "grace", 0, "time for running tasks to finish (default: --drain of the agent)")
	c.Flags().StringVar(&reason, "reason", "", "reason, for the audit log")
	return c
}

func (a *app) removeMemberCommand() *cobra.Command {
	var role, serial string
	var yes bool
	c := &cobra.Command{
		Use:   "members [NAME]",
		Short: "Remove members of the cluster: revoke their certificates",
		Long: `Revoke the memberships of a role and name, close their links, and void the
tokens for the name; or with --serial one certificate or token, as cascade ls
members and cascade ls tokens list them.`,
		Example: `  cascade rm members node7
  cascade rm members anna --role submit
  cascade rm members --serial 5d1f… --yes`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			switch {
			case (name == "") == (serial == ""):
				return badInputf("rm members: say a NAME, or --serial")
			case serial != "":
				role = ""
			}
			if err := a.confirm(yes, strings.Join(strings.Fields("revoke "+role+" "+name+serial), " ")); err != nil {
				return err
			}
			return a.head(c.Context(), func(client *cascade.Client) error {
				err := admin.Revoke(c.Context(), client, role, name, serial)
				switch {
				case errors.Is(err, cascade.ErrNotFound):
					return hinted{fmt.Errorf("remove %s: %w", strings.Join(strings.Fields(role+" "+name+serial), " "), err), a.hint("ls", "members") + " and " + a.hint("ls", "tokens") + " list them"}
				case err != nil:
					return err
				}
				if a.json {
					return nil
				}
				if role == "" {
					role = "certificate or token"
				}
				_, err = fmt.Fprintf(a.out, "%s %s%s is revoked\n", role, name, serial)
				return err
			})
		},
	}
	c.Flags().StringVar(&role, "role", "agent", "role of the member: agent, admin, submit or observe")
	c.Flags().StringVar(&serial, "serial", "", "serial number of one certificate, or ID of one token")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return c
}

func (a *app) clusterRenewCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "renew",
		Short: "Renew your certificate now instead of automatically",
		Long: `Renew your certificate now, for example after it may have been copied. Without
this command it renews itself in the last third of its time, when it is used. The
old one stays valid until it expires: cascade rm members --serial revokes it.
Agents renew theirs by themselves.`,
		Example: "  cascade cluster renew --to hpc",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if a.to == "" {
				return badInputf("renew: say which cluster (--to)")
			}
			return a.head(c.Context(), func(client *cascade.Client) error { return admin.Renew(c.Context(), client) })
		},
	}
}
