package fetch

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
	"strings"
	"unicode"
)

const (
	maxRead = 16 << 10 // bytes of an answer that brings no file: a secret in them is whole, if it begins in what is told
	maxTold = 200      // bytes of it that an error repeats
)

// TooLargeError says that there are more bytes than are taken.
type TooLargeError struct {
	Size int64 // that it has, or at least has
	Most int64 // that are taken
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("it has %d bytes or more: at most %d are taken", e.Size, e.Most)
}

// lasting is an error that another try does not repair.
type lasting struct{ err error }

func (e *lasting) Error() string { return e.err.Error() }
func (e *lasting) Unwrap() error { return e.err }

// whyNot is the error of a failed try: of a silent server, the reason why the try
// was ended.
func whyNot(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &dns) && dns.IsNotFound || errors.As(err, &certificate) || errors.Is(err, http.ErrSchemeMismatch) {
		return &lasting{bare(err)}
	}
	return bare(err)
}

// bare leaves out method and address, which are said elsewhere.
func bare(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// refused is the error of an answer that brings no file: its status, and the first
// line of what the server says.
func refused(resp *http.Response) error {
	text := "the server says " + resp.Status
	if line := firstLine(resp); line != "" && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		text += ": " + line
	}
	err := errors.New(text)
	switch code := resp.StatusCode; {
	case code >= 500 && code != http.StatusNotImplemented, code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests:
		return err
	}
	return &lasting{err}
}

// firstLine is that of what a server says, without the secrets of the addresses that led to it.
func firstLine(resp *http.Response) string {
	line, err := bufio.NewReader(io.LimitReader(resp.Body, maxRead)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "" // it broke off, perhaps in a secret
	}
	line = strings.TrimSpace(strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return -1
	}, line))
	for resp != nil {
		line = hide(resp.Request.URL).Replace(line)
		resp = resp.Request.Response // that sent us on
	}
	return strings.ToValidUTF8(line[:min(len(line), maxTold)], "")
}
