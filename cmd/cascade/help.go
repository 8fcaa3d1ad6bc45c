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
		{"First steps", []*cobra.Command{a.initCommand(), a.validateCommand(), a.runCommand(), a.statusCommand(), a.topCommand(), a.uiCommand(), a.waitCommand(), a.getCommand(), a.logsCommand(), a.doctorCommand()}},
		{"Inspect a job", []*cobra.Command{a.explainCommand(), a.storyCommand(), a.lsCommand(), a.memoryCommand(), a.graphCommand(), a.timelineCommand(), a.reportCommand(), a.diffCommand()}},
		{"Control a job", []*cobra.Command{a.cancelCommand(), a.holdCommand(), a.releaseCommand(), a.rerunCommand(), a.replayCommand(), a.removeCommand()}},
		{"Write and plan jobs", []*cobra.Command{a.schemaCommand(), a.importCommand(), a.exportCommand(), a.planCommand(), a.profileCommand()}},
		{"Search for parameters", []*cobra.Command{a.tuneCommand()}},
		{"Clusters", []*cobra.Command{a.submitCommand(), a.connectCommand(), a.clusterCommand()}},
		{"This host", []*cobra.Command{a.environmentCommand(), a.cleanCommand(), a.perfCommand(), a.configCommand(), a.completionCommand(), a.manCommand(), a.versionCommand()}},
	}
}

// overview is the help of the command itself.
func overview(root *cobra.Command, sections []section, width int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nUsage:\n  %s COMMAND\n\nExamples:\n%s\n", daemon.Fill(root.Long, width), root.Name(), root.Example)
	listed := map[string]bool{}
	for _, s := range sections {
		for _, c := range s.commands {
			listed[c.Name()] = true
		}
	}
	besides := section{title: "Other"}
	for _, c := range root.Commands() { // those that cobra adds
		if !listed[c.Name()] && !c.Hidden {
			besides.commands = append(besides.commands, c)
		}
	}
	for _, s := range append(sections, besides) {
		if len(s.commands) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s:\n", s.title)
		daemon.List(&b, s.commands, width)
	}
	fmt.Fprintf(&b, "\nGlobal flags:\n%s\n%s", daemon.FlagUsages(root.LocalFlags(), width),
		daemon.Fill(fmt.Sprintf("Use \"%s COMMAND --help\" for more information about a command.", root.Name()), width))
	return b.String()
}
