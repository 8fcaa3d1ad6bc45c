package controller

import (
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/core"
)

func packageOf(b string) comms.Hash {
	sum := sha256.Sum256([]byte(b))
	return comms.Hash(append([]byte{comms.HashSHA256}, sum[:]...))
}

func testBlobs(t *testing.T, room func(uint64) error) *blobs {
	t.Helper()
	b, err := openBlobs(filepath.Join(t.TempDir(), "packages"), room)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func plenty(uint64) error { return nil }

// sent is a piece as a client sends it.
type sent struct {
	link   core.LinkID
	name   string // of which content the hash is
	offset int
	body   string
	total  int
}

func TestBlobsAdd(t *testing.T) {
	const all = "0123456789"
	for _, c := range []struct {
		what   string
		pieces []sent
		here   bool
		why    string // told by Have
		broken string // error: the peer is broken
	}{
		{"in pieces", []sent{{1, all, 0, "01234", 10}, {1, all, 5, "56789", 10}}, true, "", ""},
		{"a piece twice", []sent{{1, all, 0, "01234", 10}, {1, all, 3, "34", 10}, {1, all, 5, "56789", 10}}, true, "", ""},
		{"begun anew", []sent{{1, all, 0, "012", 10}, {1, all, 0, "01234", 10}, {1, all, 5, "56789", 10}}, true, "", ""},
		{"two clients at once", []sent{{1, all, 0, "01234", 10}, {2, all, 0, "0123456", 10}, {1, all, 5, "56789", 10}, {2, all, 7, "789", 10}}, true, "", ""},
		{"not whole yet", []sent{{1, all, 0, "01234", 10}}, false, "", ""},
		{"an empty one", []sent{{1, "", 0, "", 0}}, true, "", ""},
		{"a damaged one", []sent{{1, all, 0, "01234", 10}, {1, all, 5, "5678x", 10}}, false, "", "another hash"},
		{"behind a damaged one", []sent{{1, all, 0, "012345678x", 10}, {1, all, 5, "56789", 10}}, false, "", "another hash"},
		{"behind what was whole", []sent{{1, all, 0, all, 10}, {1, all, 0, "01234", 10}, {1, all, 5, "56789", 10}}, true, "", ""},
		{"not from the beginning", []sent{{1, all, 5, "56789", 10}}, false, "", "a piece at 5 is the first"},
		{"with a gap", []sent{{1, all, 0, "01234", 10}, {1, all, 6, "6789", 10}}, false, "", "does not follow 5 of 10"},
		{"too long", []sent{{1, all, 0, all + "a", 10}}, false, "", "does not follow 0 of 10"},
		{"of another length", []sent{{1, all, 0, "01234", 10}, {1, all, 5, "56789", 11}}, false, "", "does not follow 5 of 10"},
		{"too large", []sent{{1, all, 0, "01234", maxBlob + 1}, {1, all, 5, "56789", maxBlob + 1}}, false, "at most", ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			b := testBlobs(t, plenty)
			var broken error
			for _, p := range c.pieces {
				broken = errors.Join(broken, b.add(p.link, &comms.Blob{Hash: packageOf(p.name), Offset: uint64(p.offset), Total: uint64(p.total)}, []byte(p.body)))
			}
			if c.broken != "" {
				if broken == nil || !strings.Contains(broken.Error(), c.broken) {
					t.Errorf("error %v", broken)
				}
				return
			}
			have := b.have(1, &comms.HaveReq{Req: 3, Hashes: []comms.Hash{packageOf(c.pieces[0].name)}})
			if broken != nil || have.Req != 3 || (len(have.Missing) == 0) != c.here || !strings.Contains(have.Why, c.why) || (have.Why == "") != (c.why == "") {
				t.Errorf("%+v, %v", have, broken)
			}
			b.forget(1)
			b.forget(2)
			left, err := os.ReadDir(b.dir)
			if err != nil || len(left) > 1 || len(left) == 1 != c.here {
				t.Errorf("left %v, %v", left, err)
			}
		})
	}
}

