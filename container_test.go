//go:build linux

package cascade_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/scratchfs"
)

// A task in an image sees its files and variables, datasets of tasks outside, and the
// job's folder; what it makes is read outside.
func TestContainer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("takes root, or user namespaces")
	}
	files := scratchfs.Programs(t, "sh", "cat", "tr")
	if err := os.WriteFile(filepath.Join(files, "mark"), []byte("image "), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, image := range map[string]func(t *testing.T) string{
		"by podman":     func(t *testing.T) string { return scratchfs.Podman(t, files) },
		"by a stand-in": func(t *testing.T) string { name, _ := scratchfs.FakePodman(t, files, "id"); return name },
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_CACHE_HOME", t.TempDir())
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "beside"), []byte("folder "), 0o600); err != nil {
				t.Fatal(err)
			}
			g, err := dag.ParseYAML("job.yaml", fmt.Appendf(nil, `
job: container
environments:
  tools: {container: %q, env: {GREETING: hello}}
tasks:
  make: {command: "printf 'dataset ' > ${out.x}", out: [x]}
  read:
    command: "cat /mark ${in.x} beside > ${out.y} && echo $GREETING $OF >> ${out.y}; echo lost > /mark"
    environment: tools
    in: {x: make.x}
    out: [y]
  loud: {command: "tr a-z A-Z < ${in.y} > ${out.z}", in: {y: read.y}, out: [z]}
outputs: [loud.z]
`, image(t)), dag.Override{}, dag.Options{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			c := cascadetest.Start(t)
			j := cascadetest.SubmitGraph(t, c, g, cascade.WithDir(dir))
			cascadetest.Wait(t, c, j)
			located, err := j.Locate(t.Context(), "loud.z")
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			if err := j.Fetch(t.Context(), located[0], &text); err != nil || text.String() != "IMAGE DATASET FOLDER HELLO IMAGE\n" {
				t.Errorf("%q, %v", text.String(), err)
			}
			if mark, err := os.ReadFile(filepath.Join(files, "mark")); err != nil || string(mark) != "image " {
				t.Errorf("the image has %q, %v", mark, err)
			}
		})
	}
}
