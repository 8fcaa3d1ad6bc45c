package source_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cascade-run/cascade/executor/source"
	"github.com/cascade-run/cascade/internal/fetch"
)

func hashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// reader reads into memory of its own, and counts how often it took some.
func reader(t *testing.T) (*source.Reader, *int) {
	rooms := 0
	return &source.Reader{
		Room: func(n int) ([]byte, error) {
			rooms++
			return make([]byte, n), nil
		},
		FromCluster: func(context.Context, string, []byte) error {
			t.Error("asked for what the cluster keeps")
			return errors.New("nothing")
		},
		Scratch: t.TempDir(), Host: "h2", HTTP: fetch.Client{Log: t.Output()},
	}, &rooms
}

// A file is taken when it is what the job says, from here or from the cluster.
func TestFiles(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789abcdef"), 3<<16) // 3 MiB
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	small := []byte("winds\n")
	other := []byte("waves\n")
	for _, c := range []struct {
		what string
		s    source.Source
		kept []byte // by the cluster
		want []byte
		err  string
	}{
		{what: "a file", s: source.Source{Path: write("a", small), SHA256: hashOf(small), Size: 6}, want: small},
		{what: "a large file", s: source.Source{Path: write("b", large), SHA256: hashOf(large), Size: 3 << 20}, want: large},
		{what: "an empty file", s: source.Source{Path: write("c", nil), SHA256: hashOf(nil)}, want: []byte{}},
		{what: "a file that nobody has hashed", s: source.Source{Path: write("d", small)}, want: small},
		{what: "no file", s: source.Source{Path: filepath.Join(dir, "none"), SHA256: hashOf(small), Size: 6}, err: "none: no such file or directory (on h2)"},
		{what: "a folder", s: source.Source{Path: dir, SHA256: hashOf(small), Size: 6}, err: dir + " is no regular file (on h2)"},
		{what: "a pipe", s: source.Source{Path: pipe, SHA256: hashOf(small), Size: 6}, err: "pipe is no regular file"},
		{what: "a longer file", s: source.Source{Path: write("e", large), SHA256: hashOf(small), Size: 6},
			err: "e (on h2) is not what it was when the job was submitted: it has 3145728 bytes, and had 6; submit the job again"},
		{what: "other bytes", s: source.Source{Path: write("f", other), SHA256: hashOf(small), Size: 6}, err: "its SHA-256 is " + hashOf(other) + ", and was " + hashOf(small)},
		{what: "kept, and here", s: source.Source{Path: write("g", small), SHA256: hashOf(small), Size: 6, Kept: true}, want: small},
		{what: "kept, and not here", s: source.Source{Path: filepath.Join(dir, "none"), SHA256: hashOf(large), Size: 3 << 20, Kept: true}, kept: large, want: large},
		{what: "kept, and other bytes here", s: source.Source{Path: write("h", other), SHA256: hashOf(small), Size: 6, Kept: true}, kept: small, want: small},
		{what: "kept, and a pipe here", s: source.Source{Path: pipe, SHA256: hashOf(small), Size: 6, Kept: true}, kept: small, want: small},
		{what: "kept, and damaged", s: source.Source{Path: pipe, SHA256: hashOf(small), Size: 6, Kept: true}, kept: other, err: "it was damaged on the way"},
	} {
		t.Run(c.what, func(t *testing.T) {
			r, rooms := reader(t)
			if c.kept != nil {
				r.FromCluster = func(_ context.Context, sum string, into []byte) error {
					if sum != c.s.SHA256 {
						t.Errorf("asked for %s", sum)
					}
					copy(into, c.kept)
					return nil
				}
			}
			b, err := r.Read(t.Context(), c.s)
			switch {
			case c.err != "":
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q", err, c.err)
				}
			case err != nil || !bytes.Equal(b, c.want):
				t.Errorf("%d bytes, %v; want %d", len(b), err, len(c.want))
			}
			if *rooms > 1 {
				t.Errorf("took memory %d times", *rooms)
			}
		})
	}
}

// What the cluster keeps and cannot give is told with what is wrong here.
func TestNeitherHereNorKept(t *testing.T) {
	r, _ := reader(t)
	r.FromCluster = func(context.Context, string, []byte) error { return errors.New("submit the job again") }
	_, err := r.Read(t.Context(), source.Source{Path: "/nowhere/x", SHA256: hashOf(nil), Size: 3, Kept: true})
	if err == nil || !strings.Contains(err.Error(), "open /nowhere/x: no such file or directory (on h2); and what the cluster keeps of it: submit the job again") {
		t.Errorf("error %v", err)
	}
}

// Without memory nothing is tried elsewhere, and a context that has ended ends the read.
func TestFileEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path, []byte("winds\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := source.Source{Path: path, SHA256: hashOf([]byte("winds\n")), Size: 6, Kept: true}
	r, _ := reader(t)
	full := errors.New("the store is full")
	r.Room = func(int) ([]byte, error) { return nil, full }
	if _, err := r.Read(t.Context(), s); !errors.Is(err, full) {
		t.Errorf("error %v", err)
	}
	r, _ = reader(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the task was cancelled")
	cancel(cause)
	if _, err := r.Read(ctx, s); !errors.Is(err, cause) {
		t.Errorf("error %v", err)
	}
}

// Nor is what the cluster keeps compared when the context has ended.
func TestKeptEnds(t *testing.T) {
	r, _ := reader(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the task was cancelled")
	r.FromCluster = func(_ context.Context, _ string, into []byte) error {
		copy(into, "winds\n")
		cancel(cause)
		return nil
	}
	s := source.Source{Path: "/nowhere/x", SHA256: hashOf([]byte("winds\n")), Size: 6, Kept: true}
	if b, err := r.Read(ctx, s); !errors.Is(err, cause) {
		t.Errorf("%d bytes, error %v", len(b), err)
	}
}
