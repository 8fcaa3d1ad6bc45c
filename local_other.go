//go:build !linux

package cascade

import (
	"context"
	"errors"
)

// Cluster is a cluster on this host, and a client of it.
type Cluster struct{ *Client }

// Owned tells whether the cluster runs in this process.
func (c *Cluster) Owned() bool { return false }

// AwaitJoined returns at once: no process joins here.
func (c *Cluster) AwaitJoined(context.Context, func()) error { return nil }

// Local needs Linux: shared memory, process death and cgroups are Linux's here.
// On other systems use Dial.
func Local(context.Context, ...Option) (*Cluster, error) {
	return nil, errors.New("start a local cluster: controller and agents run on Linux only; use Dial, or --to ADDRESS, with a cluster there")
}
