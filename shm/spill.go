package shm

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/cascade-run/cascade/internal/diskspace"
	"github.com/cascade-run/cascade/shm/ledger"
)

// A spill file, little-endian:
//
//	 0  8  "cspill01"
//	 8  1  checksum algorithm: 1 = xxh3-128 (big-endian digest, as xxh3 defines it)
//	 9  3  zero
//	12  4  length of the descriptor
//	16 32  key
//	48  8  length of the data
//	56 32  checksum of the data, zero-padded
//	88  8  xxh3-64 of bytes 0..88 and the descriptor
//	96     descriptor, then data
//
// It is written under a temporary name and renamed, so that a name means a complete file. There is no
// fsync: shared memory does not survive a power loss either, and the checksum tells what disk lost.
const (
	spillMagic   = "cspill01"
	spillHead    = 96
	spillSuffix  = ".spill"
	spillTemp    = ".tmp"
	algXXH3      = 1
	maxMeta      = 1 << 20
	copyBufBytes = 1 << 20
)

type spillHeader struct {
	key  ledger.Key
	meta []byte
	n    int64
	sum  [16]byte
}

func (h spillHeader) encode() []byte {
	b := make([]byte, spillHead, spillHead+len(h.meta))
	copy(b, spillMagic)
	b[8] = algXXH3
	binary.LittleEndian.PutUint32(b[12:], uint32(len(h.meta)))
	copy(b[16:], h.key[:])
	binary.LittleEndian.PutUint64(b[48:], uint64(h.n))
	copy(b[56:], h.sum[:])
	binary.LittleEndian.PutUint64(b[88:], headSum(b[:88], h.meta))
	return append(b, h.meta...)
}

func headSum(head, meta []byte) uint64 {
	h := xxh3.New()
	h.Write(head)
	h.Write(meta)
	return h.Sum64()
}

// decodeSpillHeader reads the header of a file of size bytes. Every length is checked before it is used.
func decodeSpillHeader(r io.ReaderAt, size int64) (h spillHeader, err error) {
	var b [spillHead]byte
	if size < spillHead {
		return h, fmt.Errorf("%d bytes are too short: %w", size, ErrCorrupt)
	}
	if _, err := r.ReadAt(b[:], 0); err != nil {
		return h, err
	}
	metaLen := int64(binary.LittleEndian.Uint32(b[12:]))
	n := binary.LittleEndian.Uint64(b[48:])
	switch {
	case string(b[:8]) != spillMagic:
		return h, fmt.Errorf("it does not begin with %q: %w", spillMagic, ErrCorrupt)
	case b[8] != algXXH3:
		return h, fmt.Errorf("unknown checksum algorithm %d: %w", b[8], ErrCorrupt)
	case metaLen > maxMeta || metaLen > size-spillHead || n != uint64(size-spillHead-metaLen):
		return h, fmt.Errorf("lengths %d+%d+%d do not make %d bytes: %w", spillHead, metaLen, n, size, ErrCorrupt)
	}
	h.key, h.n, h.meta = ledger.Key(b[16:48]), int64(n), make([]byte, metaLen)
	copy(h.sum[:], b[56:72])
	if _, err := r.ReadAt(h.meta, spillHead); err != nil && metaLen > 0 {
		return h, err
	}
	if headSum(b[:88], h.meta) != binary.LittleEndian.Uint64(b[88:]) {
		return h, fmt.Errorf("checksum of the header differs: %w", ErrCorrupt)
	}
	return h, nil
}

// SpillPath is the file that Spill writes for a key.
func (s *Store) SpillPath(k ledger.Key) string {
	return filepath.Join(s.spill, hex.EncodeToString(k[:])+spillSuffix)
}

// Spill writes a dataset with its descriptor to disk, where there is room for what can be done without.
// After an error nothing is left behind.
func (s *Store) Spill(k ledger.Key, meta []byte, from ledger.Place) error {
	return s.toDisk(k, meta, from, s.floors.Spill)
}

// Keep is Spill for what is to outlive the store: it may take more of the disk.
func (s *Store) Keep(k ledger.Key, meta []byte, from ledger.Place) error {
	return s.toDisk(k, meta, from, s.floors.Keep)
}

func (s *Store) toDisk(k ledger.Key, meta []byte, from ledger.Place, floor uint64) error {
	fail := func(err error) error { return fmt.Errorf("spill %v (%d bytes): %w", k, from.Bytes, err) }
	if s.spill == "" {
		return fail(errors.New("the agent has no spill folder"))
	}
	if len(meta) > maxMeta {
		return fail(fmt.Errorf("descriptor of %d bytes, at most %d: %w", len(meta), maxMeta, ErrBounds))
	}
	free, err := s.sys.Free("spill:free", s.spill)
	if err == nil {
		err = diskspace.Leaves(s.spill, free, uint64(spillHead+int64(len(meta))+from.Bytes), floor)
	}
	if err != nil {
		return fail(err)
	}
	src, err := s.openSegment("spill:source", from.Segment, os.O_RDONLY)
	if err != nil {
		return fail(err)
	}
	defer src.Close()
	path := s.SpillPath(k)
	dst, err := s.sys.Open("spill:open", path+spillTemp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fail(err)
	}
	sum := xxh3.New()
	err = s.copy("spill", dst, spillHead+int64(len(meta)), src, from.Offset, from.Bytes, sum)
	if err == nil {
		h := spillHeader{key: k, meta: meta, n: from.Bytes, sum: sum.Sum128().Bytes()}
		_, err = s.sys.Write("spill:header", dst, h.encode(), 0)
	}
	err = errors.Join(err, dst.Close())
	if err == nil {
		err = s.sys.Rename("spill:rename", path+spillTemp, path)
	}
	if err != nil {
		return fail(errors.Join(err, s.sys.Remove("spill:remove", path+spillTemp)))
	}
	return nil
}

