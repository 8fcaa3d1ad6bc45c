package main

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cascade-run/cascade/comms"
)

// hint is a command for the user's next line. It repeats the flags that name the cluster
// or the state, unless the environment says the same.
func (a *app) hint(words ...string) string {
	if a.to != a.setting("to") {
		words = append(words, "--to", a.to)
	}
	if a.state != a.setting("state") {
		words = append(words, "--state", a.state)
	}
	if a.tcp {
		words = append(words, "--insecure-test-network")
	}
	for i, w := range words {
		words[i] = quoted(w)
	}
	return "cascade " + strings.Join(words, " ")
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quoted is a word as a shell reads it.
func quoted(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// ofOneRun are the flags that say how one job was submitted, and not what it is.
var ofOneRun = map[string]bool{"resume": true, "explain": true, "id": true, "hold": true, "wait": true, "to": true, "state": true, "insecure-test-network": true, "json": true, "verbose": true}

// runAnew notes the command that runs file again as c was told to, a run also where c
// submits: with the results of the job before, all if it kept them (retained), else its
// outputs, and so that all are kept from now on. Standard input cannot be read again.
func (a *app) runAnew(c *cobra.Command, file string, retained bool) {
	a.retained = retained
	if file == "-" {
		return
	}
	words := []string{"run", file}
	c.Flags().Visit(func(f *pflag.Flag) {
		if ofOneRun[f.Name] {
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			switch {
			case f.Value.Type() == "bool" && v == "true":
				words = append(words, "--"+f.Name)
			case f.Value.Type() == "bool":
				words = append(words, "--"+f.Name+"="+v)
			default:
				words = append(words, "--"+f.Name, v)
			}
		}
	})
	a.anew = func(job comms.JobID) string {
		if !retained {
			return a.hint(append(slices.Clone(words), "--resume")...) + "  # runs all tasks; keeps their results from now on"
		}
		return a.hint(append(slices.Clone(words), "--resume="+job.String())...) + "  # results that have not changed are taken over"
	}
}
