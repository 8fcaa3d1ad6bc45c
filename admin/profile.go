package admin

import (
	"context"
	"fmt"
	"slices"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/profiles"
)

// profilesAtOnce bounds the entries of one message.
const profilesAtOnce = 200

// SetProfiles replaces what the controller knows of what tasks cost, and transfers
// between hosts, for the tasks and hosts that the file is about. Jobs that run keep the profile with which they began. With
// certificates only an admin may. What is known is read with cascade.Rows and
// comms.QueryProfiles and comms.QueryLinks. Large files go in several messages: after an error those
// before it have been taken, as the error says. To repeat the call is safe.
func SetProfiles(ctx context.Context, c *cascade.Client, f *profiles.File) error {
	set := func(what string, from, n, of int, part profiles.File) error {
		part.Version = f.Version
		b, err := part.Encode()
		if err != nil {
			return err
		}
		if _, err := c.Conn().Ask(ctx, func(req uint64) comms.Message { return &comms.SetProfiles{Req: req, File: b} }); err != nil {
			return fmt.Errorf("set %s %d to %d of %d (those before them are set): %w", what, from+1, from+n, of, err)
		}
		return nil
	}
	from := 0
	for some := range slices.Chunk(f.Profiles, profilesAtOnce) {
		if err := set("profiles", from, len(some), len(f.Profiles), profiles.File{Profiles: some}); err != nil {
			return err
		}
		from += len(some)
	}
	from = 0
	for some := range slices.Chunk(f.Links, profilesAtOnce) {
		if err := set("links", from, len(some), len(f.Links), profiles.File{Links: some}); err != nil {
			return err
		}
		from += len(some)
	}
	return nil
}
