package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
)

// body is what a server sends, while it is read: counted, hashed, bounded and watched.
type body struct {
	ctx      context.Context
	from     io.Reader
	file     File
	length   int64 // that the server says; -1 when it does not
	awaiting func()
	heard    func()
	n        int64
	sum      hash.Hash
	err      error // that ended it; io.EOF when it ended well
}

func newBody(ctx context.Context, resp *http.Response, f File, awaiting, heard func()) *body {
	return &body{ctx: ctx, from: resp.Body, file: f, length: resp.ContentLength, awaiting: awaiting, heard: heard, sum: sha256.New()}
}

// give lets take read the body, and checks what it read.
func (b *body) give(take Take) (Got, error) {
	if err := b.check(b.length); err != nil {
		return Got{}, err
	}
	err := take(b, b.length)
	if err == nil && b.err == nil {
		_, _ = b.Read(make([]byte, 1)) // its end, which b.err tells
	}
	switch {
	case b.err != nil && !errors.Is(b.err, io.EOF):
		return Got{}, whyNot(b.ctx, b.err)
	case err != nil:
		return Got{}, &lasting{err}
	case b.err == nil:
		return Got{}, &lasting{fmt.Errorf("it goes on behind the %d bytes that were read", b.n-1)}
	}
	got := Got{Size: b.n, SHA256: hex.EncodeToString(b.sum.Sum(nil))}
	switch {
	case b.file.Size > 0 && got.Size != b.file.Size:
		return Got{}, &lasting{fmt.Errorf("it has %d bytes, and the job says %d", got.Size, b.file.Size)}
	case b.file.SHA256 != "" && got.SHA256 != b.file.SHA256:
		return Got{}, &lasting{fmt.Errorf("the SHA-256 of its %d bytes is %s, and the job says %s: it was changed, or the hash is of another file",
			got.Size, got.SHA256, b.file.SHA256)}
	}
	return got, nil
}

// check is the error of a file that has n bytes; n is -1 when it is not known.
func (b *body) check(n int64) error {
	switch {
	case n > b.file.Most:
		return &lasting{&TooLargeError{Size: n, Most: b.file.Most}}
	case n >= 0 && b.file.Size > 0 && n != b.file.Size:
		return &lasting{fmt.Errorf("it has %d bytes, and the job says %d", n, b.file.Size)}
	}
	return nil
}

// Read is for Take.
func (b *body) Read(to []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if b.ctx.Err() != nil {
		b.err = context.Cause(b.ctx)
		return 0, b.err
	}
	b.awaiting()
	n, err := b.from.Read(to)
	b.heard()
	b.n += int64(n)
	switch {
	case b.n > b.file.Most:
		b.err = &lasting{&TooLargeError{Size: b.n, Most: b.file.Most}}
		return 0, b.err
	case b.file.Size > 0 && b.n > b.file.Size:
		b.err = &lasting{fmt.Errorf("it has more than the %d bytes that the job says", b.file.Size)}
		return 0, b.err
	}
	_, _ = b.sum.Write(to[:n]) // a hash does not fail
	b.err = err
	return n, err
}
