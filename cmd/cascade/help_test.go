package main

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cascade-run/cascade/cmd/internal/helptest"
)

func TestHelpPages(t *testing.T) { helptest.Check(t, (&app{}).command()) }

// Every command is in a section of the overview.
func TestOverview(t *testing.T) {
	a := &app{}
	root, listed := a.command(), map[string]bool{}
	for _, s := range a.sections() {
		for _, c := range s.commands {
			listed[c.Name()] = true
		}
	}
	for _, c := range root.Commands() {
		if !listed[c.Name()] {
			t.Errorf("%s is in no section", c.Name())
		}
	}
}

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
