package runtimeenv

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/testing/tier"
)

// pipConda is the newest conda that an index of Python packages has: it runs on CPython 3.6 alone.
var pipConda = []string{"conda==4.3.16", "pycosat==0.6.6", "requests==2.27.1", "ruamel.yaml==0.15.100"}

// realConda puts a conda into PATH: the host's micromamba, mamba or conda, else one that
// pip installs into the user's cache, once. Where there is none it skips the test.
func realConda(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("installs conda")
	}
	missing := func(why ...any) {
		t.Helper()
		if os.Getenv("CASCADE_REQUIRE_CONDA") != "" {
			t.Fatal(why...)
		}
		t.Skip(append([]any{"no conda here: "}, why...)...)
	}
	if _, err := findConda(); err == nil {
		return
	}
	user, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	place := filepath.Join(user, "cascade-test", "conda-4.3.16")
	if found, err := exists(place); err != nil {
		t.Fatal(err)
	} else if !found {
		python := oldPython()
		if python == "" {
			missing("neither micromamba, mamba nor conda is in PATH, and no CPython 3.6 for the one that pip has")
		}
		build := t.TempDir()
		for _, args := range [][]string{{python, "-m", "venv", build}, append([]string{filepath.Join(build, "bin", "python"), "-m", "pip", "install", "--quiet"}, pipConda...)} {
			if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
				missing(fmt.Sprintf("%s: %v\n%s", strings.Join(args, " "), err, out))
			}
		}
		err := errors.Join(os.MkdirAll(filepath.Dir(place), 0o700), exec.CommandContext(t.Context(), "cp", "-a", build, place+".new").Run(), os.Rename(place+".new", place))
		if err != nil {
			t.Fatal(err)
		}
	}
	bin := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nexec %s -m conda \"$@\"\n", filepath.Join(place, "bin", "python"))
	if err := os.WriteFile(filepath.Join(bin, "conda"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
}

// oldPython finds a CPython 3.6; "" for none.
func oldPython() string {
	home, _ := os.UserHomeDir() // without one there is no pyenv
	found, _ := filepath.Glob(filepath.Join(home, ".pyenv", "versions", "3.6.*", "bin", "python3.6"))
	for _, path := range append(found, "python3.6") {
		if exec.Command(path, "-c", "import venv, ensurepip").Run() == nil {
			return path
		}
	}
	return ""
}

// condaPackage is a package of one program.
type condaPackage struct {
	name, version string
	depends       []string
	script        string // @PREFIX@ is where it is installed
}

// condaPrefix stands in packages for the folder that they are installed in.
const condaPrefix = "/opt/placehold_placehold_placehold_placehold_placehold_placehold_placehold"

// makeChannel writes a channel of packages for all platforms, and returns its folder.
func makeChannel(t *testing.T, dir string, packages ...condaPackage) string {
	t.Helper()
	index := map[string]any{}
	for _, p := range packages {
		path := "bin/" + p.name
		text := strings.ReplaceAll(p.script, "@PREFIX@", condaPrefix)
		sum := sha256.Sum256([]byte(text))
		entry := map[string]any{"_path": path, "path_type": "hardlink", "sha256": hex.EncodeToString(sum[:]), "size_in_bytes": len(text)}
		prefixes := ""
		if text != p.script {
			entry["prefix_placeholder"], entry["file_mode"] = condaPrefix, "text"
			prefixes = condaPrefix + " text " + path + "\n"
		}
		about := map[string]any{"name": p.name, "version": p.version, "build": "0", "build_number": 0, "depends": append([]string{}, p.depends...), "noarch": "generic", "subdir": "noarch"}
		var buf bytes.Buffer
		w := tar.NewWriter(&buf)
		for _, f := range []struct {
			name, text string
			mode       int64
		}{
			{"info/index.json", asJSON(t, about), 0o644},
			{"info/files", path + "\n", 0o644},
			{"info/has_prefix", prefixes, 0o644},
			{"info/paths.json", asJSON(t, map[string]any{"paths": []any{entry}, "paths_version": 1}), 0o644},
			{path, text, 0o755},
		} {
			err := w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.text))})
			if err == nil {
				_, err = w.Write([]byte(f.text))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		archive := bzipped(t, buf.Bytes())
		file := p.name + "-" + p.version + "-0.tar.bz2"
		write(t, dir, map[string]string{"noarch/" + file: archive})
		about["size"] = len(archive)
		index[file] = about
	}
	for _, platform := range []string{"noarch", "linux-64", "linux-aarch64"} {
		own := map[string]any{}
		if platform == "noarch" {
			own = index
		}
		text := asJSON(t, map[string]any{"info": map[string]any{"subdir": platform}, "packages": own, "repodata_version": 1})
		write(t, dir, map[string]string{platform + "/repodata.json": text, platform + "/repodata.json.bz2": bzipped(t, []byte(text))})
	}
	return dir
}

