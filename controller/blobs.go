package controller

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/zeebo/blake3"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/core"
)

// maxBlob is the most bytes of one blob.
const maxBlob = 4 << 30

// blobs keeps what peers send by its hash: files in one folder, named by the
// BLAKE3 of their bytes. A file is there only when it is whole and right.
type blobs struct {
	dir   string
	mu    sync.Mutex
	parts map[partKey]*part
}

type partKey struct {
	link core.LinkID
	hash comms.Hash
}

// part is a blob that is on its way.
type part struct {
	file  *os.File
	sum   *blake3.Hasher
	have  uint64
	total uint64
}

func openBlobs(dir string) (*blobs, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
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
	return &blobs{dir: dir, parts: map[partKey]*part{}}, nil
}

func (b *blobs) path(h comms.Hash) string { return filepath.Join(b.dir, hex.EncodeToString([]byte(h))) }

func valid(h comms.Hash) bool { return len(h) == 33 && h[0] == comms.HashBLAKE3 }

// missing returns those of the blobs that are not here.
func (b *blobs) missing(hashes []comms.Hash) (out []comms.Hash) {
	for _, h := range hashes {
		if !valid(h) {
			out = append(out, h)
		} else if _, err := os.Stat(b.path(h)); err != nil {
			out = append(out, h)
		}
	}
	return out
}

// read returns a blob, or fs.ErrNotExist.
func (b *blobs) read(h comms.Hash) ([]byte, error) {
	if !valid(h) {
		return nil, fmt.Errorf("%s is not the hash of a blob: %w", h, os.ErrNotExist)
	}
	return os.ReadFile(b.path(h))
}

// inlineGraph is the size up to which clients send a graph in the submit itself.
const inlineGraph = 1 << 20

// remove deletes a blob that is not needed any more. Who needs it again is told
// that it is missing, and sends it.
func (b *blobs) remove(h comms.Hash) {
	if valid(h) {
		_ = os.Remove(b.path(h)) // one that stays goes with expire
	}
}

// expire deletes blobs that came before a time: their submit never did.
func (b *blobs) expire(before time.Time) error {
	files, err := os.ReadDir(b.dir)
	if err != nil {
		return fmt.Errorf("folder of packages: %w", err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil || strings.HasPrefix(f.Name(), "part-") || !info.ModTime().Before(before) {
			continue // gone, or on its way
		}
		if err := os.Remove(filepath.Join(b.dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("folder of packages: %w", err)
		}
	}
	return nil
}

// add takes the next piece of a blob from a link. An error means that the peer
// or the disk is broken.
func (b *blobs) add(link core.LinkID, m *comms.Blob, body []byte) error {
	if !valid(m.Hash) || m.Total > maxBlob {
		return fmt.Errorf("blob %s of %d bytes: want a BLAKE3 hash and at most %d bytes", m.Hash, m.Total, uint64(maxBlob))
	}
	if len(b.missing([]comms.Hash{m.Hash})) == 0 {
		return nil
	}
	p, err := b.part(partKey{link, m.Hash}, m.Total)
	if err != nil {
		return fmt.Errorf("blob %s: %w", m.Hash, err)
	}
	if m.Offset < p.have {
		return nil // a second copy
	}
	if m.Offset != p.have || m.Total != p.total || uint64(len(body)) > p.total-p.have {
		return fmt.Errorf("blob %s: a piece of %d bytes at %d does not follow %d of %d", m.Hash, len(body), m.Offset, p.have, p.total)
	}
	if _, err := p.file.Write(body); err != nil {
		return fmt.Errorf("blob %s: %w", m.Hash, err)
	}
	_, _ = p.sum.Write(body) // a hash does not fail
	if p.have += uint64(len(body)); p.have < p.total {
		return nil
	}
	return b.finish(partKey{link, m.Hash}, p)
}

func (b *blobs) part(k partKey, total uint64) (*part, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.parts[k]; p != nil {
		return p, nil
	}
	f, err := os.CreateTemp(b.dir, "part-*")
	if err != nil {
		return nil, err
	}
	p := &part{file: f, sum: blake3.New(), total: total}
	b.parts[k] = p
	return p, nil
}

func (b *blobs) finish(k partKey, p *part) error {
	b.mu.Lock()
	delete(b.parts, k)
	b.mu.Unlock()
	err := errors.Join(p.file.Sync(), p.file.Close())
	if sum := p.sum.Sum(nil); err == nil && string(k.hash[1:]) != string(sum) {
		err = errors.New("its bytes have another hash")
	}
	if err == nil {
		err = os.Rename(p.file.Name(), b.path(k.hash))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("blob %s: %w", k.hash, err), os.Remove(p.file.Name()))
	}
	return nil
}

// forget drops what a link had begun.
func (b *blobs) forget(link core.LinkID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k, p := range b.parts {
		if k.link == link {
			delete(b.parts, k)
			_ = p.file.Close()           // the file is thrown away
			_ = os.Remove(p.file.Name()) // what stays is removed at the next start
		}
	}
}
