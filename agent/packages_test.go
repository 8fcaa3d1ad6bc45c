//go:build linux

package agent

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// keeper is a controller that has one package. It answers from another goroutine, as a link does.
type keeper struct {
	ps    *packages
	bytes []byte
	asked chan *comms.BlobReq
	piece int // most bytes of an answer
	err   string
}

func newKeeper(b []byte) *keeper {
	k := &keeper{bytes: b, asked: make(chan *comms.BlobReq, 100), piece: packagePiece}
	k.ps = newPackages(func(m *comms.BlobReq) { k.asked <- m })
	return k
}

// answer answers the next request.
func (k *keeper) answer() *comms.BlobReq {
	m := <-k.asked
	from := min(int(m.Offset), len(k.bytes))
	body := k.bytes[from:min(from+k.piece, len(k.bytes))]
	k.ps.piece(&comms.Blob{Hash: m.Hash, Offset: m.Offset, Total: uint64(len(k.bytes)), Err: k.err}, bytes.Clone(body))
	return m
}

var somePackage = dag.Package{Hash: strings.Repeat("0a", 32), Name: "x"}

func TestFetchPackage(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789abcdef"), 5*packagePiece/16)
	large = append(large, "end"...)
	for _, c := range []struct {
		what   string
		bytes  []byte
		offset int
		piece  int
		serve  func(k *keeper, done <-chan struct{})
		err    string
	}{
		{"empty", nil, 0, packagePiece, nil, ""},
		{"small", []byte("abc"), 0, packagePiece, nil, ""},
		{"large", large, 0, packagePiece, nil, ""},
		{"from the middle", large, 1000, packagePiece, nil, ""},
		{"all there", large, len(large), packagePiece, nil, ""},
		{"short pieces", large, 0, 100_000, nil, "a piece of 100000 bytes at 0"},
		{"the controller comes back", large, 0, packagePiece, func(k *keeper, done <-chan struct{}) {
			for range 3 {
				k.answer()
			}
			for len(k.asked) > 0 { // these are lost
				<-k.asked
			}
			k.ps.again()
			k.ps.again()
			k.serve(done)
		}, ""},
		{"it has no such package", []byte("abc"), 0, packagePiece, func(k *keeper, done <-chan struct{}) {
			k.err = "submit the job again"
			k.serve(done)
		}, "submit the job again"},
		{"a piece of another length", large, 0, packagePiece, func(k *keeper, done <-chan struct{}) {
			k.answer()
			k.bytes = k.bytes[:2*packagePiece]
			k.serve(done)
		}, "the controller sends a piece"},
	} {
		t.Run(c.what, func(t *testing.T) {
			k := newKeeper(c.bytes)
			k.piece = c.piece
			done, served := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(served)
				if c.serve != nil {
					c.serve(k, done)
				} else {
					k.serve(done)
				}
			}()
			var got bytes.Buffer
			err := k.ps.Fetch(t.Context(), somePackage, int64(c.offset), &got)
			close(done)
			<-served
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v", err)
				}
			} else if err != nil || !bytes.Equal(got.Bytes(), c.bytes[c.offset:]) {
				t.Errorf("%d bytes of %d, %v", got.Len(), len(c.bytes)-c.offset, err)
			}
			if len(k.ps.open) > 0 {
				t.Error("the fetch is still open")
			}
		})
	}
}

func (k *keeper) serve(done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case m := <-k.asked:
			k.asked <- m // pieces come in another order
			k.answer()
		}
	}
}

func TestFetchPackageEnds(t *testing.T) {
	k := newKeeper([]byte("abc"))
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the agent ends")
	cancel(cause)
	if err := k.ps.Fetch(ctx, somePackage, 0, &bytes.Buffer{}); !errors.Is(err, cause) {
		t.Errorf("error %v", err)
	}
	if !k.ps.piece(&comms.Blob{Hash: comms.PackageHash(somePackage.Hash), Total: 3}, []byte("abc")) {
		t.Error("a late piece is taken for a graph")
	}
	if k.ps.piece(&comms.Blob{Hash: comms.Hash("b") + "x", Total: 3}, []byte("abc")) {
		t.Error("a graph is taken for a package")
	}
	if err := k.ps.Fetch(t.Context(), dag.Package{Hash: "x"}, 0, &bytes.Buffer{}); err == nil {
		t.Error("a package without a hash is fetched")
	}
}
