package daemon

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// HelpWidth is the width of help texts in characters where there is no terminal, and
// widestHelp what is still easy to read on a wide one.
const (
	HelpWidth  = 80
	widestHelp = 100
	narrowest  = 40
)

// WidthOf is the width of help texts on an output.
func WidthOf(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return HelpWidth
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 {
		return HelpWidth
	}
	return min(max(width, narrowest), widestHelp)
}

// Help is the page of a command.
func Help(c *cobra.Command, width int) string {
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	return Fill(text, width) + "\n" + Usage(c, width)
}

// Usage is how a command is used.
func Usage(c *cobra.Command, width int) string {
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
		List(&b, c.Commands(), width)
	}
	flags(&b, "Flags", c.LocalFlags(), width)
	if names := globals(c); names != "" {
		b.WriteString("\n" + Fill("Global flags: "+names+". "+c.Root().Name()+" --help describes them.", width))
	}
	return b.String()
}

// List lists commands with what they do.
func List(b *strings.Builder, commands []*cobra.Command, width int) {
	name := 0
	for _, c := range commands {
		name = max(name, len(c.Name()))
	}
	for _, c := range commands {
		if c.IsAvailableCommand() || c.Name() == "help" {
			text := strings.TrimSuffix(Fill(c.Short, max(width-name-4, 20)), "\n")
			fmt.Fprintf(b, "  %-*s  %s\n", name, c.Name(), strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", name+4)))
		}
	}
}

// globals names the flags of all commands.
func globals(c *cobra.Command) string {
	var names []string
	c.InheritedFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, "--"+f.Name)
		}
	})
	return strings.Join(names, ", ")
}

func flags(b *strings.Builder, title string, of *pflag.FlagSet, width int) {
	if of.HasAvailableFlags() {
		fmt.Fprintf(b, "\n%s:\n%s", title, FlagUsages(of, width))
	}
}

// Fill breaks the lines of a text for a width. Empty lines part paragraphs; a line that
// begins with a dash is one of its own, and what is indented below goes on with it.
func Fill(text string, width int) string {
	var b strings.Builder
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			b.WriteString("\n")
		}
		var items []string
		for line := range strings.SplitSeq(paragraph, "\n") {
			if len(items) == 0 || strings.HasPrefix(line, "- ") {
				items = append(items, line)
				continue
			}
			items[len(items)-1] += " " + strings.TrimSpace(line)
		}
		for _, item := range items {
			hanging := ""
			if strings.HasPrefix(item, "- ") {
				hanging = "  "
			}
			fillLine(&b, item, hanging, width)
		}
	}
	return b.String()
}

func fillLine(b *strings.Builder, item, hanging string, width int) {
	used := 0
	for _, word := range strings.Fields(item) {
		n := utf8.RuneCountInString(word)
		switch {
		case used == 0:
		case used+1+n > width:
			b.WriteString("\n" + hanging)
			used = len(hanging)
		default:
			b.WriteString(" ")
			used++
		}
		b.WriteString(word)
		used += n
	}
	b.WriteString("\n")
}
