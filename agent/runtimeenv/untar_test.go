package runtimeenv

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/internal/safedir"
)

func tarOf(t *testing.T, entries ...tar.Header) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		text := h.Gname // what a test wants in the file
		h.Gname = ""
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(text))
		} else {
			text = ""
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

func TestUntar(t *testing.T) {
	dir := t.TempDir()
	err := untar(tarOf(t,
		tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755},
		tar.Header{Typeflag: tar.TypeDir, Name: "shut/", Mode: 0o000},
		tar.Header{Typeflag: tar.TypeReg, Name: "shut/file", Mode: 0o4755, Gname: "one"},
		tar.Header{Typeflag: tar.TypeReg, Name: "./no/folder", Mode: 0, Gname: "two"},
		tar.Header{Typeflag: tar.TypeReg, Name: "/../twice", Mode: 0o644, Gname: "first"},
		tar.Header{Typeflag: tar.TypeReg, Name: "twice", Mode: 0o644, Gname: "second"},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "link", Linkname: "/etc/passwd"},
		tar.Header{Typeflag: tar.TypeLink, Name: "hard", Linkname: "/shut/file"},
		tar.Header{Typeflag: tar.TypeChar, Name: "dev/null", Mode: 0o666, Devmajor: 1, Devminor: 3},
		tar.Header{Typeflag: tar.TypeFifo, Name: "fifo", Mode: 0o666},
	), dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		text string
		mode os.FileMode
	}{"shut/file": {"one", 0o755}, "no/folder": {"two", 0o400}, "twice": {"second", 0o644}, "hard": {"one", 0o755}} {
		path := filepath.Join(dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
			continue
		}
		info, err := os.Stat(path)
		if err != nil || string(text) != want.text || info.Mode() != want.mode {
			t.Errorf("%s: %q, %v, %v", name, text, info.Mode(), err)
		}
	}
	if to, err := os.Readlink(filepath.Join(dir, "link")); err != nil || to != "/etc/passwd" {
		t.Errorf("link to %s, %v", to, err)
	}
	for _, name := range []string{"dev/null", "fifo"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); !os.IsNotExist(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := safedir.Remove(dir); err != nil {
		t.Error(err)
	}
}

// What an archive says of places outside leads nowhere.
func TestUntarStaysInside(t *testing.T) {
	outside := t.TempDir()
	for _, entries := range [][]tar.Header{
		{{Typeflag: tar.TypeSymlink, Name: "out", Linkname: outside}, {Typeflag: tar.TypeReg, Name: "out/file", Mode: 0o600, Gname: "x"}},
		{{Typeflag: tar.TypeSymlink, Name: "out", Linkname: "../../.."}, {Typeflag: tar.TypeDir, Name: "out/folder", Mode: 0o700}},
		{{Typeflag: tar.TypeLink, Name: "hard", Linkname: "../../../../../../../../etc/passwd"}},
	} {
		err := untar(tarOf(t, entries...), t.TempDir())
		if err == nil || !strings.Contains(err.Error(), "of the image") {
			t.Errorf("%v: %v", entries[0].Linkname, err)
		}
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) != 0 {
		t.Errorf("outside are %v, %v", left, err)
	}
}

func FuzzUntar(f *testing.F) {
	f.Add([]byte("not a tar"))
	f.Fuzz(func(t *testing.T, archive []byte) {
		parent := t.TempDir()
		dir := filepath.Join(parent, "image")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		_ = untar(bytes.NewReader(archive), dir) // whatever it says
		if left, err := os.ReadDir(parent); err != nil || len(left) != 1 {
			t.Errorf("outside are %v, %v", left, err)
		}
	})
}
