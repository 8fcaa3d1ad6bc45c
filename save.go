package cascade

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/executor/value"
	"github.com/cascade-run/cascade/internal/outfile"
)

// Save copies the outputs that have a path to files and returns the files, in
// the order of the outputs. Relative paths start at dir. In a folder, which is a
// path that ends in a slash, map[3,500].png becomes the file map-3-500.png; when two
// datasets would have one such name, both have names as references write them:
// map[3,500].png, with %2F for a slash. A regular file is written under a temporary
// name first, so that one that is there is whole; links are followed, and what is no
// regular file, such as a pipe, is written into. It holds what Write says. When a
// dataset cannot be copied, the others still are.
func (j *Job) Save(ctx context.Context, dir string) ([]string, error) {
	located, err := j.Locate(ctx)
	if err != nil {
		return nil, err
	}
	return j.save(ctx, dir, located, nil)
}

// SaveThere is Save for a job that has failed: it copies the outputs that are there
// all the same, and names those that are not.
func (j *Job) SaveThere(ctx context.Context, dir string) (files, missing []string, err error) {
	l, err := j.locate(ctx, comms.Locate{Partly: true})
	if err != nil {
		return nil, nil, err
	}
	files, err = j.save(ctx, dir, l.Data, l.Missing)
	return files, l.Missing, err
}

// SaveTo copies the datasets of a name, such as map.page or spread[*,500].mean, to
// path and returns the files. Several need a folder, which a slash at the end or a
// folder of that name makes of path; their files are named as Save does.
func (j *Job) SaveTo(ctx context.Context, path, name string) ([]string, error) {
	located, missing, err := j.LocateThere(ctx, name)
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
	return j.save(ctx, ".", located, missing)
}

// save copies what has a path, in order. It copies the rest when one cannot be copied.
func (j *Job) save(ctx context.Context, dir string, located []Located, missing []string) (files []string, err error) {
	places := make([]outfile.Place, len(located))
	for i, d := range located {
		places[i] = outfile.Place{Name: d.Name, To: d.Path}
	}
	var errs []error
	from := map[string]string{}
	for i, path := range outfile.Paths(dir, places, missing) {
		if path == "" {
			continue
		}
		d := located[i]
		err := context.Cause(ctx)
		if other, taken := from[path]; taken && err == nil {
			err = fmt.Errorf("output %s is copied there", other)
		}
		if err == nil {
			from[path] = d.Name
			err = j.saveFile(ctx, d, path)
		}
		switch {
		case err == nil:
			files = append(files, path)
		case ctx.Err() != nil:
			return files, errors.Join(append(errs, fmt.Errorf("copy output %s to %s: %w", d.Name, path, err))...)
		default:
			errs = append(errs, fmt.Errorf("copy output %s to %s: %w", d.Name, path, err))
		}
	}
	return files, errors.Join(errs...)
}

// Write writes a dataset as files have it: its bytes as they lie in the store, but msgpack,
// which a value that is neither bytes nor text nor an array is, as JSON on one line; value
// and text are in memory together meanwhile. A value that JSON cannot express, such as a time
// after the year 9999, keeps its bytes, and the log of the client (WithLog) has a warning.
// Fetch has the store's bytes of all.
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
		j.client.opts.Log.Warn().Err(err).Msgf("%s is written as msgpack, not as JSON", d.Name)
		text = b.Bytes()
	}
	_, err = to.Write(text)
	return err
}

func (j *Job) saveFile(ctx context.Context, d Located, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return outfile.Write(path, 0o666, func(w io.Writer) error { return j.Write(ctx, d, w) })
}
