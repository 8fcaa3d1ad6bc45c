package runtimeenv

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is too large is refused for what it says of its size, before it fills the disk.
func TestSizesAreBounded(t *testing.T) {
	for _, c := range []struct {
		what string
		take func(t *testing.T, dir string) error
		want string
	}{
		{"an image", func(t *testing.T, dir string) error {
			var archive bytes.Buffer
			if err := tar.NewWriter(&archive).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "huge", Size: maxImageBytes + 1}); err != nil {
				t.Fatal(err)
			}
			return untar(&archive, dir)
		}, "or 64 GiB"},
		{"a file", func(t *testing.T, dir string) error {
			_, err := listTree(sparse(t, filepath.Join(dir, "huge"), maxTreeBytes+1))
			return err
		}, "data belongs beside the code"},
		{"a folder", func(t *testing.T, dir string) error {
			sparse(t, filepath.Join(dir, "large"), maxTreeBytes/2)
			sparse(t, filepath.Join(dir, "larger"), maxTreeBytes/2+1)
			_, err := listTree(dir)
			return err
		}, "data belongs beside the code"},
		{"an archive that is sent", func(t *testing.T, dir string) error {
			_, err := packFolder(sparse(t, filepath.Join(dir, "huge.zip"), maxTreeBytes+1))
			return err
		}, "data belongs beside the code"},
		{"an archive that is sent and says what is in it", func(t *testing.T, dir string) error {
			_, err := packFolder(makeZip(t, filepath.Join(dir, "says.zip"), func(w *zip.Writer) {
				if _, err := w.CreateRaw(&zip.FileHeader{Name: "huge", UncompressedSize64: maxTreeBytes + 1}); err != nil {
					t.Fatal(err)
				}
			}))
			return err
		}, "data belongs beside the code"},
		{"an archive of many entries that is sent", func(t *testing.T, dir string) error {
			_, err := packModule(makeZip(t, filepath.Join(dir, "entries.zip"), func(w *zip.Writer) {
				for range maxTreeFiles + 1 {
					if _, err := w.Create("folder/"); err != nil {
						t.Fatal(err)
					}
				}
			}))
			return err
		}, "more than 50000 files"},
		{"an archive of many entries", func(t *testing.T, dir string) error {
			return unpack(makeZip(t, filepath.Join(dir, "many.zip"), func(w *zip.Writer) {
				for range maxTreeFiles + 1 {
					if _, err := w.Create("folder/"); err != nil {
						t.Fatal(err)
					}
				}
			}), t.TempDir())
		}, "more than 50000 files"},
		{"an archive that hides what is in it", func(t *testing.T, dir string) error {
			r, err := zip.OpenReader(makeZip(t, filepath.Join(dir, "bomb.zip"), func(w *zip.Writer) {
				out, err := w.Create("zeros")
				if err == nil {
					_, err = out.Write(make([]byte, 1<<20))
				}
				if err != nil {
					t.Fatal(err)
				}
			}))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			left := int64(1000) // of those that an archive may have in all
			failed := unpackOne(root, r.File[0], "zeros", &left)
			if info, err := root.Stat("zeros"); err != nil || info.Size() > 1001 {
				t.Errorf("it has written %v, %v", info, err)
			}
			return failed
		}, "too large"},
	} {
		t.Run(c.what, func(t *testing.T) {
			if err := c.take(t, t.TempDir()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// sparse makes a file that takes no room on the disk.
func sparse(t *testing.T, name string, size int64) string {
	t.Helper()
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Truncate(size); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}
