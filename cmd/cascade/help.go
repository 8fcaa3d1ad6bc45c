package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade/cmd/internal/daemon"
)

// section is a part of the overview of commands.
type section struct {
	title    string
	commands []*cobra.Command
}

// sections are all commands, first steps first.
func (a *app) sections() []section {
	return []section{
		{"First steps", []*cobra.Command{a.validateCommand(), a.runCommand(), a.statusCommand(), a.getCommand(), a.logsCommand(), a.doctorCommand()}},
		{"Inspect a job", []*cobra.Command{a.explainCommand(), a.storyCommand(), a.lsCommand(), a.graphCommand(), a.timelineCommand(), a.reportCommand()}},
		{"Control a job", []*cobra.Command{a.cancelCommand(), a.holdCommand(), a.releaseCommand(), a.rerunCommand(), a.replayCommand(), a.forgetCommand()}},
		{"Write and plan jobs", []*cobra.Command{a.schemaCommand(), a.importCommand(), a.planCommand(), a.profileCommand()}},
		{"Clusters", []*cobra.Command{a.submitCommand(), a.connectCommand(), a.clusterCommand()}},
		{"This host", []*cobra.Command{a.envCommand(), a.cleanCommand(), a.perfCommand(), a.versionCommand()}},
	}
}

// overview is the help of the command itself.
func overview(root *cobra.Command, sections []section) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage:\n  %s COMMAND\n\nExamples:\n%s\n", root.Long, root.Name(), root.Example)
	width, listed := 0, map[*cobra.Command]bool{}
	for _, s := range sections {
		for _, c := range s.commands {
			width, listed[c] = max(width, len(c.Name())), true
		}
	}
	besides := section{title: "Other"}
	for _, c := range root.Commands() { // those that cobra adds
		if !listed[c] && !c.Hidden {
			width, besides.commands = max(width, len(c.Name())), append(besides.commands, c)
		}
	}
	for _, s := range append(sections, besides) {
		if len(s.commands) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s:\n", s.title)
		for _, c := range s.commands {
			fmt.Fprintf(&b, "  %-*s  %s\n", width, c.Name(), c.Short)
		}
	}
	fmt.Fprintf(&b, "\nGlobal flags:\n%s\nUse \"%s COMMAND --help\" for more information about a command.\n", root.LocalFlags().FlagUsagesWrapped(daemon.HelpWidth), root.Name())
	return b.String()
}
