package cascade_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade/dag"
)

type cascadeGraph = dag.Graph

func mkfifo(t *testing.T, path string) {
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
}
