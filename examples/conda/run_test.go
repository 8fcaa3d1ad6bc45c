//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/dag"
)

func TestMain(m *testing.M) { cascade.RunTests(m) }

// standIn notes what micromamba is asked, and installs a program that says where it is to work.
const standIn = `#!/bin/sh
echo "$@" > "$(dirname "$0")/asked"
while [ "$1" != --prefix ]; do shift; done
place=$2
[ "$3" = --relocate-prefix ] && place=$4
mkdir -p "$2/bin" "$2/conda-meta"
: > "$2/conda-meta/history"
echo '{"name": "cdo", "version": "2.4.4"}' > "$2/conda-meta/cdo-2.4.4-h0_1.json"
printf '#!/bin/sh\necho cdo at %s\n' "$place" > "$2/bin/cdo"
chmod +x "$2/bin/cdo"
`

// The job of the README runs by the plugin; what stands for micromamba is at hand.
func TestJob(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	home := t.TempDir()
	plugin := filepath.Join(home, "cascade", "plugins", "conda")
	if out, err := exec.Command("go", "build", "-o", plugin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	place, asked := run(t, home)
	if !strings.Contains(place, "plugin-conda") || !strings.HasSuffix(asked, " --relocate-prefix "+place+" --override-channels --channel conda-forge cdo>=2.4\n") {
		t.Errorf("it is at %s, micromamba was asked %s", place, asked)
	}
}

// Without the plugin the agent's own makes the same environment.
func TestBuiltIn(t *testing.T) {
	place, asked := run(t, t.TempDir())
	if want := "create --yes --quiet --prefix " + place + " --override-channels --channel conda-forge cdo>=2.4\n"; asked != want {
		t.Errorf("micromamba was asked %s, want %s", asked, want)
	}
}

// run runs the job with a folder of settings. It returns where its program was installed, and what micromamba was asked.
func run(t *testing.T, home string) (place, asked string) {
	t.Helper()
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "micromamba"), []byte(standIn), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	text, err := os.ReadFile("job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	g, err := dag.ParseYAML("job.yaml", text, dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := cascadetest.Start(t)
	j := cascadetest.SubmitGraph(t, c, g)
	cascadetest.Wait(t, c, j)
	located, err := j.Locate(t.Context(), "version.text")
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	if err := j.Fetch(t.Context(), located[0], &said); err != nil {
		t.Fatal(err)
	}
	place = strings.TrimSuffix(strings.TrimPrefix(said.String(), "cdo at "), "\n")
	if _, err := os.Stat(filepath.Join(place, "bin", "cdo")); err != nil {
		t.Errorf("it says %q: %v", said.String(), err)
	}
	text, err = os.ReadFile(filepath.Join(bin, "asked"))
	if err != nil {
		t.Fatal(err)
	}
	return place, string(text)
}
