package runtimeenv

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade/dag"
)

// condaStandIn is what micromamba, mamba and conda have in common: it makes a folder
// that is not there, and what it installs knows where it is. One of its packages
// nobody has, another comes from a channel that is away.
const condaStandIn = `#!/bin/sh
echo "$(basename "$0") $*" >> "$(dirname "$0")/asked"
while [ "$1" != --prefix ]; do shift; done
prefix=$2
for last; do :; done
[ -e "$prefix" ] && { echo "there is a folder $prefix"; exit 1; }
mkdir -p "$prefix/bin" "$prefix/conda-meta"
: > "$prefix/conda-meta/history"
echo '{"name": "cdo", "version": "2.4.4", "build": "h0_1"}' > "$prefix/conda-meta/cdo-2.4.4-h0_1.json"
printf '#!/bin/sh\necho cdo at %s, of %s\n' "$prefix" '$CONDA_PREFIX' > "$prefix/bin/cdo"
chmod +x "$prefix/bin/cdo"
case $last in
  none) echo "PackagesNotFoundError: none"; exit 1 ;;
  away) echo "Could not resolve host: channel.invalid"; exit 1 ;;
esac
`

func condaEnv(packages ...any) dag.Environment {
	return dag.Environment{Name: "climate", Source: "/job", Plugins: []dag.Field{{Name: "conda", Value: map[string]any{"packages": packages, "channels": []any{"./mirror", "conda-forge"}}}}}
}

// withConda puts stand-ins by these names, what they need and nothing else into PATH: a
// host may have any conda beside its own programs.
func withConda(t *testing.T, names ...string) (bin string) {
	t.Helper()
	bin = t.TempDir()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(condaStandIn), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"sh", "basename", "dirname", "mkdir", "chmod"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	return bin
}

// Packages are installed once, at the place where they stay, by the first program that is there.
func TestConda(t *testing.T) {
	for _, c := range []struct {
		has  []string
		asks string
	}{
		{[]string{"conda", "mamba", "micromamba"}, "micromamba"},
		{[]string{"conda", "mamba"}, "mamba"},
		{[]string{"conda"}, "conda"},
	} {
		t.Run(c.asks, func(t *testing.T) {
			bin := withConda(t, c.has...)
			cache := New(t.TempDir())
			defer cache.Close()
			act, err := cache.Prepare(t.Context(), condaEnv("cdo>=2.4", "nco"), nil)
			if err != nil {
				t.Fatal(err)
			}
			place := filepath.Join(cache.dir, "conda", strings.TrimPrefix(act.Keys[0], "conda-"))
			cmd := exec.Command("sh", "-c", "cdo")
			cmd.Env = act.Env
			out, err := cmd.CombinedOutput()
			if want := "cdo at " + place + ", of " + place + "\n"; err != nil || string(out) != want {
				t.Errorf("%v: it says %s, want %s", err, out, want)
			}
			if rec := readRecord("conda", place); !slices.Equal(rec.Packages, []string{"cdo 2.4.4"}) || rec.What != "cdo>=2.4 nco" || !strings.HasPrefix(rec.Replay(), "a replay resolves cdo>=2.4 nco anew") {
				t.Errorf("noted: %+v", rec)
			}
			if again, err := cache.Prepare(t.Context(), condaEnv("nco", "cdo>=2.4"), nil); err != nil || again.Built || !slices.Equal(again.Keys, act.Keys) {
				t.Errorf("the same in another order: %+v, %v", again, err)
			}
			asked, err := os.ReadFile(filepath.Join(bin, "asked"))
			if want := c.asks + " create --yes --quiet --prefix " + place + " --override-channels --channel /job/mirror --channel conda-forge cdo>=2.4 nco\n"; err != nil || string(asked) != want {
				t.Errorf("asked %s, want %s", asked, want)
			}
		})
	}
}

