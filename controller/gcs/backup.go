package gcs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"sync"

	badger "github.com/dgraph-io/badger/v4"
	"github.com/zeebo/blake3"
)

// A backup is the records of every shard as they were at one moment, in a form
// that does not depend on Badger's files:
//
//	magic, shards(2), for each shard: {key length(4) value length(4) key value}... end(4), BLAKE3 of all before
const (
	backupMagic    = "cascade store 1\n"
	backupEnd      = 1<<32 - 1
	maxBackupKey   = 64 << 10
	maxBackupValue = 256 << 20
)

// Backup writes all records to w. It may run beside reads and writes: every shard
// holds its writes for the moment in which all of them take their snapshots, so
// that no record of one is newer than a record of another that it speaks of.
func (s *Store) Backup(ctx context.Context, w io.Writer) error {
	if err := s.backup(ctx, w); err != nil {
		return fmt.Errorf("back up the store: %w", err)
	}
	return nil
}

func (s *Store) backup(ctx context.Context, w io.Writer) error {
	txns, err := s.snapshot(ctx)
	if err != nil {
		return err
	}
	defer func() {
		for _, t := range txns {
			t.Discard()
		}
	}()
	sum := blake3.New()
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<20)
	if _, err := out.WriteString(backupMagic); err != nil {
		return err
	}
	if err := binary.Write(out, binary.BigEndian, uint16(len(txns))); err != nil {
		return err
	}
	for _, t := range txns {
		if err := backupShard(ctx, out, t); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	_, err = w.Write(sum.Sum(nil))
	return err
}

func backupShard(ctx context.Context, out *bufio.Writer, t *badger.Txn) error {
	var head [8]byte
	err := each(t, nil, nil, true, func(k, v []byte) error {
		binary.BigEndian.PutUint32(head[:4], uint32(len(k)))
		binary.BigEndian.PutUint32(head[4:], uint32(len(v)))
		for _, b := range [][]byte{head[:], k, v} {
			if _, err := out.Write(b); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	return binary.Write(out, binary.BigEndian, uint32(backupEnd))
}

// snapshot opens a reading transaction in every shard while none of them writes.
func (s *Store) snapshot(ctx context.Context) ([]*badger.Txn, error) {
	resume := make(chan struct{})
	defer close(resume)
	arrived := make(chan error, len(s.shards))
	for _, sh := range s.shards {
		var once sync.Once
		sh.submit(write{done: func(err error) {
			once.Do(func() { arrived <- err })
			if err == nil {
				<-resume // in the shard's goroutine
			}
		}})
	}
	for range s.shards {
		select {
		case err := <-arrived:
			if err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("a shard does not come to rest, perhaps for want of room on its disk: %w", context.Cause(ctx))
		}
	}
	txns := make([]*badger.Txn, len(s.shards))
	for i, sh := range s.shards {
		txns[i] = sh.db.NewTransaction(false)
	}
	return txns, nil
}

// Restore makes a store in dir, which must not exist, of what Backup wrote. A
// backup that was cut short or changed leaves nothing behind.
func Restore(dir string, r io.Reader) error {
	if err := restore(dir, r); err != nil {
		return fmt.Errorf("restore a store into %s: %w", dir, err)
	}
	return nil
}

// ErrBackup says that a file is no backup, or not a whole one.
var ErrBackup = errors.New("it is no whole backup of a store")

func restore(dir string, r io.Reader) (err error) {
	if _, err := os.Lstat(dir); err == nil {
		return errors.New("there is one already")
	}
	temp := dir + ".restoring"
	if err := os.RemoveAll(temp); err != nil { // of one that was cut short
		return err
	}
	if err := os.MkdirAll(temp, 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(temp))
		}
	}()
	in := &summed{r: bufio.NewReaderSize(r, 1<<20), sum: blake3.New()}
	magic := make([]byte, len(backupMagic)+2)
	if _, err := io.ReadFull(in, magic); err != nil || string(magic[:len(backupMagic)]) != backupMagic {
		return ErrBackup
	}
	shards := int(binary.BigEndian.Uint16(magic[len(backupMagic):]))
	if shards < 1 || shards > 256 {
		return fmt.Errorf("%w: %d shards", ErrBackup, shards)
	}
	for i := range shards {
		if err := restoreShard(filepath.Join(temp, shardName(i)), in); err != nil {
			return err
		}
	}
	want := in.sum.Sum(nil)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(in.r, got); err != nil || !bytes.Equal(got, want) {
		return fmt.Errorf("%w: its checksum is wrong", ErrBackup)
	}
	return os.Rename(temp, dir)
}

// summed is a reader that sums what it reads.
type summed struct {
	r   io.Reader
	sum hash.Hash
}

func (s *summed) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	_, _ = s.sum.Write(p[:n]) // a hash never fails
	return n, err
}

func restoreShard(dir string, in io.Reader) (err error) {
	db, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil).WithMemTableSize(16 << 20).WithBlockCacheSize(1 << 20).
		WithIndexCacheSize(1 << 20).WithValueThreshold(16 << 10).WithMetricsEnabled(false))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	batch := db.NewWriteBatch()
	defer batch.Cancel()
	for {
		k, v, err := readRecord(in)
		if err != nil {
			return err
		}
		if k == nil {
			break
		}
		if err := batch.Set(k, v); err != nil {
			return err
		}
	}
	if err := batch.Flush(); err != nil {
		return err
	}
	return db.Sync()
}

// readRecord reads one record; the key is nil at the end of a shard.
func readRecord(in io.Reader) (k, v []byte, err error) {
	var n [2]uint32
	if err := binary.Read(in, binary.BigEndian, &n[0]); err != nil {
		return nil, nil, fmt.Errorf("%w: it is cut off", ErrBackup)
	}
	if n[0] == backupEnd {
		return nil, nil, nil
	}
	if err := binary.Read(in, binary.BigEndian, &n[1]); err != nil || n[0] == 0 || n[0] > maxBackupKey || n[1] > maxBackupValue {
		return nil, nil, fmt.Errorf("%w: a record of %d and %d bytes", ErrBackup, n[0], n[1])
	}
	k = make([]byte, n[0])
	if _, err = io.ReadFull(in, k); err == nil {
		var b bytes.Buffer // grows with what is there, and not by what the length says
		if _, err = io.CopyN(&b, in, int64(n[1])); err == nil {
			v = b.Bytes()
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: it is cut off", ErrBackup)
	}
	if v == nil {
		v = []byte{}
	}
	return k, v, nil
}
