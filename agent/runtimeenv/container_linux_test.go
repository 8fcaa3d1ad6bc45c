package runtimeenv

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/testing/smallfs"
)

func contained(image string) dag.Environment {
	return dag.Environment{Name: "e", Container: &dag.Container{Image: image}}
}

// An image is pulled and unpacked once; what it is made of is its key.
func TestContainer(t *testing.T) {
	files := write(t, t.TempDir(), map[string]string{"mark": "of the image", "bin/tool": "#!"})
	image, log := smallfs.FakePodman(t, files, "id-1")
	dir := t.TempDir()
	prepare := func() (Activation, []string) {
		t.Helper()
		if err := os.WriteFile(log, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		cache := New(dir)
		defer cache.Close()
		act, err := cache.Prepare(t.Context(), contained(image), nil)
		if err != nil {
			t.Fatal(err)
		}
		said, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return act, strings.Split(strings.TrimSpace(string(said)), "\n")
	}
	act, said := prepare()
	if text, err := os.ReadFile(filepath.Join(act.Root, "mark")); err != nil || string(text) != "of the image" {
		t.Errorf("mark is %q, %v", text, err)
	}
	if !act.Built || !slices.Contains(act.Env, "OF=image") || !slices.Contains(act.Env, "PATH=/bin") {
		t.Errorf("it is %+v", act)
	}
	inspect := "image inspect " + image
	container := containerName(filepath.Dir(act.Root))
	remove := "rm -f " + container
	want := []string{inspect, inspect, "pull --quiet " + image, inspect, inspect, inspect,
		remove, "create --name " + container + " id-1 true", "export " + container, remove, inspect}
	if !slices.Equal(said, want) {
		t.Errorf("podman was asked\n%s\nwant\n%s", strings.Join(said, "\n"), strings.Join(want, "\n"))
	}
	if again, said := prepare(); again.Built || again.Root != act.Root || len(said) != 1 {
		t.Errorf("once more: %+v by %q", again, said)
	}
	image, log = smallfs.FakePodman(t, files, "id-2")
	if other, _ := prepare(); !other.Built || other.Root == act.Root {
		t.Errorf("another image of the same name: %+v", other)
	}
}

// A container that a killed agent left is in nobody's way, and no other is left.
func TestContainerLeft(t *testing.T) {
	image, log := smallfs.FakePodman(t, write(t, t.TempDir(), map[string]string{"mark": "of the image"}), "id")
	cache := New(t.TempDir())
	defer cache.Close()
	act, err := cache.Prepare(t.Context(), contained(image), nil)
	if err != nil {
		t.Fatal(err)
	}
	place := filepath.Dir(act.Root)
	left := filepath.Join(filepath.Dir(log), containerName(place))
	if err := errors.Join(os.RemoveAll(place), os.WriteFile(left, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if act, err := cache.Prepare(t.Context(), contained(image), nil); err != nil || !act.Built {
		t.Errorf("beside one that is left: %+v, %v", act, err)
	}
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a container is left: %v", err)
	}
}

func TestContainerFails(t *testing.T) {
	smallfs.FakePodman(t, t.TempDir(), "id")
	cache := New(t.TempDir())
	defer cache.Close()
	for image, want := range map[string]string{
		"localhost/other":    "podman pull: exit status 125\nError: reading manifest of localhost/other: manifest unknown",
		"localhost/nameless": "image localhost/nameless was pulled as id-nameless, but is not found by its name",
		"localhost/broken":   "podman image: exit status 125\nError: database is locked",
	} {
		if _, err := cache.Prepare(t.Context(), contained(image), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", image, err, want)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := cache.Prepare(t.Context(), contained("localhost/other"), nil); err == nil || !strings.Contains(err.Error(), "podman is not on this host") {
		t.Errorf("no podman: %v", err)
	}
}