func TestCondaMistakes(t *testing.T) {
	for _, c := range []struct {
		what  string
		env   dag.Environment
		has   []string
		want  string
		waits bool
	}{
		{"no program", condaEnv("cdo"), nil, "none of micromamba, mamba, conda is in the agent's PATH: install one of them", false},
		{"no such package", condaEnv("none"), []string{"mamba"}, "mamba create: exit status 1\nPackagesNotFoundError: none", false},
		{"a channel is away", condaEnv("away"), []string{"mamba"}, "Could not resolve host: channel.invalid\ntried 1 times", true},
		{"no packages", condaEnv(), []string{"mamba"}, "conda has no packages", false},
		{"an option", condaEnv("--copy"), []string{"mamba"}, `"--copy" names nothing`, false},
		{"in a container", dag.Environment{Container: &dag.Container{Image: "x"}, Plugins: condaEnv("cdo").Plugins}, []string{"mamba", "podman"}, "both conda and container", false},
	} {
		t.Run(c.what, func(t *testing.T) {
			withConda(t, c.has...)
			cache := New(t.TempDir())
			defer cache.Close()
			cache.patience = time.Nanosecond
			_, err := cache.Prepare(t.Context(), c.env, nil)
			var passing transient
			if err == nil || !strings.Contains(err.Error(), c.want) || (errors.As(err, &passing) && passing.Transient()) != c.waits {
				t.Errorf("error %v, want %s", err, c.want)
			}
			if left, err := filepath.Glob(filepath.Join(cache.dir, "conda", "*", "*")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// What a killed build has left at its place is no environment: it is not listed, and made anew.
func TestCondaHalfMade(t *testing.T) {
	withConda(t, "conda")
	cache := New(t.TempDir())
	defer cache.Close()
	key, err := condaPlugin{}.Key(t.Context(), condaEnv("cdo"))
	if err != nil {
		t.Fatal(err)
	}
	place := filepath.Join(cache.dir, "conda", key)
	half := func() {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(place, "bin"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	half()
	unlock, err := lock(t.Context(), place+".lock")
	if err != nil {
		t.Fatal(err)
	}
	if all, err := cache.List(); err != nil || len(all) > 0 {
		t.Errorf("while it is built: listed %+v, %v", all, err)
	}
	if found, err := exists(place); err != nil || !found {
		t.Errorf("it was removed while it is built: %v", err)
	}
	unlock()
	if all, err := cache.List(); err != nil || len(all) > 0 {
		t.Errorf("listed %+v, %v", all, err)
	}
	if found, err := exists(place); err != nil || found {
		t.Errorf("what a dead process left stays: %v", err)
	}
	half()
	act, err := cache.Prepare(t.Context(), condaEnv("cdo"), nil)
	if err != nil || !act.Built {
		t.Fatalf("it is built anew: %+v, %v", act, err)
	}
	if all, err := cache.List(); err != nil || len(all) != 1 || all[0].ID() != act.Keys[0] || !all[0].InUse {
		t.Errorf("listed %+v, %v", all, err)
	}
	if err := cache.Close(); err != nil {
		t.Fatal(err)
	}
	removed, err := cache.Prune(Limits{Bytes: -1}, time.Now())
	if err != nil || len(removed) != 1 {
		t.Errorf("pruned %+v, %v", removed, err)
	}
	for _, path := range []string{place, place + recordSuffix} {
		if found, err := exists(path); err != nil || found {
			t.Errorf("%s stays: %v", path, err)
		}
	}
}

// A plugin of the host's by this name takes the place of the agent's own.
func TestCondaOfTheHost(t *testing.T) {
	bin := withConda(t, "conda")
	cache := New(t.TempDir(), newExternal("conda", filepath.Join(bin, "conda")))
	defer cache.Close()
	if names := slices.ContainsFunc(cache.plugins, func(p Plugin) bool { return p.Name() == "conda" }); names {
		t.Error("both serve conda")
	}
}
