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
	"regexp"
	"strings"
	"unicode"
)

const maxTold = 200 // bytes of an answer that an error repeats

// TooLargeError says that there are more bytes than are taken.
type TooLargeError struct {
	Size int64 // that it has, or at least has
	Most int64 // that are taken
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("it has %d bytes or more: at most %d are taken", e.Size, e.Most)
}

// lasting is an error that another try does not mend.
type lasting struct{ err error }

func (e *lasting) Error() string { return e.err.Error() }
func (e *lasting) Unwrap() error { return e.err }

// whyNot is the error of a try that came to nothing: of a silent server, why it was
// given up.
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
	err := fmt.Errorf("the server says %s", resp.Status)
	line, _ := bufio.NewReader(io.LimitReader(resp.Body, maxTold)).ReadString('\n') // what comes is told, be it cut
	line = strings.TrimSpace(strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return -1
	}, line))
	if kind := resp.Header.Get("Content-Type"); line != "" && strings.HasPrefix(kind, "text/plain") {
		err = fmt.Errorf("%w: %s", err, line)
	}
	switch code := resp.StatusCode; {
	case code >= 500 && code != http.StatusNotImplemented, code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests:
		return err
	}
	return &lasting{err}
}

// Plain is an address without what may be secret: user, password and query.
func Plain(address string) string { return newShown(address).name }

// shown is an address as it may be told.
type shown struct {
	name    string
	secrets *strings.Replacer // of the address, where a server repeats them
}

func newShown(address string) shown {
	u, err := url.Parse(address)
	if err != nil {
		return shown{"the address", strings.NewReplacer(address, "***")}
	}
	var pairs []string
	password, _ := u.User.Password()
	for _, secret := range []string{u.RawQuery, password} {
		if len(secret) > 3 { // shorter ones are in too many words
			pairs = append(pairs, secret, "***")
		}
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return shown{u.String(), strings.NewReplacer(pairs...)}
}

// What may be secret in other addresses: those of proxies, and where servers send us on.
var (
	userinfo = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/\s"'` + "`" + `]+@`)
	query    = regexp.MustCompile(`\?[^\s"'` + "`" + `]+`)
)

// error is err with the address in front, and without secrets.
func (s shown) error(how string, err error) error {
	text := s.secrets.Replace(err.Error())
	text = query.ReplaceAllString(userinfo.ReplaceAllString(text, "${1}***@"), "?***")
	return &getError{fmt.Sprintf("GET %s: %s%s", s.name, how, text), err}
}

// getError is why nothing was got. Its text has no secrets; those of the errors that it
// wraps may have.
type getError struct {
	text string
	err  error
}

func (e *getError) Error() string { return e.text }
func (e *getError) Unwrap() error { return e.err }
