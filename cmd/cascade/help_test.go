package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cascade-run/cascade/cmd/internal/daemon"
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

var update = flag.Bool("update", false, "write golden files")

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (-update writes it); got:\n%s", path, got)
	}
}

// Every page of the help, as it is 80 columns wide, and narrow.
func TestEveryHelpPage(t *testing.T) {
	for _, width := range []int{daemon.HelpWidth, 50} {
		var b strings.Builder
		var pages func(c *cobra.Command)
		pages = func(c *cobra.Command) {
			if c.HasParent() {
				fmt.Fprintf(&b, "=== %s\n%s\n", c.CommandPath(), daemon.Help(c, width))
			}
			for _, sub := range c.Commands() {
				pages(sub)
			}
		}
		a := &app{}
		root := a.command()
		b.WriteString(overview(root, a.sections(), width))
		pages(root)
		golden(t, fmt.Sprintf("help-%d.golden", width), b.String())
	}
}

// The documents tell people to type what the command takes.
func TestDocumentedCommands(t *testing.T) {
	helptest.Documents(t, "../..", (&app{}).command())
}
