package smallfs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/internal/testing/tier"
)

// requirePodman makes a host without podman fail tests rather than skip them.
const requirePodman = "CASCADE_REQUIRE_PODMAN"

// Podman makes an image of a folder and returns its name, until the test ends. podman keeps
// all it has in a folder of the test, its locks too, which else lie in shared memory for ever.
// Outside the night, and where podman is not there or not permitted, it skips the test with the reason.
func Podman(t *testing.T, dir string) (image string) {
	t.Helper()
	tier.Nightly(t, "needs podman")
	own := t.TempDir()
	for variable, text := range map[string]string{
		"CONTAINERS_CONF":         "[engine]\nlock_type = \"file\"\ntmp_dir = %q\n",
		"CONTAINERS_STORAGE_CONF": "[storage]\ndriver = \"vfs\"\ngraphroot = \"%[1]s/graph\"\nrunroot = \"%[1]s/run\"\n",
	} {
		path := filepath.Join(own, variable)
		if err := os.WriteFile(path, fmt.Appendf(nil, text, own), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv(variable, path)
	}
	image = "localhost/cascade-test-" + strings.ToLower(filepath.Base(t.TempDir())) + fmt.Sprint(os.Getpid())
	archive := filepath.Join(t.TempDir(), "image.tar")
	out, err := exec.CommandContext(t.Context(), "tar", "-C", dir, "-cf", archive, ".").CombinedOutput()
	if err != nil {
		t.Fatalf("pack the image: %v\n%s", err, out)
	}
	out, err = exec.CommandContext(t.Context(), "podman", "import", "--change", "ENV OF=image", "--change", "ENV PATH=/bin", archive, image).CombinedOutput()
	switch {
	case err == nil:
	case os.Getenv(requirePodman) != "":
		t.Fatalf("podman import: %v\n%s", err, out)
	default:
		t.Skipf("no images by podman here: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("podman", "image", "rm", image).CombinedOutput(); err != nil {
			t.Errorf("remove the image: %v\n%s", err, out)
		}
	})
	return image
}

// FakePodman puts a program podman first in PATH, which knows one image of a folder:
// it has to be pulled before it is inspected, and the name of a container is taken until it is
// removed (a file of that name beside the log). An image localhost/nameless can be pulled,
// but has no name then; localhost/broken cannot be inspected. It returns the image's name,
// and a file with the words of each command.
func FakePodman(t *testing.T, dir, id string) (image, log string) {
	t.Helper()
	image, bin := "localhost/cascade-test", t.TempDir()
	log = filepath.Join(bin, "log")
	script := fmt.Sprintf(`#!/bin/sh
echo "$@" >> %[1]s/log
case "$*" in
"pull --quiet localhost/nameless") echo id-nameless; exit ;;
"image inspect localhost/broken") echo "Error: database is locked" >&2; exit 125 ;;
esac
case "$1 $2" in
"image inspect")
	[ -e %[1]s/pulled ] && [ "$3" = %[2]s ] || { echo "Error: $3: image not known" >&2; exit 125; }
	echo '[{"Id": "%[3]s", "Config": {"Env": ["PATH=/bin", "OF=image"]}}]' ;;
"pull --quiet")
	[ "$3" = %[2]s ] || { echo "Error: reading manifest of $3: manifest unknown" >&2; exit 125; }
	: > %[1]s/pulled
	echo %[3]s ;;
"create --name")
	[ ! -e %[1]s/"$3" ] || { echo "Error: the container name $3 is already in use" >&2; exit 125; }
	: > %[1]s/"$3" ;;
"export "*) tar -C %[4]s -c . ;;
"rm -f") rm -f %[1]s/"$3" ;;
*) echo "unknown command $@" >&2; exit 125 ;;
esac
`, bin, image, id, dir)
	if err := os.WriteFile(filepath.Join(bin, "podman"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	return image, log
}
