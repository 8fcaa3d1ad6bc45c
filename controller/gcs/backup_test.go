package gcs

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cascade-run/cascade/comms/pki"
)

// pair writes a number to two shards, the second after the first: a snapshot may
// see the first alone, but never a second that is ahead of it.
func pair(s *Store, n byte) {
	for _, sh := range s.shards {
		done := make(chan error, 1)
		sh.submit(write{entries: []entry{{[]byte("Znumber"), []byte{n}}}, done: func(err error) { done <- err }})
		if err := <-done; err != nil {
			panic(err)
		}
	}
}

func number(t *testing.T, s *Store, shard int) byte {
	t.Helper()
	b, err := get(s.shards[shard].db, []byte("Znumber"))
	if err != nil {
		t.Fatal(err)
	}
	return b[0]
}

func TestBackupIsOneMomentOfAllShards(t *testing.T) {
	s, err := Open(Options{Dir: t.TempDir(), Shards: 2, MinFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	pair(s, 0)
	stop := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		for n := byte(1); ; n++ {
			select {
			case <-stop:
				return
			default:
				pair(s, n)
			}
		}
	})
	var files []*bytes.Buffer
	for range 20 {
		var b bytes.Buffer
		if err := s.Backup(t.Context(), &b); err != nil {
			t.Error(err)
		}
		files = append(files, &b)
	}
	close(stop)
	work.Wait()
	for i, f := range files[:3] {
		dir := filepath.Join(t.TempDir(), "store")
		if err := Restore(dir, f); err != nil {
			t.Fatal(err)
		}
		r, err := Open(Options{Dir: dir, MinFree: 1})
		if err != nil {
			t.Fatal(err)
		}
		if first, second := number(t, r, 0), number(t, r, 1); first-second > 1 {
			t.Errorf("backup %d has %d in the first shard and %d in the second", i, first, second)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestRestoreRefusesWhatIsNotWhole(t *testing.T) {
	s, err := Open(Options{Dir: t.TempDir(), Shards: 2, MinFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	token := pki.Grant{ID: [8]byte{1}, Role: pki.RoleAgent, Uses: 3}
	done := make(chan error, 1)
	s.PutToken(token, func(err error) { done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	var whole bytes.Buffer
	if err := s.Backup(t.Context(), &whole); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	b := whole.Bytes()
	changed := bytes.Clone(b)
	changed[len(b)/2]++
	endless := append(bytes.Clone(b[:len(backupMagic)+2]), 0, 0, 0, 9, 0x0f, 0xff, 0xff, 0xff, 'k')
	for name, f := range map[string][]byte{"empty": nil, "nonsense": []byte("PK\x03\x04 and so on"), "cut off": b[:len(b)-40], "without its sum": b[:len(b)-32],
		"changed": changed, "a length that lies": endless} {
		dir := filepath.Join(t.TempDir(), "store")
		if err := Restore(dir, bytes.NewReader(f)); err == nil {
			t.Errorf("%s: restored", name)
		}
		if left, err := filepath.Glob(dir + "*"); err != nil || len(left) > 0 {
			t.Errorf("%s: %v stays behind, %v", name, left, err)
		}
	}
	dir := filepath.Join(t.TempDir(), "store")
	if err := Restore(dir, bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	if err := Restore(dir, bytes.NewReader(b)); err == nil {
		t.Error("a store was replaced")
	}
	r, err := Open(Options{Dir: dir, Shards: 7, MinFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := r.Tokens(); err != nil || len(got) != 1 || got[0] != token || r.Map().Shards != 2 {
		t.Errorf("restored are %v in %d shards, %v", got, r.Map().Shards, err)
	}
}

// A shard that does not come to rest ends the backup, and holds nobody up after that.
func TestBackupGivesUp(t *testing.T) {
	s, err := Open(Options{Dir: t.TempDir(), Shards: 2, MinFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	busy := make(chan struct{})
	s.shards[1].submit(write{done: func(error) { <-busy }})
	ctx, cancel := context.WithCancelCause(t.Context())
	late := errors.New("too late")
	cancel(late)
	if err := s.Backup(ctx, &bytes.Buffer{}); !errors.Is(err, late) {
		t.Errorf("backup ended with %v", err)
	}
	close(busy)
	pair(s, 1)
}

func FuzzReadRecord(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 2, 'k', 'v', 'w'})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0, 0, 0, 1, 0x0f, 0xff, 0xff, 0xff, 'k'})
	f.Fuzz(func(t *testing.T, b []byte) {
		k, v, err := readRecord(bytes.NewReader(b))
		if err == nil && k != nil && len(k)+len(v)+8 > len(b) {
			t.Errorf("%d bytes are read as a key of %d and a value of %d", len(b), len(k), len(v))
		}
	})
}
