package fetch

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// getCase is a server, and what becomes of a file that it has.
type getCase struct {
	what  string
	serve answer
	file  File // with Most, when none is given
	asked int
	err   string // "" when all comes
}

var getCases = []getCase{
	{what: "a file", serve: func(w http.ResponseWriter, _ *http.Request, _ int) { measured(w) }, asked: 1},
	{what: "of unknown length", serve: func(w http.ResponseWriter, _ *http.Request, _ int) { whole(w) }, asked: 1},
	{what: "known beforehand", serve: func(w http.ResponseWriter, _ *http.Request, _ int) { whole(w) },
		file: File{SHA256: hashOf(content), Size: 256 << 10, Most: 256 << 10}, asked: 1},
	{what: "redirected", serve: func(w http.ResponseWriter, r *http.Request, _ int) {
		if r.URL.Path != "/there" {
			http.Redirect(w, r, "/there", http.StatusFound)
			return
		}
		measured(w)
	}, asked: 2},
	{what: "redirected to another host, which learns nothing of the address", serve: func(w http.ResponseWriter, r *http.Request, _ int) {
		switch {
		case r.Host == "models.test":
			http.Redirect(w, r, "http://elsewhere.test/x", http.StatusFound)
		case r.Referer() != "" || r.Header.Get("Authorization") != "":
			w.WriteHeader(http.StatusTeapot)
		default:
			measured(w)
		}
	}, asked: 2},
	{what: "redirected on the same host, with its password", serve: func(w http.ResponseWriter, r *http.Request, _ int) {
		user, password, _ := r.BasicAuth()
		switch {
		case user != "anna" || password != "geheim":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path != "/there":
			http.Redirect(w, r, "http://models.test/there", http.StatusFound)
		default:
			measured(w)
		}
	}, asked: 2},

	{what: "busy at first", serve: func(w http.ResponseWriter, _ *http.Request, n int) {
		if n < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		measured(w)
	}, asked: 3},
	{what: "cut in the middle", serve: first(func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = w.Write(content[:1000])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}), asked: 2},
	{what: "cut in the middle, of unknown length", serve: first(func(w http.ResponseWriter, _ *http.Request, _ int) {
		_, _ = w.Write(content[:100_000])
		panic(http.ErrAbortHandler)
	}), asked: 2},
	{what: "without an answer at first", serve: first(func(_ http.ResponseWriter, r *http.Request, _ int) { <-r.Context().Done() }), asked: 2},
	{what: "silent after its head", serve: first(func(w http.ResponseWriter, r *http.Request, _ int) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}), asked: 2},
	{what: "silent in the middle", serve: first(func(w http.ResponseWriter, r *http.Request, _ int) {
		_, _ = w.Write(content[:100_000])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}), asked: 2},
	{what: "slow", serve: func(w http.ResponseWriter, _ *http.Request, _ int) {
		for part := range 16 { // a quarter of an hour
			_, _ = w.Write(content[part<<14 : (part+1)<<14])
			w.(http.Flusher).Flush()
			time.Sleep(59 * time.Second)
		}
	}, asked: 1},

	{what: "busy for good", serve: status(http.StatusTooManyRequests), asked: 4, err: "tried 4 times: the server says 429 Too Many Requests"},
	{what: "silent for good", serve: func(_ http.ResponseWriter, r *http.Request, _ int) { <-r.Context().Done() }, asked: 4,
		err: "tried 4 times: the server has sent nothing for 1m0s"},
	{what: "not there", serve: func(w http.ResponseWriter, _ *http.Request, _ int) {
		http.Error(w, "no such field\nlook elsewhere", http.StatusNotFound)
	}, asked: 1, err: "the server says 404 Not Found: no such field"},
	{what: "not there, with the secrets", serve: func(w http.ResponseWriter, r *http.Request, _ int) {
		http.Error(w, "nobody has "+r.RequestURI+" ("+r.URL.RawQuery+")", http.StatusNotFound)
	}, asked: 1, err: "the server says 404 Not Found: nobody has /x?*** (***)"},
	{what: "not for us", serve: func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte("<html>"))
	}, asked: 1, err: "the server says 403 Forbidden"},
	{what: "not for anybody", serve: status(http.StatusNotImplemented), asked: 1, err: "the server says 501 Not Implemented"},
	{what: "silent in its words", serve: first(func(w http.ResponseWriter, r *http.Request, _ int) {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusGone)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}), asked: 1, err: "the server says 410 Gone"},
	{what: "other bytes", serve: func(w http.ResponseWriter, _ *http.Request, _ int) { _, _ = w.Write([]byte("other")) },
		file: File{SHA256: hashOf(content), Most: 1 << 20}, asked: 1,
		err: "the SHA-256 of its 5 bytes is " + hashOf([]byte("other")) + ", and the job says " + hashOf(content)},
	{what: "another size", serve: func(w http.ResponseWriter, _ *http.Request, _ int) { measured(w) },
		file: File{Size: 7, Most: 1 << 20}, asked: 1, err: "it has 262144 bytes, and the job says 7"},
	{what: "another size, of unknown length", serve: func(w http.ResponseWriter, _ *http.Request, _ int) { whole(w) },
		file: File{Size: 7, Most: 1 << 20}, asked: 1, err: "it has more than the 7 bytes that the job says"},
	{what: "another size, without an end", serve: endless,
		file: File{Size: 100_000, Most: 1 << 40}, asked: 1, err: "it has more than the 100000 bytes that the job says"},
	{what: "another size, shorter, of unknown length", serve: func(w http.ResponseWriter, _ *http.Request, _ int) { whole(w) },
		file: File{Size: 1 << 19, Most: 1 << 20}, asked: 1, err: "it has 262144 bytes, and the job says 524288"},
	{what: "a size that is too large, of unknown length", serve: endless,
		file: File{Size: 2000, Most: 1000}, asked: 1, err: "bytes or more: at most 1000 are taken"},
	{what: "too large", serve: func(w http.ResponseWriter, _ *http.Request, _ int) { measured(w) },
		file: File{Most: 1000}, asked: 1, err: "it has 262144 bytes or more: at most 1000 are taken"},
	{what: "too large, of unknown length", serve: func(w http.ResponseWriter, _ *http.Request, _ int) { whole(w) },
		file: File{Most: 1000}, asked: 1, err: "bytes or more: at most 1000 are taken"},
	{what: "redirected in a circle", serve: func(w http.ResponseWriter, r *http.Request, _ int) { http.Redirect(w, r, "/x", http.StatusFound) },
		asked: 10, err: "it was redirected 10 times"},
	{what: "redirected to nowhere", serve: func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Location", "http://otto:geheim@%zz/x?sig=geheim")
		w.WriteHeader(http.StatusFound)
	}, asked: 1, err: "it is redirected to something that is no address"},
	{what: "redirected to no host", serve: func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Location", "http:///x")
		w.WriteHeader(http.StatusFound)
	}, asked: 1, err: "it is redirected to http://, which is no http address"},
	{what: "not modified, with an address", serve: func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Location", "/x")
		w.WriteHeader(http.StatusNotModified)
	}, asked: 1, err: "the server says 304 Not Modified"},
}

