package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cascade-run/cascade/cmd/internal/daemon"
	"github.com/cascade-run/cascade/dag"
)

// text is a flag whose value comes from the environment when it is not given:
// the help shows no default then.
type text struct {
	value *string
	what  string // that it takes
}

func (t *text) String() string { return "" }

func (t *text) Set(s string) error {
	*t.value = s
	return nil
}

func (t *text) Type() string { return t.what }

// choice is a flag that takes one of some words. The help shows no default: the first is it.
type choice struct {
	value *string
	of    []string
}

func (c *choice) String() string { return "" }

func (c *choice) Set(s string) error {
	if !slices.Contains(c.of, s) {
		hint := ""
		if near := dag.DidYouMean(s, c.of); near != "" {
			hint = " (" + near + ")"
		}
		return fmt.Errorf("want %s%s", orList(c.of), hint)
	}
	*c.value = s
	return nil
}

func (c *choice) Type() string { return strings.Join(c.of, "|") }

func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// choose adds a flag that takes one of some words, of which the first is the default.
func choose(f *pflag.FlagSet, to *string, name, short, usage string, of ...string) {
	if *to == "" {
		*to = of[0]
	}
	f.VarP(&choice{to, of}, name, short, usage)
}

// Modes of --progress and --color.
var (
	progressModes = []string{"auto", "plain", "none"}
	colorModes    = []string{"auto", "always", "never"}
)

// globalFlags adds the flags of all commands.
func (a *app) globalFlags(f *pflag.FlagSet) {
	a.to, a.state = a.setting("to"), a.setting("state")
	f.Var(&text{&a.to, "cluster"}, "to", "controller: HOST, HOST:PORT, an address, or the name of a joined cluster; also CASCADE_TO (default the state folder of this host)")
	f.Var(&text{&a.state, "folder"}, "state", "state folder of this host; also CASCADE_STATE (default cascade/cascade in $XDG_STATE_HOME or ~/.local/state)")
	f.BoolVar(&a.json, "json", false, "print JSON, one object per line; errors too, on standard error")
	f.CountVarP(&a.verbose, "verbose", "v", "``log more to standard error; repeat for details")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "write errors only to standard error: no progress, no notes")
	a.color = a.setting("color")
	choose(f, &a.color, "color", "", "colours: auto heeds NO_COLOR, CLICOLOR_FORCE and TERM=dumb", colorModes...)
	f.BoolVar(&a.tcp, "insecure-test-network", false, "permit plain TCP without certificates; only for benchmarks on a private network")
}

// progressFlag adds --progress to a command that follows a job.
func (a *app) progressFlag(c *cobra.Command) {
	a.progress = ""
	if mode := a.setting("progress"); slices.Contains(progressModes, mode) {
		a.progress = mode
	}
	choose(c.Flags(), &a.progress, "progress", "", "progress on standard error: auto is a screen on a terminal, else lines; also CASCADE_PROGRESS", progressModes...)
}

// flagError says of a flag that is wrong what it takes, or which flag may be meant.
func flagError(c *cobra.Command, err error) error {
	help := "see " + c.CommandPath() + " --help"
	var unknown *pflag.NotExistError
	var empty *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		dashes := "--"
		if unknown.GetSpecifiedShortnames() != "" {
			dashes = "-"
		}
		return hintedf(likeFlag(c, name, help), "there is no flag %s%s of %s", dashes, name, c.CommandPath())
	case errors.As(err, &empty):
		f := empty.GetFlag()
		return hintedf(help, "--%s needs a value: --%s %s", f.Name, f.Name, strings.ToUpper(daemon.Takes(f)))
	}
	return hintedf(help, "%w", daemon.FlagError(err))
}

// elsewhereFlags are what other tools, and people, call flags that have another name here.
var elsewhereFlags = map[string]string{"filter": "status", "phase": "status", "format": "output", "out": "output", "file": "output",
	"agent": "host", "node": "host", "output-mode": "output", "tail-lines": "tail", "lines": "tail", "parameter": "param", "set": "param",
	"params": "param", "dir": "state", "state-dir": "state", "cluster": "to", "context": "to", "server": "to", "force": "yes", "assume-yes": "yes",
	"silent": "quiet", "debug": "verbose", "no-color": "color", "user": "tenant", "owner": "tenant", "watch": "follow", "gbit": "bandwidth"}

// likeFlag is the hint for a flag that is not there.
func likeFlag(c *cobra.Command, name, otherwise string) string {
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	if other := elsewhereFlags[name]; other != "" && slices.Contains(known, other) {
		return fmt.Sprintf("did you mean --%s? %s", other, otherwise)
	}
	if near := dag.DidYouMean(name, known); near != "" {
		return strings.Replace(strings.ReplaceAll(near, `"`, ""), "mean ", "mean --", 1) + " " + otherwise
	}
	for _, k := range known {
		if len(name) > 2 && strings.HasPrefix(k, name) {
			return fmt.Sprintf("did you mean --%s? %s", k, otherwise)
		}
	}
	return otherwise
}
