package runtimeenv

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/fetch"
)

// site serves an archive at /code.zip, and what no archive is elsewhere.
func site(t *testing.T) (address, hash string, served *atomic.Int32) {
	t.Helper()
	archive, err := os.ReadFile(makeZip(t, filepath.Join(t.TempDir(), "code.zip"), func(w *zip.Writer) {
		f, err := w.Create("data.txt")
		if err == nil {
			_, err = f.Write([]byte("from afar"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	served = new(atomic.Int32)
	mux := http.NewServeMux()
	mux.HandleFunc("/code.zip", func(w http.ResponseWriter, _ *http.Request) {
		served.Add(1)
		_, _ = w.Write(archive) // who cuts it off is told by its length
	})
	mux.HandleFunc("/page.zip", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>log in</html>")) })
	mux.HandleFunc("/large.zip", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "5000000000") })
	var busy atomic.Bool
	mux.HandleFunc("/busy.zip", func(w http.ResponseWriter, _ *http.Request) {
		if busy.CompareAndSwap(false, true) {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		served.Add(1)
		_, _ = w.Write(archive)
	})
	mux.Handle("/moved.zip", http.RedirectHandler("/code.zip", http.StatusFound))
	mux.Handle("/round.zip", http.RedirectHandler("/round.zip", http.StatusFound))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	sum := sha256.Sum256(archive)
	return server.URL, hex.EncodeToString(sum[:]), served
}

// What is at an address becomes a package; with its hash it is fetched only to be sent.
func TestPackAddress(t *testing.T) {
	address, hash, served := site(t)
	for _, c := range []struct {
		text           string
		packing, total int32 // how often it was served then, and in all
	}{
		{address + "/code.zip", 1, 1},
		{address + "/moved.zip", 1, 1},
		{address + "/busy.zip", 1, 1},
		{address + "/code.zip#sha256=" + hash, 0, 1},
	} {
		served.Store(0)
		var said strings.Builder
		p := Packer{Log: &said, client: fetch.Client{Pause: time.Millisecond}}
		out, err := p.Pack(t.Context(), dag.Environment{Name: "e", Source: t.TempDir(), WorkingDir: c.text})
		if err != nil {
			t.Fatal(err)
		}
		pkg, ok := dag.ParsePackage(out.WorkingDir)
		if !ok || pkg.Hash != hash || served.Load() != c.packing {
			t.Errorf("%s: it is %s, served %d times", c.text, out.WorkingDir, served.Load())
		}
		if again := strings.Contains(c.text, "busy"); again != strings.Contains(said.String(), "/busy.zip: the server says 503 Service Unavailable; again in ") {
			t.Errorf("%s: said %q", c.text, said.String())
		}
		s := &shelf{}
		s.put(t, p.Packs()[0], 10)
		if served.Load() != c.total {
			t.Errorf("%s: served %d times", c.text, served.Load())
		}
		p.Close()
		if left, err := os.ReadDir(p.dir); err == nil {
			t.Errorf("%s: %d files stay behind", c.text, len(left))
		}
		cache := New(t.TempDir())
		cache.From(s)
		act, err := cache.Prepare(t.Context(), out, nil)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(filepath.Join(act.Dir, "data.txt")); err != nil || string(text) != "from afar" {
			t.Errorf("%s: %q, %v", c.text, text, err)
		}
		if err := cache.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestPackAddressFails(t *testing.T) {
	address, _, _ := site(t)
	for _, c := range []struct{ path, want string }{
		{"/none.zip?token=geheim", "the server says 404 Not Found"},
		{"/page.zip", "no zip archive"},
		{"/large.zip", "at most 1073741824 are taken (1024 MiB): data belongs beside the code"},
		{"/round.zip", "it was redirected 10 times"},
		{"/code.zip#sha256=" + strings.Repeat("00", 32), "the SHA-256 of its "},
	} {
		var p Packer
		_, err := p.Pack(t.Context(), dag.Environment{Name: "e", Source: t.TempDir(), WorkingDir: address + c.path})
		if err == nil {
			err = p.Packs()[0].Send(t.Context(), 10, func(int64, int64, []byte) error { return nil })
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: %v", c.path, err)
		}
		p.Close()
	}
	_, err := New(t.TempDir()).Prepare(t.Context(), dag.Environment{Name: "e", WorkingDir: address + "/code.zip"}, nil)
	if err == nil || !strings.Contains(err.Error(), "the client that submits") {
		t.Errorf("an agent with an address: %v", err)
	}
}
