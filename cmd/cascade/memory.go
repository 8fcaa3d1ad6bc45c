package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
)

func (a *app) memoryCommand() *cobra.Command {
	return a.asList(&cobra.Command{
		Use: "memory [JOB]", Short: "List what called tasks and values keep, and what holds them",
		Long: `List the references that agents have: each called task and each value that was
put, until its result is freed. Agents are asked; the totals come first.

OWNER is whose call it is, a session, a task or another agent. HOLDERS keep it:
parent (the owner has a future of it), values that refer to it, readers (calls
that wait for it), lineage (another can be recomputed from it), its owner (of a
task of another agent). PLACE is where its SIZE bytes are: shm is the shared
memory of its host, message the memory of the agent, disk what was spilled.
KIND is call, value, borrowed (found in a value), remote (of another agent) or
copy (of another agent's, for a task that runs here).

` + jobHelp,
		Example: "  cascade memory\n  cascade memory work --sort -size --limit 10\n  cascade memory work --columns holders,size -o csv\n  cascade memory --json", Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			if len(args) == 0 {
				return a.withJobs(ctx, func(client *cascade.Client) error { return a.listMemory(ctx, client, comms.JobID{}) })
			}
			return a.withJob(ctx, args[0], func(client *cascade.Client, j *cascade.Job) error { return a.listMemory(ctx, client, j.ID()) })
		},
	}, "status", "host")
}

// listMemory lists what agents keep of one job, or of all. The rows are held for their totals.
func (a *app) listMemory(ctx context.Context, cl *cascade.Client, job comms.JobID) error {
	rows, err := a.references(ctx, cl, job)
	if err != nil {
		return err
	}
	if a.list.form == "" && !a.json {
		fmt.Fprintln(a.out, totals(rows))
	}
	if len(rows) == 0 && a.list.form == "" && !a.json {
		return nil
	}
	return tableOf(a, each(rows), "name", "kind", "owner", "holders", "size", "place", "host", "age_seconds", "state")
}

// totals says how much is kept, where, and for how many.
func totals(rows []*comms.ReferenceRow) string {
	owners, hosts := map[string]bool{}, map[string]bool{}
	var shm, disk, message, arguments uint64
	for _, r := range rows {
		owners[r.Job+" "+r.Owner], hosts[r.Agent] = true, true
		shm, disk, message, arguments = shm+r.Shm, disk+r.Disk, message+r.Message, arguments+r.Arguments
	}
	if len(rows) == 0 {
		return "no references"
	}
	text := fmt.Sprintf("%s of %s on %s", plural(len(rows), "reference"), plural(len(owners), "owner"), plural(len(hosts), "host"))
	var parts []string
	for _, p := range []struct {
		bytes uint64
		where string
	}{{shm, "in shared memory"}, {disk, "on disk"}, {message, "in messages"}, {arguments, "of arguments"}} {
		if p.bytes > 0 {
			parts = append(parts, size(p.bytes)+" "+p.where)
		}
	}
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	return text
}
