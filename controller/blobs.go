package controller

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/zeebo/blake3"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/internal/outfile"
	"github.com/cascade-run/cascade/internal/safedir"
)

// maxBlob is the most bytes of one blob.
const maxBlob = 4 << 30

// blobs keeps what peers send by its hash, graphs and packages: files in one folder,
// named by the hash of their bytes. A file is there only when it is whole and right.
//
// The time of a file is when it came or was asked for last: so long it has a temporary
// reference, which covers the way from an upload to the submit that names it.
type blobs struct {
	dir    string
	room   func(bytes uint64) error // whether the disk has room for so much more
	mu     sync.Mutex               // guards the map, and what removes files against what renews them
	parts  map[partKey]*part
	failed map[partKey]string // why a blob was not kept, until that is told
}

type partKey struct {
	link core.LinkID
	hash comms.Hash
}

// part is a blob that is on its way.
type part struct {
	file  *os.File // nil: it is here already, or has failed, and what follows of it is ignored
	sum   hash.Hash
	have  uint64
	total uint64
}

func openBlobs(dir string, room func(uint64) error) (*blobs, error) {
	if err := safedir.Own(dir); err != nil {
		return nil, fmt.Errorf("folder of packages: %w", err)
	}
	old, err := filepath.Glob(filepath.Join(dir, "part-*"))
	if err != nil {
		return nil, fmt.Errorf("folder of packages: %w", err)
	}
	for _, f := range old { // from an earlier controller
		if err := os.Remove(f); err != nil {
			return nil, fmt.Errorf("folder of packages: %w", err)
		}
	}
	return &blobs{dir: dir, room: room, parts: map[partKey]*part{}, failed: map[partKey]string{}}, nil
}

func (b *blobs) path(h comms.Hash) string { return filepath.Join(b.dir, fileName(h)) }

// fileName is the hash in hexadecimal; that of BLAKE3, which all were once, without its tag.
func fileName(h comms.Hash) string {
	if h[0] == comms.HashBLAKE3 {
		h = h[1:]
	}
	return hex.EncodeToString([]byte(h))
}

// hashOfFile is the inverse of fileName; ok is false for other files.
func hashOfFile(name string) (h comms.Hash, ok bool) {
	b, err := hex.DecodeString(name)
	if h = comms.Hash(b); err == nil && len(h) == 32 {
		h = comms.Hash([]byte{comms.HashBLAKE3}) + h
	}
	return h, err == nil && valid(h)
}

func valid(h comms.Hash) bool {
	return len(h) == 33 && (h[0] == comms.HashBLAKE3 || h[0] == comms.HashSHA256)
}

func hasherOf(h comms.Hash) hash.Hash {
	if h[0] == comms.HashSHA256 {
		return sha256.New()
	}
	return blake3.New()
}

// missing returns those of the blobs that are not here. The others have a temporary
// reference from now on.
func (b *blobs) missing(hashes []comms.Hash) (out []comms.Hash) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for _, h := range hashes {
		if !valid(h) || os.Chtimes(b.path(h), now, now) != nil {
			out = append(out, h)
		}
	}
	return out
}

// all tells whether none is missing.
func (b *blobs) all(hashes []comms.Hash) bool { return len(b.missing(hashes)) == 0 }

// have answers a HaveReq.
func (b *blobs) have(link core.LinkID, m *comms.HaveReq) *comms.Have {
	a := &comms.Have{Req: m.Req, Missing: b.missing(m.Hashes)}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range a.Missing {
		a.Why = cmp.Or(a.Why, b.failed[partKey{link, h}])
		delete(b.failed, partKey{link, h})
	}
	return a
}

// read returns a blob, or fs.ErrNotExist.
func (b *blobs) read(h comms.Hash) ([]byte, error) {
	if !valid(h) {
		return nil, fmt.Errorf("%s is not the hash of a blob: %w", h, os.ErrNotExist)
	}
	return os.ReadFile(b.path(h))
}

// maxPiece is the most bytes of a blob in one message.
const maxPiece = 1 << 20

// piece answers a BlobReq.
func (b *blobs) piece(m *comms.BlobReq) (*comms.Blob, []byte) {
	a := &comms.Blob{Hash: m.Hash, Offset: m.Offset}
	body, total, err := b.readPiece(m)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		a.Err = fmt.Sprintf("the controller has no package %s: submit the job again", m.Hash)
	case err != nil:
		a.Err = err.Error()
	}
	a.Total = total
	return a, body
}

func (b *blobs) readPiece(m *comms.BlobReq) (_ []byte, total uint64, err error) {
	if !valid(m.Hash) {
		return nil, 0, fs.ErrNotExist
	}
	file, err := os.Open(b.path(m.Hash))
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, 0, err
	}
	total = uint64(info.Size())
	if m.Offset > total {
		return nil, 0, fmt.Errorf("package %s has %d bytes, none at %d", m.Hash, total, m.Offset)
	}
	body := make([]byte, min(total-m.Offset, maxPiece, cmp.Or(m.Max, maxPiece)))
	if _, err := file.ReadAt(body, int64(m.Offset)); err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, err
	}
	return body, total, nil
}

// inlineGraph is the size up to which clients send a graph in the submit itself.
const inlineGraph = 1 << 20

