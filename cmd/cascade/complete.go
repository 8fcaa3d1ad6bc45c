package main

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
)

// completionTime bounds what a press of Tab waits for.
const completionTime = 200 * time.Millisecond

// completedNames is the most names that a press of Tab offers.
const completedNames = 200

// completer offers the words that a user may mean.
type completer = func(c *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective)

// completions gives all commands below c what Tab offers: by the names of their arguments and
// of their flags.
func (a *app) completions(c *cobra.Command) {
	for _, sub := range c.Commands() {
		a.completions(sub)
	}
	words := strings.Fields(c.Use)[1:]
	if c.ValidArgsFunction == nil && !c.HasSubCommands() {
		c.ValidArgsFunction = func(c *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(words) == 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			if slices.Contains(words, "|") { // FILE | JOB
				return a.completeWord(c, "JOB", args, typed, true)
			}
			word := words[min(len(args), len(words)-1)]
			if len(args) >= len(words) && !strings.HasSuffix(word, "...") {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return a.completeWord(c, strings.Trim(word, "[]."), args, typed, slices.Contains(words, "FILE"))
		}
	}
	c.Flags().VisitAll(func(f *pflag.Flag) { a.completeFlag(c, f) })
	c.PersistentFlags().VisitAll(func(f *pflag.Flag) { a.completeFlag(c, f) })
}

func (a *app) completeFlag(c *cobra.Command, f *pflag.Flag) {
	var offer completer
	fixed := func(words []string) completer {
		return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
	}
	switch v := f.Value.(type) {
	case *choice:
		offer = fixed(v.of)
	case *listForm:
		offer = fixed(v.of)
	}
	switch f.Name {
	case "status":
		offer = fixed([]string{"queued", "held", "running", "done", "failed", "cancelled", "waiting", "ready", "skipped", "cut-off", "away"})
	case "role":
		offer = fixed([]string{"observe", "submit", "admin", "agent"})
	case "format":
		offer = fixed([]string{"dot", "mermaid", "svg"})
	case "durability":
		offer = fixed([]string{"crash", "power-loss"})
	case "for":
		if f.Value.Type() == "string" {
			offer = fixed(waitFors)
		}
	case "host":
		offer = a.complete("HOST")
	case "family", "from", "task":
		offer = a.complete("TASK")
	case "resume":
		offer = a.complete("JOB")
	case "cache", "plugins":
		offer = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		}
	}
	if offer != nil {
		_ = c.RegisterFlagCompletionFunc(f.Name, offer) // it is registered once
	}
}

// complete offers names of a kind for a flag: of tasks, those of the job that the command names.
func (a *app) complete(kind string) completer {
	return func(c *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return a.completeWord(c, kind, args, typed, false)
	}
}

func (a *app) completeWord(c *cobra.Command, kind string, args []string, typed string, files bool) ([]cobra.Completion, cobra.ShellCompDirective) {
	rest := cobra.ShellCompDirectiveNoFileComp
	if files {
		rest = cobra.ShellCompDirectiveDefault
	}
	switch kind {
	case "FILE":
		return []cobra.Completion{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
	case "JOB":
		return a.offered(c, typed, jobNames), rest
	case "HOST":
		return a.offered(c, typed, hostNames), rest
	case "TASK", "TASK.OUTPUT":
		if len(args) > 0 {
			return a.offered(c, typed, func(ctx context.Context, client *cascade.Client) ([]string, error) {
				return taskNames(ctx, client, args[0], kind == "TASK.OUTPUT")
			}), rest | cobra.ShellCompDirectiveNoSpace
		}
	}
	return nil, rest
}

// offered are the names that begin as typed. Errors are not told: the user types on.
func (a *app) offered(c *cobra.Command, typed string, names func(context.Context, *cascade.Client) ([]string, error)) (found []string) {
	ctx := c.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(a.tab, completionTime))
	defer cancel()
	stderr := a.err
	a.err = io.Discard
	defer func() { a.err = stderr }()
	err := a.withJobs(ctx, func(client *cascade.Client) error {
		all, err := names(ctx, client)
		for _, n := range all {
			if strings.HasPrefix(n, typed) && len(found) < completedNames && !slices.Contains(found, n) {
				found = append(found, n)
			}
		}
		return err
	})
	if err != nil {
		return nil
	}
	return found
}

func jobNames(ctx context.Context, client *cascade.Client) ([]string, error) {
	rows, err := cascade.FirstRows[comms.JobRow](ctx, client, comms.QueryJobs, comms.JobID{}, "", completedNames)
	names := []string{"last"}
	for _, r := range rows {
		names = append(names, r.Name)
	}
	for _, r := range rows {
		names = append(names, r.ID)
	}
	return names, err
}

func hostNames(ctx context.Context, client *cascade.Client) (names []string, err error) {
	rows, err := cascade.Rows[comms.AgentRow](ctx, client, comms.QueryAgents, comms.JobID{}, "")
	for _, r := range rows {
		names = append(names, r.Name)
	}
	return names, err
}

// taskNames are the families of a job and, when these have several tasks, the tasks; with outputs
// what they publish.
func taskNames(ctx context.Context, client *cascade.Client, job string, outputs bool) (names []string, err error) {
	j, err := findJob(ctx, client, job)
	if err != nil {
		return nil, err
	}
	g, _, err := client.Graph(ctx, j.ID())
	if err != nil {
		return nil, err
	}
	for i := range g.Groups {
		if !outputs {
			names = append(names, g.Groups[i].Name)
			continue
		}
		for _, o := range g.Groups[i].Outputs {
			names = append(names, g.Groups[i].Name+"."+o.Name)
		}
	}
	return names, nil
}
