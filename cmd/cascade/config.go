package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/outfile"
)

// setting is what a user may configure: the value of a flag where neither it nor its variable
// of the environment is given.
type setting struct {
	name, variable, about string
	of                    []string // the values that it takes; nil: any
}

var settings = []setting{
	{"to", "CASCADE_TO", "cluster that commands use; --to= is this host", nil},
	{"state", "CASCADE_STATE", "state folder of this host", nil},
	{"color", "", "colours", colorModes},
	{"progress", "CASCADE_PROGRESS", "how a job that is followed is shown", progressModes},
}

// configuration is the user's file of settings.
type configuration struct {
	path   string // "": the environment names no folder
	values map[string]string
	err    error // why it cannot be read; told by the command that runs
}

// readConfiguration reads the file of settings. One that is not there sets nothing.
func readConfiguration(getenv func(string) string) (c configuration) {
	dir := getenv("XDG_CONFIG_HOME")
	if home := getenv("HOME"); dir == "" && home != "" {
		dir = filepath.Join(home, ".config")
	}
	if dir == "" {
		return c
	}
	c.path = filepath.Join(dir, "cascade", "config.yaml")
	b, err := os.ReadFile(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return c
	}
	if err == nil {
		d := yaml.NewDecoder(bytes.NewReader(b))
		d.KnownFields(true)
		if err = d.Decode(&c.values); errors.Is(err, io.EOF) { // an empty file
			err = nil
		}
	}
	if err == nil {
		err = c.check()
	}
	if err != nil {
		c.err, c.values = badInputf("read settings of %s: %w", c.path, err), nil
	}
	return c
}

func (c *configuration) check() error {
	for name, value := range c.values {
		if _, err := settingOf(name, value); err != nil {
			return err
		}
	}
	return nil
}

// settingOf is the setting of a name, which may have this value ("" is none).
func settingOf(name, value string) (*setting, error) {
	names := make([]string, len(settings))
	for i := range settings {
		s := &settings[i]
		names[i] = s.name
		if s.name != name {
			continue
		}
		if value != "" && s.of != nil {
			if err := (&choice{new(string), s.of}).Set(value); err != nil {
				return nil, badInputf("%s: %q: %w", name, value, err)
			}
		}
		return s, nil
	}
	return nil, hintedf(strings.TrimSpace(dag.DidYouMean(name, names)+" there are "+orList(names)), "there is no setting %q", name)
}

// setting is what the environment or the configuration says of it; "" is nothing.
func (a *app) setting(name string) string {
	value, _ := a.settingFrom(name)
	return value
}

// settingFrom is setting, and where it is said.
func (a *app) settingFrom(name string) (value, from string) {
	s, err := settingOf(name, "")
	if err != nil {
		panic(err) // the program has misspelt it
	}
	if s.variable != "" {
		if value := a.getenv(s.variable); value != "" {
			return value, s.variable
		}
	}
	if value := a.config.values[name]; value != "" {
		return value, a.config.path
	}
	return "", ""
}

// save writes the settings; without any it removes the file.
func (c *configuration) save() error {
	if len(c.values) == 0 {
		if err := os.Remove(c.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove settings: %w", err)
		}
		return nil
	}
	b, err := yaml.Marshal(c.values)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(c.path), 0o700)
	}
	if err == nil {
		err = outfile.WriteBytes(c.path, b)
	}
	if err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	return nil
}

// settingRow is a setting as cascade config lists it.
type settingRow struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"` // a variable of the environment, a file, or default
	About string `json:"about"`
}

func (a *app) configCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Show or change settings of this user: cluster, colours, progress",
		Long: `List the settings of this user with their values and where these come from. A
flag goes before a variable of the environment, and that before the setting. The
file is cascade/config.yaml in $XDG_CONFIG_HOME or ~/.config.`,
		Example: "  cascade config set to hpc        # all commands use the cluster hpc\n  cascade config set color never\n  cascade config unset to\n  cascade config",
		Args:    known,
		RunE: func(*cobra.Command, []string) error {
			if a.config.err != nil {
				return a.config.err
			}
			rows := make([]settingRow, len(settings))
			for i, s := range settings {
				value, from := a.settingFrom(s.name)
				if value == "" && s.of != nil {
					value = s.of[0]
				}
				rows[i] = settingRow{s.name, value, cmp.Or(from, "default"), s.about}
			}
			return table(a, rows)
		},
	}
	c.AddCommand(a.configSetCommand(), a.configUnsetCommand())
	return c
}

func (a *app) configSetCommand() *cobra.Command {
	return &cobra.Command{
		Use: "set NAME VALUE", Short: "Change a setting of this user",
		Example: "  cascade config set to hpc\n  cascade config set progress plain", Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			if args[1] == "" {
				return hintedf(a.hint("config", "unset", args[0]), "config set: the value is empty")
			}
			if _, err := settingOf(args[0], args[1]); err != nil {
				return err
			}
			return a.changeSettings(func(values map[string]string) { values[args[0]] = args[1] })
		},
	}
}

func (a *app) configUnsetCommand() *cobra.Command {
	return &cobra.Command{
		Use: "unset NAME...", Short: "Return settings of this user to their defaults",
		Example: "  cascade config unset to", Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			for _, name := range args {
				if _, err := settingOf(name, ""); err != nil {
					return err
				}
			}
			return a.changeSettings(func(values map[string]string) {
				for _, name := range args {
					delete(values, name)
				}
			})
		},
	}
}

func (a *app) changeSettings(change func(map[string]string)) error {
	if a.config.path == "" {
		return badInputf("config: there is no folder for settings: set XDG_CONFIG_HOME or HOME")
	}
	if a.config.err != nil {
		return a.config.err
	}
	if a.config.values == nil {
		a.config.values = map[string]string{}
	}
	change(a.config.values)
	return a.config.save()
}

// configured refuses to run a command with settings that cannot be read. Those that need none run.
func (a *app) configured(c *cobra.Command, _ []string) error {
	if slices.Contains([]string{"help", "man", "version", "completion", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}, c.Name()) {
		return nil
	}
	return a.config.err
}
