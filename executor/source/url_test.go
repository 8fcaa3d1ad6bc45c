package source_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cascade-run/cascade/executor/source"
)

// A server is asked as often as that may help, and no more.
func TestURLs(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<17) // 2 MiB
	whole := func(w http.ResponseWriter) { _, _ = w.Write(body) }
	for _, c := range []struct {
		what   string
		serve  func(w http.ResponseWriter, r *http.Request, n int) // the nth request, from 1 on
		path   string
		sha256 string
		size   int64
		asked  int // 0: again after the first time
		err    string
	}{
		{what: "a file", serve: func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			whole(w)
		}, sha256: hashOf(body), asked: 1},
		{what: "of unknown length", serve: func(w http.ResponseWriter, _ *http.Request, _ int) { whole(w) }, sha256: hashOf(body), asked: 1},
		{what: "without a hash", serve: func(w http.ResponseWriter, _ *http.Request, _ int) { whole(w) }, asked: 1},
		{what: "redirected", serve: func(w http.ResponseWriter, r *http.Request, _ int) {
			if r.URL.Path != "/there" {
				http.Redirect(w, r, "/there", http.StatusFound)
				return
			}
			whole(w)
		}, asked: 2},
		{what: "not there", serve: func(w http.ResponseWriter, _ *http.Request, _ int) {
			http.Error(w, "no such field\nlook elsewhere", http.StatusNotFound)
		}, asked: 1, err: "404 Not Found: no such field"},
		{what: "not for us", serve: func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusForbidden) }, asked: 1, err: "403 Forbidden"},
		{what: "busy at first", serve: func(w http.ResponseWriter, _ *http.Request, n int) {
			if n < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			whole(w)
		}, sha256: hashOf(body), asked: 3},
		{what: "cut short at first", serve: func(w http.ResponseWriter, _ *http.Request, n int) {
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			if n == 1 {
				_, _ = w.Write(body[:1000])
				panic(http.ErrAbortHandler)
			}
			whole(w)
		}, sha256: hashOf(body), asked: 2},
		{what: "busy for good", serve: func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusTooManyRequests) }, asked: 4,
			err: "tried 4 times: 429 Too Many Requests"},
		{what: "other bytes", serve: func(w http.ResponseWriter, _ *http.Request, _ int) { _, _ = w.Write([]byte("other")) }, sha256: hashOf(body), asked: 1,
			err: "the SHA-256 of its 5 bytes is " + hashOf([]byte("other")) + ", and the job wants " + hashOf(body)},
		{what: "another size", serve: func(w http.ResponseWriter, _ *http.Request, _ int) { whole(w) }, size: 7, asked: 1, err: "it has 2097152 bytes, and the job says 7"},
		{what: "silent", serve: func(w http.ResponseWriter, r *http.Request, n int) {
			if n > 1 {
				whole(w)
				return
			}
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			var asked atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.serve(w, r, int(asked.Add(1))) }))
			defer server.Close()
			r, rooms := reader(t)
			r.Pause, r.Silence = time.Millisecond, 2*time.Second
			if c.what == "silent" {
				r.Silence = 100 * time.Millisecond
			}
			b, err := r.Read(t.Context(), source.Source{URL: server.URL + "/x", SHA256: c.sha256, Size: c.size})
			switch {
			case c.err != "":
				if err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), "GET http://127.0.0.1:") {
					t.Errorf("error %v, want %q", err, c.err)
				}
			case err != nil || !bytes.Equal(b, body):
				t.Errorf("%d bytes, %v", len(b), err)
			}
			if n := int(asked.Load()); n != c.asked && c.asked > 0 || n < 2 && c.asked == 0 {
				t.Errorf("asked %d times, want %d", n, c.asked)
			}
			if *rooms > 1 {
				t.Errorf("took memory %d times", *rooms)
			}
			if left, err := os.ReadDir(r.Scratch); err != nil || len(left) > 0 {
				t.Errorf("left behind %v, %v", left, err)
			}
		})
	}
}

// What leads away from https is refused, and so is a certificate that nobody vouches for.
func TestSecureURLs(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("x")) }))
	defer plain.Close()
	secure := httptest.NewUnstartedServer(http.RedirectHandler(plain.URL, http.StatusFound))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	r, _ := reader(t)
	_, err := r.Read(t.Context(), source.Source{URL: secure.URL})
	if err == nil || !strings.Contains(err.Error(), "certificate") || strings.Contains(err.Error(), "tried") {
		t.Errorf("of an unknown authority: %v", err)
	}
	r.Transport = secure.Client().Transport
	if _, err = r.Read(t.Context(), source.Source{URL: secure.URL}); err == nil || !strings.Contains(err.Error(), "redirected from https to http://127.0.0.1:") || strings.Contains(err.Error(), "tried") {
		t.Errorf("redirected to plain HTTP: %v", err)
	}
}

func TestURLEnds(t *testing.T) {
	reached := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(reached)
		<-r.Context().Done()
	}))
	defer server.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the task was cancelled")
	go func() {
		<-reached
		cancel(cause)
	}()
	r, _ := reader(t)
	if _, err := r.Read(ctx, source.Source{URL: server.URL}); !errors.Is(err, cause) {
		t.Errorf("error %v", err)
	}
	// A password does not come into the open.
	server.Close()
	r, _ = reader(t)
	r.Pause = time.Millisecond
	_, err := r.Read(t.Context(), source.Source{URL: strings.Replace(server.URL, "http://", "http://anna:secret@", 1)})
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("error %v", err)
	}
}