func bzipped(t *testing.T, data []byte) string {
	t.Helper()
	cmd := exec.Command("bzip2")
	cmd.Stdin = bytes.NewReader(data)
	out, err := cmd.Output()
	if err != nil {
		t.Skip("packages of conda are packed by bzip2: ", err)
	}
	return string(out)
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A conda that is none of ours takes what it is asked for, from a channel in a folder: it
// resolves, puts the place into what it installs, and says in its own words what cannot be had.
func TestCondaItself(t *testing.T) {
	tier.Nightly(t, "installs a conda")
	realConda(t)
	job, home := t.TempDir(), t.TempDir()
	write(t, home, map[string]string{".condarc": "default_channels: []\n"}) // an old one asks them even when other channels are named
	t.Setenv("HOME", home)
	t.Setenv("CONDA_PKGS_DIRS", filepath.Join(home, "packages"))
	t.Setenv("MAMBA_ROOT_PREFIX", filepath.Join(home, "mamba"))
	makeChannel(t, filepath.Join(job, "mirror"),
		condaPackage{name: "tiny", version: "1.0", script: "#!/bin/sh\necho tiny 1 at @PREFIX@\n"},
		condaPackage{name: "tiny", version: "2.0", script: "#!/bin/sh\necho tiny 2 at @PREFIX@\n"},
		condaPackage{name: "upper", version: "3.1", depends: []string{"tiny <2"}, script: "#!/bin/sh\ntiny | tr a-z A-Z\n"})
	environment := func(channel string, packages ...any) dag.Environment {
		return dag.Environment{Name: "climate", Source: job, Plugins: []dag.Field{{Name: "conda", Value: map[string]any{"packages": packages, "channels": []any{channel}}}}}
	}
	cache := New(t.TempDir())
	defer cache.Close()
	cache.patience = time.Nanosecond
	for _, c := range []struct {
		packages []any
		run      string
		says     string
		has      []string
	}{
		{[]any{"upper"}, "upper", "TINY 1 AT @PLACE@", []string{"tiny 1.0", "upper 3.1"}},
		{[]any{"tiny"}, "tiny", "tiny 2 at @place@", []string{"tiny 2.0"}},
	} {
		act, err := cache.Prepare(t.Context(), environment("./mirror", c.packages...), nil)
		if err != nil {
			t.Fatal(err)
		}
		place := filepath.Join(cache.dir, "conda", strings.TrimPrefix(act.Keys[0], "conda-"))
		cmd := exec.Command("sh", "-c", c.run)
		cmd.Env = act.Env
		want := strings.NewReplacer("@PLACE@", strings.ToUpper(place), "@place@", place).Replace(c.says)
		if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("%s says %s, %v; want %s", c.run, out, err, want)
		}
		if rec := readRecord("conda", place); !slices.Equal(rec.Packages, c.has) {
			t.Errorf("noted as installed: %q, want %q", rec.Packages, c.has)
		}
	}
	if again, err := cache.Prepare(t.Context(), environment("./mirror", "upper"), nil); err != nil || again.Built {
		t.Errorf("once more: %+v, %v", again, err)
	}
	for _, c := range []struct {
		env    dag.Environment
		want   string
		passes bool
	}{
		{environment("./mirror", "tiny>5"), "tiny", false},
		{environment("./mirror", "upper", "tiny>1"), "tiny", false},
		{environment("./nowhere", "tiny"), "nowhere", false},
		{environment("http://127.0.0.1:9/channel", "tiny"), "127.0.0.1:9/channel", true},
	} {
		_, err := cache.Prepare(t.Context(), c.env, nil)
		var passing transient
		if err == nil || !strings.Contains(err.Error(), " create: exit status") || !strings.Contains(err.Error(), c.want) || (errors.As(err, &passing) && passing.Transient()) != c.passes {
			t.Errorf("error %v, want one of %s that passes: %t", err, c.want, c.passes)
		}
	}
	if all, err := cache.List(); err != nil || len(all) != 2 {
		t.Errorf("listed %+v, %v", all, err)
	}
}
