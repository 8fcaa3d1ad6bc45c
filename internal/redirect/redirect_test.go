package redirect_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/cascade-run/cascade/internal/redirect"
)

func TestCheck(t *testing.T) {
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
	} {
		if err := redirect.Check(request(c.to), []*http.Request{request(c.from)}); (err == nil) != c.ok {
			t.Errorf("from %s to %s: %v", c.from, c.to, err)
		}
	}
}
