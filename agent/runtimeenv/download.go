package runtimeenv

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"time"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/redirect"
)

// downloadTime is the longest time of one download.
const downloadTime = 10 * time.Minute

// download fetches an archive to a file in dir, and returns its name, size and SHA-256.
// It is bounded as every archive is, and is one; when the address has a hash, it is that.
func download(ctx context.Context, a dag.Address, dir string) (name string, size int64, hash string, err error) {
	defer func() {
		if err != nil {
			var failed *url.Error // says the address, with what may be secret
			if errors.As(err, &failed) {
				err = failed.Err
			}
			err = fmt.Errorf("fetch %s: %w", withoutSecrets(a.URL), err)
		}
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL, nil)
	if err != nil {
		return "", 0, "", err
	}
	client := http.Client{Timeout: downloadTime, CheckRedirect: redirect.Check}
	answer, err := client.Do(req)
	if err != nil {
		return "", 0, "", err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return "", 0, "", fmt.Errorf("the server says %s", answer.Status)
	}
	if answer.ContentLength > maxTreeBytes {
		return "", 0, "", tooLarge(answer.ContentLength)
	}
	file, err := os.CreateTemp(dir, "*"+path.Ext(a.Name))
	if err != nil {
		return "", 0, "", fmt.Errorf("keep what comes: %w", err)
	}
	sum := sha256.New()
	size, err = io.Copy(io.MultiWriter(file, sum), io.LimitReader(answer.Body, maxTreeBytes+1))
	if err = errors.Join(err, file.Close()); err != nil {
		return "", 0, "", err
	}
	hash = hex.EncodeToString(sum.Sum(nil))
	switch {
	case size > maxTreeBytes:
		return "", 0, "", tooLarge(size)
	case a.Hash != "" && a.Hash != hash:
		return "", 0, "", fmt.Errorf("its SHA-256 is %s, not the %s of the job: it was changed, or the hash is of another file", hash, a.Hash)
	}
	archive, err := zip.OpenReader(file.Name())
	if err != nil {
		return "", 0, "", fmt.Errorf("the %d bytes that came are no zip archive (a page that asks to log in, perhaps): %w", size, err)
	}
	return file.Name(), size, hash, archive.Close()
}

func tooLarge(size int64) error {
	return fmt.Errorf("it has %d bytes or more, at most %d MiB are taken: data belongs beside the code", size, maxTreeBytes>>20)
}
