package runtimeenv

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Bounds of one folder or archive of a job.
const (
	maxTreeBytes = 1 << 30
	maxTreeFiles = 50_000
)

// treeFile is one file or symbolic link of a folder that is shipped.
type treeFile struct {
	name   string // with / between its parts
	mode   fs.FileMode
	size   int64
	target string // of a link
}

// listTree lists what is shipped of a folder, in order. A file is a tree of one.
func listTree(dir string) ([]treeFile, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []treeFile{{name: ".", mode: info.Mode(), size: info.Size()}}, boundTree(dir, 1, info.Size())
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil { // a walk does not begin at a link
		return nil, err
	}
	ignored, err := readIgnore(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // it was only read
	var all []treeFile
	var bytes int64
	err = filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || file == dir {
			return err
		}
		rel, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if ignored.ignores(name, entry.IsDir()) {
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if entry.IsDir() {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		f := treeFile{name: name, mode: info.Mode(), size: info.Size()}
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			if f.target, err = os.Readlink(file); err != nil {
				return err
			}
			if !inside(root, name, f.target) {
				return fmt.Errorf("%s is a link to %s, outside of the folder: put the file in its place, or name the link in %s", file, f.target, ignoreNames[0])
			}
		case !info.Mode().IsRegular():
			return fmt.Errorf("%s is neither a file nor a folder nor a link: name it in %s", file, ignoreNames[0])
		}
		all = append(all, f)
		bytes += f.size
		return boundTree(dir, len(all), bytes)
	})
	slices.SortFunc(all, func(a, b treeFile) int { return strings.Compare(a.name, b.name) })
	return all, err
}

func readIgnore(dir string) (ignoreList, error) {
	for _, name := range ignoreNames {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			return parseIgnore(text), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return parseIgnore(nil), nil
}

func boundTree(dir string, files int, bytes int64) error {
	if files > maxTreeFiles || bytes > maxTreeBytes {
		return fmt.Errorf("%s has more than %d files or %d MiB: data belongs beside the code, and what is not needed into %s",
			dir, maxTreeFiles, maxTreeBytes>>20, ignoreNames[0])
	}
	return nil
}

// inside tells whether a link at name with this target stays in the tree: by its
// text, and by where it leads over other links. One that leads nowhere may stay.
func inside(root *os.Root, name, target string) bool {
	if path.IsAbs(target) {
		return false
	}
	to := path.Join(path.Dir(name), filepath.ToSlash(target))
	if to == ".." || strings.HasPrefix(to, "../") {
		return false
	}
	_, err := root.Stat(filepath.FromSlash(name))
	return err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENOTDIR)
}

// tree hashes the names, modes and contents of what is shipped of a folder, or of a file.
func (h hasher) tree(dir string) error {
	files, err := listTree(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		kind := "file"
		if f.mode&0o111 != 0 {
			kind = "program"
		}
		if f.target != "" {
			h.text("link", f.name, f.target)
			continue
		}
		h.text(kind, f.name, fmt.Sprint(f.size))
		if err := h.content(filepath.Join(dir, filepath.FromSlash(f.name)), f.size); err != nil {
			return err
		}
	}
	h.text("end")
	return nil
}

// content hashes size bytes of a file; one that has another size by now is being changed.
func (h hasher) content(name string, size int64) error {
	return copyContent(h, name, size)
}

func copyContent(to io.Writer, name string, size int64) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	n, err := io.Copy(to, io.LimitReader(file, size+1))
	if err == nil && n != size {
		err = fmt.Errorf("%s changes while it is read", name)
	}
	return err
}