// ReadBack fills a place from the spill file of a key and verifies it; a file segment is sealed with it. An error that wraps ErrCorrupt names
// the file, which is kept for inspection until DropSpill.
func (s *Store) ReadBack(k ledger.Key, to ledger.Place) error {
	path := s.SpillPath(k)
	fail := func(err error) error { return fmt.Errorf("read back %s: %w", path, err) }
	src, err := s.sys.Open("readback:open", path, os.O_RDONLY, 0)
	if err != nil {
		return fail(err)
	}
	defer src.Close()
	h, err := s.header(src)
	if err != nil {
		return fail(err)
	}
	if h.key != k || h.n != to.Bytes {
		return fail(fmt.Errorf("it holds %d bytes of %v, wanted are %d of %v: %w", h.n, h.key, to.Bytes, k, ErrCorrupt))
	}
	dst, err := s.openSegment("readback:segment", to.Segment, os.O_RDWR)
	if err != nil {
		return fail(err)
	}
	defer dst.Close()
	sum := xxh3.New()
	if err := s.copy("readback", dst, to.Offset, src, spillHead+int64(len(h.meta)), h.n, sum); err != nil {
		return fail(err)
	}
	if sum.Sum128().Bytes() != h.sum {
		return fail(fmt.Errorf("checksum of the data differs: %w", ErrCorrupt))
	}
	if kind, _, _ := parseName(filepath.Base(dst.Name())); kind != ledger.Arena {
		// The ledger asks for this too, but a command may have the file open before that is performed.
		return s.Seal(to.Segment, kind, h.n)
	}
	return nil
}

func (s *Store) header(f *os.File) (spillHeader, error) {
	fi, err := f.Stat()
	if err != nil {
		return spillHeader{}, err
	}
	return decodeSpillHeader(f, fi.Size())
}

// DropSpill removes a spill file; one that is not there is no error.
func (s *Store) DropSpill(k ledger.Key) error {
	if err := s.sys.Remove("drop:remove", s.SpillPath(k)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("drop spill of %v: %w", k, err)
	}
	return nil
}

// Spilled describes a spill file of a former agent.
type Spilled struct {
	Key   ledger.Key
	Bytes int64
	Meta  []byte // descriptor
}

// ListSpilled reads the headers of all spill files, sorted by key, and removes unfinished ones. Files that
// are not sound are reported in bad and left alone. The data is verified when it is read back.
func (s *Store) ListSpilled() (list []Spilled, bad []error, err error) {
	if s.spill == "" {
		return nil, nil, nil
	}
	entries, err := os.ReadDir(s.spill) // sorted by name, which is the key
	if err != nil {
		return nil, nil, fmt.Errorf("list spill files: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(s.spill, e.Name())
		if strings.HasSuffix(e.Name(), spillSuffix+spillTemp) {
			if err := s.sys.Remove("list:remove", path); err != nil {
				bad = append(bad, fmt.Errorf("remove unfinished spill file: %w", err))
			}
			continue
		}
		if !strings.HasSuffix(e.Name(), spillSuffix) {
			continue
		}
		h, err := s.readHeader(path)
		if err == nil && s.SpillPath(h.key) != path {
			err = fmt.Errorf("it holds %v: %w", h.key, ErrCorrupt)
		}
		if err != nil {
			bad = append(bad, fmt.Errorf("spill file %s: %w", path, err))
			continue
		}
		list = append(list, Spilled{h.key, h.n, h.meta})
	}
	return list, bad, nil
}

func (s *Store) readHeader(path string) (spillHeader, error) {
	f, err := s.sys.Open("list:open", path, os.O_RDONLY, 0)
	if err != nil {
		return spillHeader{}, err
	}
	defer f.Close()
	return s.header(f)
}

// copy moves n bytes between files with plain reads and writes: a disk or tmpfs that fails is an error,
// where a mapping would be a SIGBUS. The bytes also go into sum, if there is one.
func (s *Store) copy(op string, dst *os.File, dstOff int64, src *os.File, srcOff, n int64, sum hash.Hash) error {
	buf := make([]byte, min(n, copyBufBytes))
	for done := int64(0); done < n; {
		b := buf[:min(n-done, copyBufBytes)]
		if k, err := s.sys.Read(op+":read", src, b, srcOff+done); k < len(b) {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("read %s at %d: %w", src.Name(), srcOff+done, err)
		}
		if sum != nil {
			sum.Write(b)
		}
		if _, err := s.sys.Write(op+":write", dst, b, dstOff+done); err != nil {
			return fmt.Errorf("write %s at %d: %w", dst.Name(), dstOff+done, err)
		}
		done += int64(len(b))
	}
	return nil
}
