// Package redirect is the policy of http clients for servers that send them on.
package redirect

import (
	"fmt"
	"net/http"
)

const most = 10

// Check is for http.Client.CheckRedirect: it ends circles, and keeps on TLS what was asked for over TLS.
func Check(to *http.Request, from []*http.Request) error {
	if len(from) >= most {
		return fmt.Errorf("it was redirected %d times", most)
	}
	if from[len(from)-1].URL.Scheme == "https" && to.URL.Scheme != "https" {
		return fmt.Errorf("it is redirected from https to %s://%s: give the address that is meant", to.URL.Scheme, to.URL.Host)
	}
	return nil
}
