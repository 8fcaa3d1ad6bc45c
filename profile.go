package cascade

import (
	"context"
	"fmt"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/profiles"
)

// profilesAtOnce bounds the entries of one message.
const profilesAtOnce = 200

// SetProfiles replaces what the controller knows of what tasks cost, for the tasks
// that the file is about. Jobs that run keep the profile with which they began. With
// certificates only an admin may. What is known is read with Rows and
// comms.QueryProfiles. Large files go in several messages: after an error those
// before it have been taken, as the error says. To repeat the call is safe.
func (c *Client) SetProfiles(ctx context.Context, f *profiles.File) error {
	for from := 0; from < len(f.Profiles); from += profilesAtOnce {
		part := profiles.File{Version: f.Version, Profiles: f.Profiles[from:min(from+profilesAtOnce, len(f.Profiles))]}
		b, err := part.Encode()
		if err != nil {
			return err
		}
		if _, err := c.ctrl.requests.one(ctx, func(req uint64) comms.Message { return &comms.SetProfiles{Req: req, File: b} }); err != nil {
			return fmt.Errorf("set profiles %d to %d of %d (those before them are set): %w", from+1, from+len(part.Profiles), len(f.Profiles), err)
		}
	}
	return nil
}
