package fetch

import (
	"fmt"
	"net/http"
)

const mostRedirects = 10

// checkRedirect is for http.Client.CheckRedirect: it ends circles, keeps on TLS what was asked for over TLS, and
// takes out the address that http.Client tells the next server, with a query that may be a signature.
func checkRedirect(to *http.Request, from []*http.Request) error {
	to.Header.Del("Referer")
	if len(from) >= mostRedirects {
		return &lasting{fmt.Errorf("it was redirected %d times", mostRedirects)}
	}
	if from[len(from)-1].URL.Scheme == "https" && to.URL.Scheme != "https" {
		return &lasting{fmt.Errorf("it is redirected from https to %s://%s: give the address that is meant", to.URL.Scheme, to.URL.Host)}
	}
	return nil
}
