package cascade

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/executor/value"
)

// Save copies the outputs that have a path to files and returns the files, in
// the order of the outputs. Relative paths start at dir. In a folder, which is a
// path that ends in a slash, map[3,500].png becomes the file map-3-500.png. Each
// file is written under a temporary name first, so that one that is there is
// whole, and holds what Write says. Two outputs with one file are refused before anything is written.
func (j *Job) Save(ctx context.Context, dir string) ([]string, error) {
	located, err := j.Locate(ctx)
	if err != nil {
		return nil, err
	}
	return j.save(ctx, dir, located)
}

// SaveThere is Save for a job that has failed: it copies the outputs that are there
// all the same, and names those that are not.
func (j *Job) SaveThere(ctx context.Context, dir string) (files, missing []string, err error) {
	l, err := j.locate(ctx, comms.Locate{Partly: true})
	if err != nil {
		return nil, nil, err
	}
	files, err = j.save(ctx, dir, l.Data)
	return files, l.Missing, err
}

// CheckOutputs returns an error when an output of a graph could not be copied to
// where it is to go, as far as that can be told before: what should be a folder is
// none, what should be a file is a folder, or nothing may be written there.
// Relative paths start at dir, as for Save.
func CheckOutputs(g *dag.Graph, dir string) error {
	var errs []error
	for i := range g.Exports {
		e := &g.Exports[i]
		if e.Path == "" {
			continue
		}
		if err := checkOutput(dir, e.Path); err != nil {
			errs = append(errs, fmt.Errorf("output %s cannot be copied to %s: %w", e.From.Text, e.Path, err))
		}
	}
	return errors.Join(errs...)
}

func checkOutput(dir, to string) error {
	path := to
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	folder := path
	if !strings.HasSuffix(to, "/") {
		folder = filepath.Dir(path)
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return fmt.Errorf("%s is a folder: end it with a slash, or name a file in it", path)
		}
	}
	for { // what is not there yet is made when it is needed
		info, err := os.Stat(folder)
		switch {
		case err == nil && !info.IsDir():
			return fmt.Errorf("%s is no folder", folder)
		case err == nil:
			if err := unix.Access(folder, unix.W_OK|unix.X_OK); err != nil {
				return fmt.Errorf("write into folder %s: %w", folder, err)
			}
			return nil
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR):
			return err
		}
		folder = filepath.Dir(folder)
	}
}

// SaveTo copies the datasets of a name, such as map.page or spread[*,500].mean, to
// path and returns the files. Several need a folder, which a slash at the end or a
// folder of that name makes of path; their files are named as Save does.
func (j *Job) SaveTo(ctx context.Context, path, name string) ([]string, error) {
	located, err := j.Locate(ctx, name)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() && !strings.HasSuffix(path, "/") {
		path += "/"
	}
	if len(located) > 1 && !strings.HasSuffix(path, "/") {
		return nil, fmt.Errorf("save %s: %w: these are %d datasets and %s is no folder; end it with a slash", name, ErrBadRequest, len(located), path)
	}
	for i := range located {
		located[i].Path = path
	}
	return j.save(ctx, ".", located)
}

func (j *Job) save(ctx context.Context, dir string, located []Located) ([]string, error) {
	paths := make([]string, len(located))
	from := map[string]string{}
	for i, d := range located {
		if d.Path == "" {
			continue
		}
		paths[i] = outputPath(dir, d)
		if other, taken := from[paths[i]]; taken {
			return nil, fmt.Errorf("outputs %s and %s would both be copied to %s: give a folder, with a slash at its end", other, d.Name, paths[i])
		}
		from[paths[i]] = d.Name
	}
	var files []string
	for i, d := range located {
		if paths[i] == "" {
			continue
		}
		if err := j.saveFile(ctx, d, paths[i]); err != nil {
			return files, fmt.Errorf("copy output %s to %s: %w", d.Name, paths[i], err)
		}
		files = append(files, paths[i])
	}
	return files, nil
}

// outputPath is where a dataset goes. Values of loop variables may be any text,
// so a slash in one must not lead into another folder.
func outputPath(dir string, d Located) string {
	path := d.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	if !strings.HasSuffix(d.Path, "/") {
		return path
	}
	task, output := d.Name, ""
	if dot := strings.LastIndexByte(d.Name, '.'); dot >= 0 {
		task, output = d.Name[:dot], d.Name[dot:]
	}
	if at := strings.IndexByte(output, '['); at >= 0 { // an element of a generator
		task, output = task+output[at:], output[:at]
	}
	plain := strings.NewReplacer("[", "-", "]", "", ",", "-", "/", "_").Replace(task)
	return filepath.Join(path, plain+output)
}

// Write writes a dataset as files have it: its bytes as they lie in the store, but msgpack,
// which a value that is neither bytes nor text nor an array is, as JSON on one line; value
// and text are in memory together meanwhile. What JSON cannot say, such as a time after the
// year 9999, keeps its bytes, and the log of the client (WithLog) has a warning. Fetch has
// the store's bytes of all.
func (j *Job) Write(ctx context.Context, d Located, to io.Writer) error {
	if d.Desc.Codec != value.Msgpack {
		return j.Fetch(ctx, d, to)
	}
	var b bytes.Buffer
	if err := j.Fetch(ctx, d, &b); err != nil {
		return err
	}
	text, err := value.Text(value.Flat{Codec: d.Desc.Codec, Bytes: b.Bytes()})
	if err != nil {
		j.client.opts.log.Warn().Err(err).Msgf("%s is written as msgpack, not as JSON", d.Name)
		text = b.Bytes()
	}
	_, err = to.Write(text)
	return err
}

func (j *Job) saveFile(ctx context.Context, d Located, path string) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close() // the first error is what matters
			_ = os.Remove(f.Name())
		}
	}()
	if err := j.Write(ctx, d, f); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
