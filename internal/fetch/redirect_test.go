package fetch

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestRedirects(t *testing.T) {
	request := func(text string) *http.Request {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return &http.Request{URL: u}
	}
	for _, c := range []struct {
		from, to string
		ok       bool
	}{
		{"https://a/x.zip", "https://b/x.zip", true},
		{"http://a/x.zip", "https://b/x.zip", true},
		{"http://a/x.zip", "http://b/x.zip", true},
		{"https://a/x.zip", "http://b/x.zip", false},
		{"http://a/x.zip", "ftp://b/x.zip", false},
		{"http://a/x.zip", "http:///x.zip", false},
	} {
		if err := checkRedirect(request(c.to), []*http.Request{request(c.from)}); (err == nil) != c.ok {
			t.Errorf("from %s to %s: %v", c.from, c.to, err)
		}
	}
	chain := []*http.Request{request("https://a/x.zip"), request("http://b/x.zip")}
	if err := checkRedirect(request("http://c/x.zip"), chain); err != nil {
		t.Errorf("on from what is plain already: %v", err)
	}
	err := checkRedirect(request("http://user:word@b/x.zip?sig=1"), chain[:1])
	if err == nil || strings.Contains(err.Error(), "word") || strings.Contains(err.Error(), "sig") {
		t.Errorf("away from TLS, with secrets: %v", err)
	}
	if err := checkRedirect(request("https://a/y.zip"), slices.Repeat(chain[:1], 10)); err == nil {
		t.Error("the eleventh request is made")
	}
}
