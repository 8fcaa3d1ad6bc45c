package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
)

// helpCommand prints the help of a command that there is.
func (a *app) helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Print the help of a command",
		Example: "  cascade help run\n  cascade help cluster join",
		RunE: func(c *cobra.Command, args []string) error {
			of, rest, err := c.Root().Find(args)
			if of == nil || err != nil {
				of, rest = c.Root(), args
			}
			if len(rest) > 0 {
				return noCommand(of, rest)
			}
			of.InitDefaultHelpFlag() // which its page lists
			return of.Help()
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
			if of, rest, err := c.Root().Find(args); err == nil && len(rest) == 0 {
				for _, sub := range of.Commands() {
					if sub.IsAvailableCommand() {
						names = append(names, sub.Name())
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// noCommand is the error of arguments where a command is asked for that is not there.
func noCommand(c *cobra.Command, args []string) error {
	if c.HasAvailableSubCommands() {
		return known(c, args)
	}
	return hintedf("see "+c.CommandPath()+" --help", "%s has no command %q", c.CommandPath(), args[0])
}

// shells are those that completion knows, with what writes their script.
var shells = []struct {
	name  string
	write func(root *cobra.Command, to io.Writer) error
}{
	{"bash", func(root *cobra.Command, to io.Writer) error { return root.GenBashCompletionV2(to, true) }},
	{"zsh", (*cobra.Command).GenZshCompletion},
	{"fish", func(root *cobra.Command, to io.Writer) error { return root.GenFishCompletion(to, true) }},
	{"powershell", (*cobra.Command).GenPowerShellCompletionWithDesc},
}

func (a *app) completionCommand() *cobra.Command {
	var names []string
	for _, s := range shells {
		names = append(names, s.name)
	}
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print the script with which a shell completes commands and names",
		Long: `Print a script for bash, zsh, fish or powershell, with which Tab completes commands,
flags and their values, and the names of jobs, tasks and hosts.`,
		Example: `  source <(cascade completion bash)   # in ~/.bashrc
  source <(cascade completion zsh)    # in ~/.zshrc, below compinit
  cascade completion fish > ~/.config/fish/completions/cascade.fish
  cascade completion powershell | Out-String | Invoke-Expression`,
		Args:      cobra.ExactArgs(1),
		ValidArgs: names,
		RunE: func(c *cobra.Command, args []string) error {
			i := slices.Index(names, args[0])
			if i < 0 {
				return hintedf("see cascade completion --help", "completion: %q: want %s", args[0], orList(names))
			}
			if err := shells[i].write(c.Root(), a.bytes()); err != nil {
				return fmt.Errorf("write the script: %w", err)
			}
			return nil
		},
	}
}
