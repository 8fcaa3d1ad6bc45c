package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cascade-run/cascade/internal/backoff"
)

// pipes is a listener whose connections are in memory: with it a server and its clients
// live in one bubble of virtual time.
type pipes struct {
	calls chan net.Conn
	ended chan struct{}
	end   func()
}

func newPipes() *pipes {
	ended := make(chan struct{})
	return &pipes{calls: make(chan net.Conn), ended: ended, end: sync.OnceFunc(func() { close(ended) })}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.calls:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.end(); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.calls <- there:
		return here, nil
	case <-p.ended:
		return nil, errors.New("connection refused")
	}
}

// answer serves the nth request, from 1 on.
type answer func(w http.ResponseWriter, r *http.Request, n int)

// serve starts a server in this bubble and returns the transport to it, and how often it was asked.
func serve(t *testing.T, a answer) (*http.Transport, func() int) {
	p := newPipes()
	var mu sync.Mutex
	asked := 0
	count := func(more int) int {
		mu.Lock()
		defer mu.Unlock()
		asked += more
		return asked
	}
	var answering sync.WaitGroup
	handler := func(w http.ResponseWriter, r *http.Request) {
		answering.Add(1)
		defer answering.Done()
		a(w, r, count(1))
	}
	server := &http.Server{ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(handler)}
	go func() { _ = server.Serve(p) }() // ends when it is closed
	transport := &http.Transport{DialContext: p.dial, DisableCompression: true}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = server.Close()
		answering.Wait()
	})
	return transport, func() int { return count(0) }
}

// keep is a Take into memory.
func keep(into *[]byte) Take {
	return func(body io.Reader, _ int64) (err error) {
		*into, err = io.ReadAll(body)
		return err
	}
}

func hashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

var (
	content  = bytes.Repeat([]byte("0123456789abcdef"), 1<<14) // 256 KiB
	whole    = func(w http.ResponseWriter) { _, _ = w.Write(content) }
	measured = func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		whole(w)
	}
	status = func(code int) answer {
		return func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(code) }
	}
	endless = func(w http.ResponseWriter, r *http.Request, _ int) {
		for r.Context().Err() == nil {
			whole(w)
		}
	}
	// first answers the first request; those after it get all.
	first = func(a answer) answer {
		return func(w http.ResponseWriter, r *http.Request, n int) {
			if n == 1 {
				a(w, r, n)
				return
			}
			measured(w)
		}
	}
)

// What is tried again is told, with the wait.
func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport, _ := serve(t, status(http.StatusBadGateway))
		var said strings.Builder
		client := Client{Transport: transport, Log: &said, random: rand.New(rand.NewPCG(1, 0))}
		if _, err := client.Get(t.Context(), File{URL: "http://models.test/x?sig=geheim"}, nil); err == nil {
			t.Error("got something")
		}
		var want strings.Builder
		pauses := backoff.Backoff{First: 2 * time.Second, Longest: 8 * time.Second, Steady: true, Rand: rand.New(rand.NewPCG(1, 0))}
		for range 3 {
			fmt.Fprintf(&want, "GET http://models.test/x: the server says 502 Bad Gateway; again in %v\n", pauses.Next().Round(time.Millisecond))
		}
		if said.String() != want.String() {
			t.Errorf("said\n%swant\n%s", said.String(), want.String())
		}
	})
}

// Who waits for memory while the server waits for him does not blame the server.
func TestTakerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport, asked := serve(t, func(w http.ResponseWriter, _ *http.Request, _ int) { measured(w) })
		var came []byte
		client := Client{Transport: transport}
		_, err := client.Get(t.Context(), File{URL: "http://models.test/x", Most: 1 << 20}, func(body io.Reader, size int64) error {
			time.Sleep(time.Hour)
			came = make([]byte, size)
			if _, err := io.ReadFull(body, came[:1000]); err != nil {
				return err
			}
			time.Sleep(time.Hour)
			_, err := io.ReadFull(body, came[1000:])
			return err
		})
		if err != nil || !bytes.Equal(came, content) || asked() != 1 {
			t.Errorf("asked %d times: %v", asked(), err)
		}
	})
}

