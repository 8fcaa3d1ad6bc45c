package admin

import (
	"bytes"
	"context"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/planner"
)

// Same tells whether a job is one of this graph, submitted from dir, and whether its files
// are what they were then: to submit the graph again would do the same once more.
func Same(ctx context.Context, c *cascade.Client, id comms.JobID, g *dag.Graph, dir string) (bool, error) {
	had, from, err := c.Graph(ctx, id)
	if err != nil || had.Name != g.Name {
		return false, err
	}
	if abs, err := c.Conn().Folder(dir); err != nil || from != abs {
		return false, err
	}
	shipped, err := c.Conn().Packed(ctx, g, from)
	if err != nil {
		return false, err
	}
	return bytes.Equal(had.Encode(), shipped.Encode()), nil
}

// Unserved says, for people, which agents that are there now get no task of an
// environment of a job, as it has no binary for their platforms.
func Unserved(ctx context.Context, c *cascade.Client, j *cascade.Job) ([]string, error) {
	g := j.Graph()
	if g == nil || !g.NamesPlatforms() {
		return nil, nil
	}
	rows, err := cascade.Rows[comms.AgentRow](ctx, c, comms.QueryAgents, comms.JobID{}, "")
	if err != nil {
		return nil, err
	}
	var hosts []planner.Host
	for i := range rows {
		if r := &rows[i]; r.State == "ready" {
			hosts = append(hosts, planner.Host{Name: r.Name, Platform: planner.PlatformOf(r.Platform)})
		}
	}
	return planner.Unserved(g, hosts), nil
}
