package runtimeenv

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/fetch"
)

// downloadTime is the longest time of one download, all its tries together: an archive
// that is as large as any comes in it at 300 kB a second.
const downloadTime = time.Hour

// download fetches an archive to a file in dir, and returns its name, size and SHA-256.
// It is bounded as every archive is, and is one; when the address has a hash, it is that.
func download(ctx context.Context, client fetch.Client, a dag.Address, dir string) (name string, got fetch.Got, err error) {
	file, err := os.CreateTemp(dir, "*"+path.Ext(a.Name))
	if err != nil {
		return "", got, fmt.Errorf("keep what comes: %w", err)
	}
	client.Limit = downloadTime
	got, err = client.Get(ctx, fetch.File{URL: a.URL, SHA256: a.Hash, Most: maxTreeBytes}, func(body io.Reader, _ int64) error {
		if err := file.Truncate(0); err != nil {
			return err
		}
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		_, err := io.Copy(file, body)
		return err
	})
	var large *fetch.TooLargeError
	if errors.As(err, &large) {
		err = fmt.Errorf("%w (%d MiB): data belongs beside the code", err, large.Most>>20)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return "", got, err
	}
	archive, err := zip.OpenReader(file.Name())
	if err != nil {
		return "", got, fmt.Errorf("GET %s: the %d bytes that came are no zip archive (a page that asks to log in, perhaps): %w", fetch.Plain(a.URL), got.Size, err)
	}
	return file.Name(), got, archive.Close()
}
