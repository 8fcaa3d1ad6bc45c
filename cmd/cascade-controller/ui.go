package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/controller"
	"github.com/cascade-run/cascade/internal/ui"
)

// pageFile has the address of the page with its token, in the state folder: for the controller's user alone.
const pageFile = "ui.url"

// withPage runs a controller, and beside it the live page at an address of this host, which asks
// the controller over its Unix socket, as an admin.
func withPage(cfg controller.Config, address, socket string, run func(context.Context) error) func(context.Context) error {
	if address == "" {
		return run
	}
	return func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		page := make(chan error, 1)
		go func() {
			err := servePage(ctx, cfg, address, socket)
			if err != nil {
				cancel() // a page that was asked for and is not there is an error, as metrics are
			}
			page <- err
		}()
		err := run(ctx)
		cancel()
		return errors.Join(err, <-page)
	}
}

func servePage(ctx context.Context, cfg controller.Config, address, socket string) (err error) {
	client, err := cascade.Dial(ctx, socket, cascade.WithLog(cfg.Log))
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("page: %w", err)
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	u := ui.Config{Source: ui.Cluster{Client: client}, Cluster: cfg.Name, Role: "admin", Flags: []string{"--to", socket}, Version: cascade.Version()}
	if me, err := user.Current(); err == nil {
		u.User = me.Username
	}
	if u.Cluster == "" {
		u.Cluster = "controller"
	}
	s, err := ui.Listen(address, u)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	file := filepath.Join(cfg.State, pageFile)
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) { // it may be another's link
		return fmt.Errorf("page: %w", err)
	}
	if err := os.WriteFile(file, []byte(s.URL()+"\n"), 0o600); err != nil {
		return fmt.Errorf("page: write its address: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(file)) }()
	cfg.Log.Info().Str("address", s.Addr()).Str("file", file).Msg("page: the file has the address to open")
	<-ctx.Done()
	return nil
}

// socketOf is the Unix socket among the addresses of a controller.
func socketOf(addresses string) string {
	for a := range strings.SplitSeq(addresses, ",") {
		if strings.HasPrefix(a, "ipc://") {
			return a
		}
	}
	return addresses
}
