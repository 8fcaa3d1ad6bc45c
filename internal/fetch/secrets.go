package fetch

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// leastSecret is the length, in bytes, from which on text is hidden: what is shorter is in
// too many words.
const leastSecret = 4

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
	secrets := hide(u)
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return shown{u.String(), secrets}
}

// hide replaces what may be secret in an address: its query and each value there, user and
// password. Of what begins at the same place the longest is replaced.
func hide(u *url.URL) *strings.Replacer {
	secrets := []string{u.RawQuery}
	if u.User != nil {
		name := u.User.Username()
		password, _ := u.User.Password()
		secrets = append(secrets, base64.StdEncoding.EncodeToString([]byte(name+":"+password))) // as it is sent
		secrets = append(append(secrets, forms(name)...), forms(password)...)
	}
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		key, value, _ := strings.Cut(pair, "=")
		value = cmp.Or(value, key) // some sign with a bare word
		secrets = append(secrets, value)
		for _, decode := range []func(string) (string, error){url.QueryUnescape, url.PathUnescape} {
			if text, err := decode(value); err == nil {
				secrets = append(secrets, forms(text)...)
			}
		}
	}
	slices.SortStableFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, secret := range secrets {
		if len(secret) >= leastSecret {
			pairs = append(pairs, secret, "***")
		}
	}
	return strings.NewReplacer(pairs...)
}

// forms are those in which a text stands in addresses.
func forms(text string) []string {
	return []string{text, url.QueryEscape(text), url.PathEscape(text), url.User(text).String()}
}

// Parts of other addresses that may be secret: those of proxies and of redirects.
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
