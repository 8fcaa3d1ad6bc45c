package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/user"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/internal/ui"
)

// uiPort is the port of the page; when it is taken a free one is.
const uiPort = 7430

func (a *app) uiCommand() *cobra.Command {
	port, hosts := uiPort, []string(nil)
	c := &cobra.Command{
		Use:   "ui [JOB]",
		Short: "Serve a live page of jobs and hosts for a browser",
		Long: `Serve a live page of jobs, tasks and hosts on this host, and print its address.
Open the address in a browser. The page acts with your certificate and role, and
ends with this command (Ctrl-C). With JOB the address is that of the job.

The address has a secret behind #, without which the page shows nothing. From
another machine, forward the port: ssh -L 7430:127.0.0.1:7430 HOST, and open the
same address there.

` + jobHelp,
		Example: "  cascade ui\n  cascade ui last\n  cascade ui --to hpc --port 8080",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if port < 0 || port > 65535 {
				return badInputf("--port %d: want a number from 0 to 65535", port)
			}
			return a.listing(a.withJobs(c.Context(), func(client *cascade.Client) error {
				at := ""
				if len(args) == 1 {
					j, err := findJob(c.Context(), client, args[0])
					if err != nil {
						return err
					}
					at = "&at=/jobs/" + j.ID().String()
				}
				return a.servePage(c.Context(), client, port, c.Flags().Changed("port"), hosts, at)
			}))
		},
	}
	c.Flags().IntVar(&port, "port", uiPort, "port on this host; 0: a free one (default 7430, or a free one when that is taken)")
	c.Flags().Lookup("port").DefValue = "0"
	c.Flags().StringSliceVar(&hosts, "host", nil, "a `name` by which a proxy asks for the page, HOST or HOST:PORT; repeatable")
	return c
}

// servePage serves the page until ctx ends.
func (a *app) servePage(ctx context.Context, client *cascade.Client, port int, exact bool, hosts []string, at string) error {
	cfg := ui.Config{Source: ui.Cluster{Client: client}, Hosts: hosts, Cluster: a.to, Role: "admin", Flags: a.clusterFlags(), Version: cascade.Version(), Alone: a.alone}
	if cfg.Cluster == "" {
		cfg.Cluster = "this host"
	}
	if u, err := user.Current(); err == nil {
		cfg.User = u.Username
	}
	if id, ok := client.Conn().Identity(); ok {
		cfg.Cluster, cfg.User, cfg.Role = id.Cluster, id.Name, string(id.Role)
	}
	s, err := ui.Listen(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), cfg)
	if err != nil && !exact {
		s, err = ui.Listen("127.0.0.1:0", cfg)
	}
	if err != nil {
		return err
	}
	if a.json {
		err = a.printJSON(map[string]string{"url": s.URL() + at})
	} else {
		_, err = fmt.Fprintln(a.out, s.URL()+at)
	}
	if err == nil {
		<-ctx.Done()
	}
	return errors.Join(err, s.Close())
}

// clusterFlags are the flags that name the cluster or the state, as hint repeats them.
func (a *app) clusterFlags() (words []string) {
	if a.to != "" {
		words = append(words, "--to", a.to)
	}
	if a.state != "" {
		words = append(words, "--state", a.state)
	}
	if a.tcp {
		words = append(words, "--insecure-test-network")
	}
	return words
}
