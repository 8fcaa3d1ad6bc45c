package source_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cascade-run/cascade/executor/source"
)

// What a URL gives comes into memory that is taken once, however often the server is
// asked; what its tries are is told by package fetch.
func TestURLs(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<17) // 2 MiB
	for _, c := range []struct {
		what   string
		serve  func(w http.ResponseWriter, n int) // the nth request, from 1 on
		sha256 string
		size   int64
		room   error
		asked  int
		err    string
	}{
		{what: "a file", serve: func(w http.ResponseWriter, _ int) {
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			_, _ = w.Write(body)
		}, sha256: hashOf(body), asked: 1},
		{what: "of unknown length", serve: func(w http.ResponseWriter, _ int) { _, _ = w.Write(body) }, sha256: hashOf(body), size: 2 << 20, asked: 1},
		{what: "nobody has hashed", serve: func(w http.ResponseWriter, _ int) { _, _ = w.Write(body) }, asked: 1},
		{what: "cut short at first", serve: func(w http.ResponseWriter, n int) {
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			if n == 1 {
				_, _ = w.Write(body[:1000])
				panic(http.ErrAbortHandler)
			}
			_, _ = w.Write(body)
		}, sha256: hashOf(body), asked: 2},
		{what: "not there", serve: func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusNotFound) }, asked: 1, err: "404 Not Found"},
		{what: "other bytes", serve: func(w http.ResponseWriter, _ int) { _, _ = w.Write(body[:5]) }, sha256: hashOf(body), asked: 1, err: "the SHA-256 of its 5 bytes is"},
		{what: "without memory", serve: func(w http.ResponseWriter, _ int) { _, _ = w.Write(body) }, room: errors.New("the store is full"), asked: 1, err: "the store is full"},
	} {
		t.Run(c.what, func(t *testing.T) {
			var asked atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { c.serve(w, int(asked.Add(1))) }))
			defer server.Close()
			r, rooms := reader(t)
			r.HTTP.Pause = time.Millisecond
			if c.room != nil {
				r.Room = func(int) ([]byte, error) { return nil, c.room }
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
			if n := int(asked.Load()); n != c.asked {
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

// What was read into a file first is not copied on when the context has ended.
func TestURLEnds(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(bytes.Repeat([]byte("0123456789abcdef"), 1<<17))
	}))
	defer server.Close()
	r, _ := reader(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the task was cancelled")
	r.Room = func(n int) ([]byte, error) { // all has come by now
		cancel(cause)
		return make([]byte, n), nil
	}
	if b, err := r.Read(ctx, source.Source{URL: server.URL + "/x"}); !errors.Is(err, cause) {
		t.Errorf("%d bytes, error %v", len(b), err)
	}
}
