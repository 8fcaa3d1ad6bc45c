package daemon

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// HelpWidth is the width of help texts in characters.
const HelpWidth = 80

// Usage prints how a command is used, as cobra does but wrapped, for
// cobra.Command.SetUsageFunc.
func Usage(c *cobra.Command) error {
	var b strings.Builder
	line := c.UseLine()
	if c.HasAvailableSubCommands() {
		line = c.CommandPath() + " COMMAND"
	}
	fmt.Fprintf(&b, "Usage:\n  %s\n", line)
	if c.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", c.Example)
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(&b, "  %-*s %s\n", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
	}
	flags(&b, "Flags", c.LocalFlags())
	flags(&b, "Global flags", c.InheritedFlags())
	_, err := fmt.Fprint(c.OutOrStdout(), b.String())
	return err
}

func flags(b *strings.Builder, title string, of *pflag.FlagSet) {
	if of.HasAvailableFlags() {
		fmt.Fprintf(b, "\n%s:\n%s", title, of.FlagUsagesWrapped(HelpWidth))
	}
}
