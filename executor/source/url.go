package source

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/cascade-run/cascade/internal/redirect"
)

const (
	tries    = 4         // of one URL, in one attempt of the task
	maxBytes = 256 << 30 // of one answer
	maxTold  = 200       // bytes of an answer that an error repeats
)

// lasting is an error that another try does not mend.
type lasting struct{ err error }

func (e *lasting) Error() string { return e.err.Error() }
func (e *lasting) Unwrap() error { return e.err }

// fetch reads a URL, again and again when that may help.
func (x *reading) fetch(ctx context.Context) ([]byte, error) {
	name := redacted(x.URL)
	pause := x.Pause
	if pause == 0 {
		pause = time.Second
	}
	for try := 1; ; try++ {
		b, err := x.get(ctx)
		var never *lasting
		switch {
		case err == nil:
			return b, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.As(err, &never):
			return nil, fmt.Errorf("GET %s: %w", name, err)
		case try == tries:
			return nil, fmt.Errorf("GET %s: tried %d times: %w", name, tries, err)
		}
		fmt.Fprintf(x.Log, "GET %s: %v; again in %v\n", name, err, pause)
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return nil, context.Cause(ctx)
		}
		pause *= 2
	}
}

// redacted is a URL without what may be secret: user, password and query.
func redacted(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "the URL"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// get asks once.
func (x *reading) get(ctx context.Context) ([]byte, error) {
	silence := x.Silence
	if silence == 0 {
		silence = time.Minute
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(silence, func() { cancel(fmt.Errorf("the server has sent nothing for %v", silence)) })
	defer watch.Stop()
	heard := func() { watch.Reset(silence) }

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, x.URL, nil)
	if err != nil {
		return nil, &lasting{plain(err)}
	}
	client := &http.Client{Transport: x.Transport, CheckRedirect: checkRedirect}
	if client.Transport == nil {
		client.Transport = newTransport(silence)
		defer client.CloseIdleConnections()
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, whyNot(ctx, err)
	}
	defer resp.Body.Close()
	heard()
	if resp.StatusCode != http.StatusOK {
		return nil, refused(resp)
	}
	b, sum, err := x.body(ctx, resp, heard)
	switch {
	case err != nil:
		return nil, whyNot(ctx, err)
	case x.SHA256 != "" && sum != x.SHA256:
		return nil, &lasting{fmt.Errorf("the SHA-256 of its %d bytes is %s, and the job wants %s", len(b), sum, x.SHA256)}
	}
	return b, nil
}

// body reads an answer into memory.
func (x *reading) body(ctx context.Context, resp *http.Response, heard func()) (b []byte, sum string, err error) {
	from, n := io.Reader(resp.Body), resp.ContentLength
	if n < 0 { // the server does not say how much comes
		f, size, err := x.spool(ctx, resp.Body, heard)
		if err != nil {
			return nil, "", err
		}
		defer f.Close()
		from, n = f, size
	}
	switch {
	case n > maxBytes:
		return nil, "", &lasting{fmt.Errorf("it has %d bytes: at most %d are taken", n, int64(maxBytes))}
	case x.Size > 0 && n != x.Size:
		return nil, "", &lasting{fmt.Errorf("it has %d bytes, and the job says %d", n, x.Size)}
	}
	if b, err = x.memory(n); err != nil {
		return nil, "", &lasting{err}
	}
	sum, err = fill(ctx, b, from, heard)
	return b, sum, err
}

// spool writes an answer of unknown size to a file without a name.
func (x *reading) spool(ctx context.Context, from io.Reader, heard func()) (_ *os.File, size int64, err error) {
	if err := os.MkdirAll(x.Scratch, 0o700); err != nil {
		return nil, 0, &lasting{err}
	}
	f, err := os.CreateTemp(x.Scratch, "input-*")
	if err != nil {
		return nil, 0, &lasting{err}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if err := os.Remove(f.Name()); err != nil {
		return nil, 0, &lasting{err}
	}
	room := make([]byte, chunk)
	for {
		if ctx.Err() != nil {
			return nil, 0, context.Cause(ctx)
		}
		n, err := from.Read(room)
		heard()
		if _, werr := f.Write(room[:n]); werr != nil {
			return nil, 0, &lasting{werr}
		}
		if size += int64(n); size > maxBytes {
			return nil, 0, &lasting{fmt.Errorf("it has more than %d bytes", int64(maxBytes))}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, 0, err
		}
	}
	_, err = f.Seek(0, io.SeekStart)
	return f, size, err
}

// newTransport is a transport whose steps all end.
func newTransport(silence time.Duration) *http.Transport {
	dialer := &net.Dialer{Timeout: silence}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext,
		TLSHandshakeTimeout: silence, ResponseHeaderTimeout: silence,
		DisableCompression: true, // the bytes are those of the file, and as many as the server says
	}
}

func checkRedirect(to *http.Request, from []*http.Request) error {
	if err := redirect.Check(to, from); err != nil {
		return &lasting{err}
	}
	return nil
}

// whyNot is the error of a request that came to nothing: of a silent server, why
// it was given up.
func whyNot(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &dns) && dns.IsNotFound || errors.As(err, &certificate) {
		return &lasting{plain(err)}
	}
	return plain(err)
}

// plain leaves out method and URL, which are said elsewhere.
func plain(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// refused is the error of an answer that brings no file: its status, and the first
// line of what the server says.
func refused(resp *http.Response) error {
	err := errors.New(resp.Status)
	line, _ := bufio.NewReader(io.LimitReader(resp.Body, maxTold)).ReadString('\n') // what comes is told, be it cut
	line = strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return -1
	}, line)
	if kind := resp.Header.Get("Content-Type"); line != "" && strings.HasPrefix(kind, "text/plain") {
		err = fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(line))
	}
	switch code := resp.StatusCode; {
	case code >= 500 && code != http.StatusNotImplemented, code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests:
		return err
	}
	return &lasting{err}
}
