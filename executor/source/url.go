package source

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/cascade-run/cascade/internal/fetch"
)

// maxBytes are those of one answer.
const maxBytes = 256 << 30

// get reads a URL.
func (x *reading) get(ctx context.Context) ([]byte, error) {
	var b []byte
	_, err := x.HTTP.Get(ctx, fetch.File{URL: x.URL, SHA256: x.SHA256, Size: x.Size, Most: maxBytes}, func(body io.Reader, size int64) (err error) {
		b, err = x.body(ctx, body, size)
		return err
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// body reads an answer into memory.
func (x *reading) body(ctx context.Context, from io.Reader, n int64) ([]byte, error) {
	if n < 0 { // the server does not say how much comes
		f, size, err := x.spool(from)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from, n = f, size
	}
	b, err := x.memory(n)
	if err != nil {
		return nil, err
	}
	return b, fill(ctx, b, from)
}

// spool writes an answer of unknown size to a file without a name.
func (x *reading) spool(from io.Reader) (_ *os.File, size int64, err error) {
	if err := os.MkdirAll(x.Scratch, 0o700); err != nil {
		return nil, 0, err
	}
	f, err := os.CreateTemp(x.Scratch, "input-*")
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if err := os.Remove(f.Name()); err != nil {
		return nil, 0, err
	}
	if size, err = io.Copy(f, from); err != nil {
		return nil, 0, err
	}
	_, err = f.Seek(0, io.SeekStart)
	return f, size, err
}
