package fetch

import (
	"errors"
	"fmt"
	"net/http"
)

const mostRedirects = 10

// checkRedirect is for http.Client.CheckRedirect: it ends circles, keeps on TLS what was asked for over TLS, and
// takes out the address that http.Client tells the next server, with a query that may be a signature. User and password
// go along to the same host, which http.Client sees to only where the redirect does not name it.
func checkRedirect(to *http.Request, from []*http.Request) error {
	to.Header.Del("Referer")
	if len(from) >= mostRedirects {
		return &lasting{fmt.Errorf("it was redirected %d times", mostRedirects)}
	}
	if from[len(from)-1].URL.Scheme == "https" && to.URL.Scheme != "https" {
		return &lasting{fmt.Errorf("it is redirected from https to %s://%s: give the address that is meant", to.URL.Scheme, to.URL.Host)}
	}
	if to.URL.Scheme != "http" && to.URL.Scheme != "https" || to.URL.Host == "" {
		return &lasting{fmt.Errorf("it is redirected to %s://%s, which is no http address", to.URL.Scheme, to.URL.Host)}
	}
	if before := from[len(from)-1].URL; to.URL.User == nil && to.URL.Host == before.Host {
		to.URL.User = before.User
	}
	return nil
}

// redirects is a transport that ends at a redirect to what is no address: http.Client says
// only in words, which repeat it, that this has happened.
type redirects struct{ http.RoundTripper }

// RoundTrip is for http.Client.
func (t redirects) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(req)
	if err != nil || resp.StatusCode/100 != 3 {
		return resp, err
	}
	if _, err := resp.Location(); err != nil && !errors.Is(err, http.ErrNoLocation) {
		_ = resp.Body.Close() // the body is not read
		return nil, &lasting{errors.New("it is redirected to something that is no address")}
	}
	return resp, nil
}