// remove deletes a blob that is not needed any more. A client that needs it again
// learns that it is missing, and sends it.
func (b *blobs) remove(h comms.Hash) {
	if valid(h) {
		_ = os.Remove(b.path(h)) // one that stays goes with expire
	}
}

// expire deletes blobs that were last asked for before a time, but not those that
// are needed.
func (b *blobs) expire(before time.Time, needed func(comms.Hash) (bool, error)) error {
	files, err := os.ReadDir(b.dir)
	if err != nil {
		return fmt.Errorf("folder of packages: %w", err)
	}
	for _, f := range files {
		h, ok := hashOfFile(f.Name())
		if !ok || !b.older(h, before) {
			continue // on its way, gone, or waits for its submit
		}
		if keep, err := needed(h); err != nil {
			return fmt.Errorf("find whether package %s is needed: %w", h, err)
		} else if keep {
			continue
		}
		b.mu.Lock()
		if b.older(h, before) { // no submit has asked for it meanwhile
			err = os.Remove(b.path(h))
		}
		b.mu.Unlock()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("folder of packages: %w", err)
		}
	}
	return nil
}

func (b *blobs) older(h comms.Hash, than time.Time) bool {
	info, err := os.Stat(b.path(h))
	return err == nil && info.ModTime().Before(than)
}

// add takes the next piece of a blob from a link. An error means that the peer is
// broken. An error of this blob only, such as a full disk, is told with the next Have.
func (b *blobs) add(link core.LinkID, m *comms.Blob, body []byte) error {
	if !valid(m.Hash) {
		return fmt.Errorf("blob %s of %d bytes: want a BLAKE3 or SHA-256 hash", m.Hash, m.Total)
	}
	k := partKey{link, m.Hash}
	p, err := b.part(k, m)
	switch {
	case err != nil:
		b.drop(k, err)
		return nil
	case p == nil:
		return fmt.Errorf("blob %s: a piece at %d is the first", m.Hash, m.Offset)
	case p.file == nil:
		return nil
	}
	if m.Offset < p.have {
		return nil // a second copy
	}
	if m.Offset != p.have || m.Total != p.total || uint64(len(body)) > p.total-p.have {
		return fmt.Errorf("blob %s: a piece of %d bytes at %d does not follow %d of %d", m.Hash, len(body), m.Offset, p.have, p.total)
	}
	if _, err = p.file.Write(body); err == nil {
		_, _ = p.sum.Write(body) // a hash does not fail
		if p.have += uint64(len(body)); p.have == p.total {
			err = b.finish(k, p)
		}
	}
	b.drop(k, err)
	if errors.Is(err, errHash) {
		return fmt.Errorf("blob %s: %w", m.Hash, err) // who sends looks at it before the last piece
	}
	return nil
}

// errHash says that a blob is not what its name says.
var errHash = errors.New("its bytes have another hash")

// part returns what is there of a blob; nil when it has not begun. A piece at 0
// begins it, also anew.
func (b *blobs) part(k partKey, m *comms.Blob) (*part, error) {
	b.mu.Lock()
	p := b.parts[k]
	b.mu.Unlock()
	if m.Offset > 0 {
		return p, nil
	}
	if p != nil {
		b.discard(k, p)
	}
	p = &part{}
	if m.Total > maxBlob {
		return nil, fmt.Errorf("it has %d bytes, and a controller keeps at most %d", m.Total, uint64(maxBlob))
	}
	if !b.all([]comms.Hash{m.Hash}) {
		if err := b.room(m.Total); err != nil {
			return nil, err
		}
		f, err := os.CreateTemp(b.dir, "part-*")
		if err != nil {
			return nil, err
		}
		p = &part{file: f, sum: hasherOf(m.Hash), total: m.Total}
	}
	b.mu.Lock()
	b.parts[k] = p
	b.mu.Unlock()
	return p, nil
}

func (b *blobs) finish(k partKey, p *part) error {
	err := p.file.Sync()
	if sum := p.sum.Sum(nil); err == nil && string(k.hash[1:]) != string(sum) {
		err = errHash
	}
	if err == nil {
		err = outfile.Rename(p.file.Name(), b.path(k.hash))
	}
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.parts[k] = &part{} // who sends a piece again may
	b.mu.Unlock()
	return p.file.Close()
}

// drop throws away a part that failed and remembers why; without an error it does nothing.
func (b *blobs) drop(k partKey, why error) {
	if why == nil {
		return
	}
	b.mu.Lock()
	p := b.parts[k]
	b.failed[k] = fmt.Sprintf("blob %s: %v", k.hash, why)
	b.mu.Unlock()
	if p != nil {
		b.discard(k, p)
	}
	b.mu.Lock()
	b.parts[k] = &part{}
	b.mu.Unlock()
}

func (b *blobs) discard(k partKey, p *part) {
	b.mu.Lock()
	delete(b.parts, k)
	b.mu.Unlock()
	p.remove()
}

// remove throws away what is there of a part.
func (p *part) remove() {
	if p.file != nil {
		_ = p.file.Close()           // the file is thrown away
		_ = os.Remove(p.file.Name()) // what stays is removed at the next start
	}
}

// forget drops what a link had begun.
func (b *blobs) forget(link core.LinkID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.failed, func(k partKey, _ string) bool { return k.link == link })
	for k, p := range b.parts {
		if k.link == link {
			delete(b.parts, k)
			p.remove()
		}
	}
}
