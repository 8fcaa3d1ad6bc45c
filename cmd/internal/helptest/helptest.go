// Package helptest checks the help pages of a command in its tests.
package helptest

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cascade-run/cascade/cmd/internal/daemon"
)

// Check checks the pages of a command and of all below it, but for those that cobra
// adds: each has a line of its own and an example, is no wider than 80 characters, and says of
// each flag what it takes.
func Check(t *testing.T, c *cobra.Command) {
	t.Helper()
	if len(c.Short) == 0 || len(c.Short) > 66 || strings.HasSuffix(c.Short, ".") {
		t.Errorf("%s: %q is %d characters long, want 1 to 66 and no full stop", c.CommandPath(), c.Short, len(c.Short))
	}
	if c.Example == "" {
		t.Errorf("%s has no example", c.CommandPath())
	}
	for line := range strings.Lines(daemon.Help(c, daemon.HelpWidth)) {
		if line = strings.TrimSuffix(line, "\n"); utf8.RuneCountInString(line) > daemon.HelpWidth {
			t.Errorf("%s: a line of its help is longer than %d characters: %q", c.CommandPath(), daemon.HelpWidth, line)
		}
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains([]string{"string", "strings", "int", "uint", "float", "count"}, daemon.Takes(f)) {
			t.Errorf("%s: --%s shows the type of its value, %s: say what it takes, in daemon's table of kinds", c.CommandPath(), f.Name, daemon.Takes(f))
		}
	})
	for _, sub := range c.Commands() {
		if !slices.Contains([]string{"help", "completion"}, sub.Name()) {
			Check(t, sub)
		}
	}
}
