package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A full disk is no bad input, and is named once; a path that cannot be opened is.
func TestPictureUnwritten(t *testing.T) {
	fill := func(w io.Writer) error {
		_, err := io.WriteString(w, "picture")
		return err
	}
	a := &app{out: io.Discard}
	if _, err := os.Stat("/dev/full"); err == nil {
		err := a.write("/dev/full", fill)
		if err == nil || exitCode(err) != exitInfrastructure || strings.Count(err.Error(), "/dev/full") != 1 {
			t.Errorf("on a full disk: %v, exit code %d", err, exitCode(err))
		}
	}
	if err := a.write(filepath.Join(t.TempDir(), "none", "f"), fill); exitCode(err) != exitBadInput {
		t.Errorf("in no folder: %v, exit code %d", err, exitCode(err))
	}
}
