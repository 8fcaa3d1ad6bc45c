package runtimeenv

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// Bounds of one image.
const (
	maxImageBytes = 64 << 30
	maxImageFiles = 2_000_000
)

// untar writes the files of an image below a folder and nowhere else. They belong to
// this user, who can also remove them; no file gains rights by its mode, and devices
// are left out. Links may lead anywhere: they are followed with the folder as root only.
func untar(from io.Reader, to string) error {
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // nothing is written to a folder itself
	left, files := int64(maxImageBytes), 0
	for r := tar.NewReader(from); ; files++ {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the files of the image: %w", err)
		}
		if left -= h.Size; left < 0 || files == maxImageFiles {
			return fmt.Errorf("the image has more than %d files or %d GiB", maxImageFiles, maxImageBytes>>30)
		}
		name := path.Clean("/" + h.Name)[1:]
		if name == "" {
			continue // the root itself
		}
		if err := untarOne(root, h, r, filepath.FromSlash(name)); err != nil {
			return fmt.Errorf("unpack %s of the image: %w", h.Name, err)
		}
	}
}

func untarOne(root *os.Root, h *tar.Header, content io.Reader, name string) error {
	mode := fs.FileMode(h.Mode) & 0o777
	if h.Typeflag == tar.TypeDir {
		if err := root.MkdirAll(name, 0o700); err != nil {
			return err
		}
		return root.Chmod(name, mode|0o700)
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeSymlink, tar.TypeLink:
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err // a later entry takes the place of an earlier one
		}
	}
	switch h.Typeflag {
	case tar.TypeReg:
		return untarFile(root, name, mode|0o400, content)
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return root.Link(filepath.FromSlash(path.Clean("/" + h.Linkname)[1:]), name)
	}
	return nil
}

func untarFile(root *os.Root, name string, mode fs.FileMode, content io.Reader) error {
	file, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Chmod(mode), file.Close())
}