// copyTree copies what is shipped of a folder, or a file, to a folder. The copy is
// shared by tasks: it is not to be written.
func copyTree(from, to string) error {
	files, err := listTree(from)
	if err != nil {
		return err
	}
	for _, f := range files {
		source, dest := filepath.Join(from, filepath.FromSlash(f.name)), filepath.Join(to, filepath.FromSlash(f.name))
		if f.name == "." {
			source, dest = from, filepath.Join(to, filepath.Base(from))
		}
		if err := os.MkdirAll(filepath.Dir(dest), 0o700); err != nil {
			return err
		}
		if f.target != "" {
			if err := os.Symlink(f.target, dest); err != nil {
				return err
			}
			continue
		}
		if err := copyFile(source, dest, f.mode); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, shippedMode(mode))
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// shippedMode is what becomes of a file's permissions: tasks share the file and run it if it was a program.
func shippedMode(mode fs.FileMode) fs.FileMode {
	if mode&0o111 != 0 {
		return 0o500
	}
	return 0o400
}

// isArchive tells by its name whether a file is an archive that is unpacked.
func isArchive(name string) bool {
	ext := strings.ToLower(filepath.Ext(name))
	return ext == ".zip" || ext == ".whl"
}

// boundArchive is boundTree of an archive of so many bytes, as far as it tells what is in it.
func boundArchive(archive string, bytes int64) error {
	if err := boundTree(archive, 0, bytes); err != nil {
		return err
	}
	zr, err := zip.OpenReader(archive)
	if err != nil {
		return fmt.Errorf("open archive %s: %w", archive, err)
	}
	defer func() { _ = zr.Close() }() // it was only read
	var total uint64
	for _, f := range zr.File {
		total += min(f.UncompressedSize64, maxTreeBytes+1) // of up to 2^32 files
	}
	return boundTree(archive, len(zr.File), int64(min(total, maxTreeBytes+1)))
}

// unpack writes an archive's files below a folder and nowhere else, and links that
// stay there. Sizes that the archive states are not trusted.
func unpack(archive, to string) error {
	zr, err := zip.OpenReader(archive)
	if err != nil {
		return fmt.Errorf("open archive %s: %w", archive, err)
	}
	defer func() { _ = zr.Close() }() // it was only read
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // nothing is written to a folder itself
	left := int64(maxTreeBytes)
	var links []treeFile // made last: nothing is written through them
	for n, f := range zr.File {
		if n >= maxTreeFiles {
			return boundTree(archive, n+1, 0)
		}
		name := path.Clean(strings.ReplaceAll(f.Name, `\`, "/"))
		if !filepath.IsLocal(name) {
			return fmt.Errorf("archive %s: the entry %q leads out of it", archive, f.Name)
		}
		var link string
		if f.Mode()&fs.ModeSymlink != 0 {
			link, err = readLink(f)
			links = append(links, treeFile{name: name, target: link})
		} else {
			err = unpackOne(root, f, name, &left)
		}
		if err != nil {
			if left < 0 {
				return boundTree(archive, 0, maxTreeBytes+1)
			}
			return fmt.Errorf("archive %s: entry %q: %w", archive, f.Name, err)
		}
	}
	if err := unpackLinks(root, links); err != nil {
		return fmt.Errorf("archive %s: %w", archive, err)
	}
	return nil
}

// maxLink is the most bytes of a link's target: PATH_MAX of Linux.
const maxLink = 4096

func readLink(f *zip.File) (string, error) {
	in, err := f.Open()
	if err != nil {
		return "", err
	}
	defer in.Close()
	b, err := io.ReadAll(io.LimitReader(in, maxLink))
	return string(b), err
}

// unpackLinks makes links, all of them before it looks whether each stays inside:
// one may lead over another.
func unpackLinks(root *os.Root, links []treeFile) error {
	for _, l := range links {
		err := root.MkdirAll(path.Dir(l.name), 0o700)
		if err == nil {
			err = root.Symlink(l.target, l.name)
		}
		if err != nil {
			return fmt.Errorf("link %q: %w", l.name, err)
		}
	}
	for _, l := range links {
		if !inside(root, l.name, l.target) {
			return fmt.Errorf("the link %q to %q leads out of it", l.name, l.target)
		}
	}
	return nil
}

func unpackOne(root *os.Root, f *zip.File, name string, left *int64) error {
	mode := f.Mode()
	if mode.IsDir() {
		return root.MkdirAll(name, 0o700)
	}
	if !mode.IsRegular() {
		return errors.New("only files and folders can be in it")
	}
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, shippedMode(mode))
	if err != nil {
		return err
	}
	n, err := io.Copy(out, io.LimitReader(in, *left+1))
	*left -= n
	if err == nil && *left < 0 {
		err = errors.New("too large")
	}
	return errors.Join(err, out.Close())
}