// What goes wrong on this side is not the server's, and not tried again.
func TestTakerFails(t *testing.T) {
	full := errors.New("the store is full")
	for _, c := range []struct {
		what string
		take Take
		err  string
	}{
		{"at once", func(io.Reader, int64) error { return full }, "the store is full"},
		{"after some bytes", func(body io.Reader, _ int64) error { return errors.Join(readSome(body), full) }, "the store is full"},
		{"to read on", func(body io.Reader, _ int64) error { return readSome(body) }, "it goes on behind the 1000 bytes that were read"},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				transport, asked := serve(t, func(w http.ResponseWriter, _ *http.Request, _ int) { measured(w) })
				client := Client{Transport: transport}
				_, err := client.Get(t.Context(), File{URL: "http://models.test/x", Most: 1 << 20}, c.take)
				if err == nil || !strings.Contains(err.Error(), c.err) || asked() != 1 {
					t.Errorf("asked %d times: %v", asked(), err)
				}
			})
		})
	}
}

func readSome(body io.Reader) error {
	_, err := io.ReadFull(body, make([]byte, 1000))
	return err
}

// All tries together have an end, also those of a server that sends a little for ever.
func TestLimit(t *testing.T) {
	for _, c := range []struct {
		what  string
		serve answer
		asked int
		err   string
	}{
		{"between tries", status(http.StatusServiceUnavailable), 1, "it took longer than 2s: the server says 503"},
		{"in a try", func(w http.ResponseWriter, r *http.Request, _ int) {
			for r.Context().Err() == nil {
				_, _ = w.Write([]byte("x"))
				w.(http.Flusher).Flush()
				time.Sleep(300 * time.Millisecond)
			}
		}, 1, "it took longer than 2s"},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				transport, asked := serve(t, c.serve)
				client := Client{Transport: transport, Pause: time.Hour, Limit: 2 * time.Second, random: rand.New(rand.NewPCG(1, 0))}
				var came []byte
				_, err := client.Get(t.Context(), File{URL: "http://models.test/x", Most: 1 << 20}, keep(&came))
				if err == nil || !strings.Contains(err.Error(), c.err) || asked() != c.asked {
					t.Errorf("asked %d times: %v", asked(), err)
				}
			})
		})
	}
}

// Who no longer wants the file is told his own reason, in a try and between two.
func TestCancel(t *testing.T) {
	for _, c := range []struct {
		what  string
		serve answer
	}{
		{"in a try", func(_ http.ResponseWriter, r *http.Request, _ int) { <-r.Context().Done() }},
		{"between tries", status(http.StatusServiceUnavailable)},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				transport, asked := serve(t, c.serve)
				ctx, cancel := context.WithCancelCause(t.Context())
				cause := errors.New("the task was cancelled")
				time.AfterFunc(time.Second/2, func() { cancel(cause) })
				client := Client{Transport: transport, Pause: time.Hour, random: rand.New(rand.NewPCG(1, 0))}
				if _, err := client.Get(ctx, File{URL: "http://models.test/x"}, nil); !errors.Is(err, cause) || asked() != 1 {
					t.Errorf("asked %d times: %v", asked(), err)
				}
			})
		})
	}
}

// What leads away from https is refused, and so is a certificate that nobody vouches for,
// and a server without TLS.
func TestSecure(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("x")) }))
	defer plain.Close()
	secure := httptest.NewUnstartedServer(http.RedirectHandler(plain.URL, http.StatusFound))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	for _, c := range []struct {
		what, url string
		transport http.RoundTripper
		err       string
	}{
		{"no TLS", plain.URL, nil, ""},
		{"an unknown authority", secure.URL, nil, "certificate"},
		{"redirected to plain http", secure.URL, secure.Client().Transport, "redirected from https to http://127.0.0.1:"},
		{"TLS that the server does not speak", strings.Replace(plain.URL, "http:", "https:", 1), nil, "HTTP response to HTTPS client"},
	} {
		var came []byte
		client := Client{Transport: c.transport, Log: t.Output()}
		_, err := client.Get(t.Context(), File{URL: c.url, Most: 1}, keep(&came))
		if ok := c.err == ""; ok != (err == nil) || !ok && (!strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "tried")) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"https://a.test/x.zip":                      "https://a.test/x.zip",
		"https://anna:geheim@a.test/x.zip?sig=1#at": "https://a.test/x.zip",
		"https://anna:geheim@%zz":                   "the address",
	} {
		if got := Plain(in); got != want {
			t.Errorf("%s: %s", in, got)
		}
	}
}