func TestBlobsWithoutRoom(t *testing.T) {
	b := testBlobs(t, func(n uint64) error {
		if n > 5 {
			return errors.New("the disk is nearly full")
		}
		return nil
	})
	for i, text := range []string{"01234", "0123456789"} {
		if err := b.add(1, &comms.Blob{Hash: packageOf(text), Total: uint64(len(text))}, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := b.add(1, &comms.Blob{Hash: packageOf(text), Offset: 4, Total: uint64(len(text))}, []byte(text)[4:]); err != nil {
			t.Error(err) // it was on its way
		}
		have := b.have(1, &comms.HaveReq{Hashes: []comms.Hash{packageOf(text)}})
		if len(have.Missing) != i || (have.Why != "") != (i == 1) {
			t.Errorf("%s: %+v", text, have)
		}
	}
}

func TestBlobsPiece(t *testing.T) {
	b := testBlobs(t, plenty)
	const all = "0123456789"
	if err := b.add(1, &comms.Blob{Hash: packageOf(all), Total: 10}, []byte(all)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		hash        comms.Hash
		offset, max uint64
		want, err   string
	}{
		{packageOf(all), 0, 4, "0123", ""},
		{packageOf(all), 8, 4, "89", ""},
		{packageOf(all), 0, 0, all, ""},
		{packageOf(all), 10, 4, "", ""},
		{packageOf(all), 11, 4, "", "none at 11"},
		{packageOf("other"), 0, 4, "", "submit the job again"},
		{"b", 0, 4, "", "submit the job again"},
	} {
		m, body := b.piece(&comms.BlobReq{Hash: c.hash, Offset: c.offset, Max: c.max})
		if string(body) != c.want || m.Offset != c.offset || !strings.Contains(m.Err, c.err) || (m.Err == "") != (c.err == "") {
			t.Errorf("%d+%d: %q, %+v", c.offset, c.max, body, m)
		}
	}
}

// A package stays as long as somebody needs it or has asked for it lately.
func TestBlobsExpire(t *testing.T) {
	b := testBlobs(t, plenty)
	needed, asked, stale := packageOf("needed"), packageOf("asked"), packageOf("stale")
	now := time.Now()
	for _, text := range []string{"needed", "asked", "stale"} {
		h := packageOf(text)
		if err := b.add(1, &comms.Blob{Hash: h, Total: uint64(len(text))}, []byte(text)); err != nil {
			t.Fatal(err)
		}
		old := now.Add(-time.Hour)
		if err := os.Chtimes(b.path(h), old, old); err != nil {
			t.Fatal(err)
		}
	}
	err := b.expire(now.Add(-time.Minute), func(h comms.Hash) (bool, error) {
		if h == asked && !b.all([]comms.Hash{asked}) { // somebody is quicker than we
			t.Error("it is gone already")
		}
		return h == needed, nil
	})
	if missing := b.missing([]comms.Hash{needed, asked, stale}); err != nil || len(missing) != 1 || missing[0] != stale {
		t.Errorf("missing %v, %v", missing, err)
	}
}

// Many clients upload, ask and go while old packages are removed.
func TestBlobsTogether(t *testing.T) {
	b := testBlobs(t, plenty)
	text := strings.Repeat("x", 1000)
	h := packageOf(text)
	var all sync.WaitGroup
	for link := range core.LinkID(8) {
		all.Go(func() {
			for range 20 {
				for off := 0; off < len(text); off += 100 {
					if err := b.add(link, &comms.Blob{Hash: h, Offset: uint64(off), Total: 1000}, []byte(text[off:off+100])); err != nil {
						t.Error(err)
					}
				}
				if m, body := b.piece(&comms.BlobReq{Hash: h}); m.Err == "" && string(body) != text {
					t.Error("a package that is here is not whole")
				}
				if err := b.expire(time.Now().Add(time.Hour), func(comms.Hash) (bool, error) { return false, nil }); err != nil {
					t.Error(err)
				}
			}
			b.forget(link)
		})
	}
	all.Wait()
	if left, err := os.ReadDir(b.dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
