package daemon

import (
	"strings"

	"github.com/spf13/pflag"
)

// kinds says what the flags of text take, by the name of the flag: it is the same in every
// command. Flags of other types say it by their type, or between backquotes in their usage.
var kinds = map[string]string{
	"cache": "folder", "cache-limit": "size", "controller": "address", "credentials": "folder", "executor": "command",
	"family": "family", "format": "format", "gang-ports": "ports", "gcs-memory": "size", "gpu-memory": "size",
	"host": "host", "hosts": "hosts", "id": "id", "interface": "interface", "keep": "size", "keep-bytes": "size",
	"late-hook": "program", "listen": "address", "max-bytes": "size", "memory": "size", "metrics": "address",
	"min-free": "size", "name": "name", "of": "name", "only": "figures", "output": "file", "plugins": "folder",
	"port": "port", "ports": "ports", "profile": "file", "reason": "text", "resume": "job", "role": "role",
	"runtime": "folder", "serial": "id", "state": "folder", "store": "size", "task": "task", "tenant": "tenant",
	"token": "token",
}

// named is the value of a flag under the name of what it takes.
type named struct {
	pflag.Value
	kind string
}

func (n named) Type() string { return n.kind }

// Takes is the name of what a flag takes, as its help shows it; "" if it takes nothing.
func Takes(f *pflag.Flag) string {
	name, _ := pflag.UnquoteUsage(f)
	switch name {
	case "string", "strings":
		if kind := kinds[f.Name]; kind != "" {
			return kind
		}
	case "int", "uint", "uint32", "float":
		return "number"
	case "count":
		return ""
	}
	return name
}

// shown are the flags as their help names what they take.
func shown(of *pflag.FlagSet) *pflag.FlagSet {
	s := pflag.NewFlagSet("", pflag.ContinueOnError)
	s.SortFlags = of.SortFlags
	of.VisitAll(func(f *pflag.Flag) {
		g := *f
		switch takes := Takes(f); {
		case takes != "":
			g.Value = named{f.Value, takes}
			g.DefValue = strings.TrimSuffix(g.DefValue, "[]") // of no list
		case f.Value.Type() == "count":
			g.Usage = "``" + strings.TrimPrefix(g.Usage, "``")
		}
		s.AddFlag(&g)
	})
	return s
}

// FlagUsages lists flags in lines of a width.
func FlagUsages(of *pflag.FlagSet, width int) string { return shown(of).FlagUsagesWrapped(width) }