// A server is asked as often as that may help, and no more; what came is checked.
func TestGet(t *testing.T) {
	for _, c := range getCases {
		t.Run(c.what, func(t *testing.T) { synctest.Test(t, c.test) })
	}
}

func (c getCase) test(t *testing.T) {
	transport, asked := serve(t, c.serve)
	f := c.file
	if f.Most == 0 {
		f.Most = 1 << 20
	}
	f.URL = "http://anna:geheim@models.test/x?sig=geheim&user=anna"
	var came []byte
	var said strings.Builder
	client := Client{Transport: transport, Log: &said}
	got, err := client.Get(t.Context(), f, keep(&came))
	switch want := (Got{Size: int64(len(content)), SHA256: hashOf(content)}); {
	case c.err != "":
		if err == nil || !strings.Contains(err.Error(), c.err) || !strings.HasPrefix(err.Error(), "GET http://models.test/x: ") {
			t.Errorf("error %v, want %q", err, c.err)
		}
	case err != nil || !bytes.Equal(came, content) || got != want:
		t.Errorf("%d bytes, %+v, %v", len(came), got, err)
	}
	if n := int64(len(came)); n > f.Most || f.Size > 0 && n > f.Size {
		t.Errorf("%d bytes were kept", n)
	}
	if n := asked(); n != c.asked {
		t.Errorf("asked %d times, want %d", n, c.asked)
	}
	if text := fmt.Sprint(err, said.String()); strings.Contains(text, "geheim") {
		t.Errorf("it tells secrets: %s", text)
	}
}
