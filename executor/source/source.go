package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"

	"github.com/cascade-run/cascade/internal/fetch"
)

// Source is one input, as the parameters of dag.InputFunction have it.
type Source struct {
	Path   string // of a file; "" for a URL
	URL    string `with:"url"`
	SHA256 string `with:"sha256"` // in hexadecimal; "" when the bytes are not known beforehand
	Size   int64  // bytes; 0 also when it is not known
	Kept   bool   // the cluster keeps the file
}

// Reader reads sources. Its fields do not change while it reads.
type Reader struct {
	// Room gives memory for n bytes.
	Room func(n int) ([]byte, error)
	// FromCluster fills memory with a file that the cluster keeps, by its SHA-256.
	FromCluster func(ctx context.Context, sha256 string, into []byte) error
	// Scratch is the folder for what a server sends without saying how much it is.
	Scratch string
	// Host names this host in errors; "" when it has no name.
	Host string
	// HTTP gets URLs.
	HTTP fetch.Client
}

// chunk is how much is read between two looks at the context.
const chunk = 1 << 20

// reading is one Read.
type reading struct {
	*Reader
	Source
	room []byte // what Room gave last: a second try has the same
}

// Read returns the bytes of a source, in what Room gave.
func (r *Reader) Read(ctx context.Context, s Source) ([]byte, error) {
	x := &reading{Reader: r, Source: s}
	if s.URL != "" {
		return x.get(ctx)
	}
	b, err := x.file(ctx)
	if err == nil || !s.Kept || !otherBytes(err) {
		return b, err
	}
	here := err
	if b, err = x.kept(ctx); err != nil {
		return nil, fmt.Errorf("%w; and what the cluster keeps of it: %w", here, err)
	}
	return b, nil
}

// errOther says that a path does not lead to what the job means.
type errOther struct{ err error }

func (e *errOther) Error() string { return e.err.Error() }
func (e *errOther) Unwrap() error { return e.err }

func otherBytes(err error) bool {
	var other *errOther
	return errors.As(err, &other)
}

// memory is room for n bytes.
func (x *reading) memory(n int64) ([]byte, error) {
	if x.room != nil && int64(len(x.room)) == n {
		return x.room, nil
	}
	if int64(int(n)) != n || n < 0 {
		return nil, fmt.Errorf("%d bytes do not fit into memory", n)
	}
	b, err := x.Room(int(n))
	if err != nil {
		return nil, err
	}
	x.room = b
	return b, nil
}

// file reads the file at the path, if it is the one that the job means.
func (x *reading) file(ctx context.Context) ([]byte, error) {
	// A pipe would block the open until a process writes to it.
	f, err := os.OpenFile(x.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, &errOther{fmt.Errorf("%w%s", err, x.elsewhere())}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, &errOther{err}
	}
	if !info.Mode().IsRegular() {
		return nil, &errOther{fmt.Errorf("%s is no regular file%s", x.Path, x.elsewhere())}
	}
	if x.SHA256 != "" && x.Size > 0 && info.Size() != x.Size {
		return nil, x.changed(fmt.Sprintf("it has %d bytes, and had %d", info.Size(), x.Size))
	}
	b, err := x.memory(info.Size())
	if err != nil {
		return nil, err
	}
	sum, err := hashed(ctx, b, f)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, x.changed("it became shorter while it was read")
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", x.Path, err)
	case x.SHA256 != "" && sum != x.SHA256:
		return nil, x.changed(fmt.Sprintf("its SHA-256 is %s, and was %s", sum, x.SHA256))
	}
	return b, nil
}

func (x *reading) elsewhere() string {
	if x.Host == "" {
		return ""
	}
	return " (on " + x.Host + ")"
}

func (x *reading) changed(how string) error {
	return &errOther{fmt.Errorf("%s%s is not what it was when the job was submitted: %s; submit the job again to take it as it is now", x.Path, x.elsewhere(), how)}
}

// kept reads what the cluster keeps.
func (x *reading) kept(ctx context.Context) ([]byte, error) {
	b, err := x.memory(x.Size)
	if err != nil {
		return nil, err
	}
	if err := x.FromCluster(ctx, x.SHA256, b); err != nil {
		return nil, err
	}
	sum := sha256.New()
	for part := range slices.Chunk(b, chunk) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		_, _ = sum.Write(part) // a hash does not fail
	}
	if sum := hex.EncodeToString(sum.Sum(nil)); sum != x.SHA256 {
		return nil, fmt.Errorf("its SHA-256 is %s, not %s: it was damaged on the way", sum, x.SHA256)
	}
	return b, nil
}

// hashed reads all of b and returns its SHA-256.
func hashed(ctx context.Context, b []byte, from io.Reader) (string, error) {
	sum := sha256.New()
	if err := fill(ctx, b, io.TeeReader(from, sum)); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// fill reads all of b, which is some chunks.
func fill(ctx context.Context, b []byte, from io.Reader) error {
	for at := 0; at < len(b); {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := from.Read(b[at:min(at+chunk, len(b))])
		at += n
		switch {
		case errors.Is(err, io.EOF) && at < len(b):
			return io.ErrUnexpectedEOF
		case err != nil && !errors.Is(err, io.EOF):
			return err
		}
	}
	return nil
}
