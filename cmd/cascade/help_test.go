package main

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A flag that takes no value does not look as if it took one.
func TestHelpOfFlags(t *testing.T) {
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if value, _ := pflag.UnquoteUsage(f); f.Value.Type() == "bool" && value != "" {
				t.Errorf("%s --%s looks as if it took a value: %q", c.CommandPath(), f.Name, value)
			}
		})
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check((&app{}).command())
}
