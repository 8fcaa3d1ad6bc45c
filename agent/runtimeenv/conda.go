package runtimeenv

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/zeebo/blake3"

	"github.com/cascade-run/cascade/dag"
)

// condaPlugin installs conda packages, with the first program that the host has of those
// which do. It serves the settings that an external plugin of this name serves where
// there is one.
type condaPlugin struct{}

// condaTools are programs with the same command create: the fastest first.
var condaTools = []string{"micromamba", "mamba", "conda"}

func (condaPlugin) Name() string        { return dag.CondaPlugin }
func (condaPlugin) Priority() int       { return 4 } // what Python's layers have goes before it in PATH
func (condaPlugin) Delete(string) error { return nil }

// worksInPlace: the programs and scripts of conda's packages know where they are.
func (condaPlugin) worksInPlace() {}

// condaSettings are what an environment asks for.
type condaSettings struct{ Channels, Packages []string }

func condaOf(env dag.Environment) (s condaSettings, found bool, err error) {
	i := slices.IndexFunc(env.Plugins, func(f dag.Field) bool { return f.Name == dag.CondaPlugin })
	if i < 0 {
		return s, false, nil
	}
	s.Channels, s.Packages, err = dag.Conda(env.Plugins[i].Value)
	for i, channel := range s.Channels {
		if strings.HasPrefix(channel, ".") { // a folder
			s.Channels[i] = absoluteIn(env.Source, channel)
		}
	}
	return s, true, err
}

func (condaPlugin) Applies(env dag.Environment) bool {
	_, found, _ := condaOf(env)
	return found
}

func findConda() (string, error) {
	for _, name := range condaTools {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("conda: none of " + strings.Join(condaTools, ", ") + " is in the agent's PATH: install one of them on this host")
}

func (condaPlugin) Validate(env dag.Environment) error {
	if _, _, err := condaOf(env); err != nil {
		return err
	}
	if env.Container != nil {
		return errors.New("it has both conda and container: packages of conda are for processes of the host")
	}
	_, err := findConda()
	return err
}

// Describe lists the packages.
func (condaPlugin) Describe(env dag.Environment) string {
	s, _, _ := condaOf(env) // Validate has found its mistakes
	return strings.Join(s.Packages, " ")
}

// Key hashes what is asked for. The order of channels counts, that of packages does not.
func (condaPlugin) Key(_ context.Context, env dag.Environment) (string, error) {
	s, _, err := condaOf(env)
	if err != nil {
		return "", err
	}
	slices.Sort(s.Packages)
	h := hasher{blake3.New()}
	h.text("cascade conda 1", runtime.GOOS, runtime.GOARCH)
	h.text(append([]string{"channels"}, s.Channels...)...)
	h.text(append([]string{"packages"}, slices.Compact(s.Packages)...)...)
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// Create installs the packages. Channels that are not named are those of the host's own
// settings (.condarc), as are addresses of mirrors.
func (condaPlugin) Create(ctx context.Context, env dag.Environment, b *Build) error {
	s, _, err := condaOf(env)
	if err != nil {
		return err
	}
	path, err := findConda()
	if err != nil {
		return err
	}
	args := []string{"create", "--yes", "--quiet", "--prefix", b.Dir}
	if len(s.Channels) > 0 {
		args = append(args, "--override-channels")
	}
	for _, channel := range s.Channels {
		args = append(args, "--channel", channel)
	}
	t := tool{name: filepath.Base(path) + " create", dir: os.TempDir()}
	if _, err := t.run(ctx, path, append(args, s.Packages...)...); err != nil {
		return err
	}
	b.Packages, err = condaPackages(b.Dir)
	return err
}

// condaPackages lists what was installed, of which conda keeps a record each.
func condaPackages(dir string) (out []string, err error) {
	found, err := filepath.Glob(filepath.Join(dir, "conda-meta", "*.json"))
	for _, path := range found {
		text, err := os.ReadFile(path)
		var record struct{ Name, Version string }
		if err == nil {
			err = json.Unmarshal(text, &record)
		}
		if err != nil {
			return nil, fmt.Errorf("conda: read what was installed: %w", err)
		}
		if record.Name != "" { // a file of the tool's own has none
			out = append(out, record.Name+" "+cmp.Or(record.Version, "?"))
		}
	}
	return out, err
}

// Activate puts its programs into PATH. Scripts that packages have for shells are not run.
func (condaPlugin) Activate(_ dag.Environment, dir string, act *Activation) error {
	act.setVar("CONDA_PREFIX", dir)
	act.addPath(filepath.Join(dir, "bin"))
	return nil
}
