package controller

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/cascade-run/cascade/controller/gcs"
	"github.com/cascade-run/cascade/internal/outfile"
)

// backupHead is the first line of a backup; the store's records follow.
type backupHead struct {
	Version int               `json:"cascade_backup"`
	Taken   time.Time         `json:"taken"`
	Files   map[string][]byte `json:"files"` // of the state folder
}

// backupFiles are those whose loss would end a cluster, and the number of the
// last start, which must grow. Members, tokens and jobs are in the store.
var backupFiles = [...]string{"pki/ca.crt", "pki/ca.key", "incarnation"}

const (
	backupRest    = 10 * time.Second // that shards may take to come to rest
	maxBackupHead = 1 << 20
)

// Backup writes the store and the authority of a controller that does not run
// into a new file, or over an older backup.
func Backup(state, file string) error {
	cfg := Config{State: state}
	store, err := gcs.Open(cfg.store(nil))
	if err != nil {
		return fmt.Errorf("back up %s: %w", state, err)
	}
	return errors.Join(backup(state, store, file), store.Close())
}

// backup writes a backup, to a file that is whole or as it was.
func backup(state string, store *gcs.Store, file string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("back up %s to %s: %w", state, file, err)
		}
	}()
	if !filepath.IsAbs(file) {
		return errors.New("want an absolute path")
	}
	head := backupHead{Version: 1, Taken: time.Now().UTC(), Files: map[string][]byte{}}
	for _, name := range backupFiles {
		b, err := os.ReadFile(filepath.Join(state, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err == nil {
			head.Files[name] = b
		}
	}
	line, err := json.Marshal(head)
	if err != nil {
		return err
	}
	to, err := outfile.Create(file, 0o600) // it holds the authority's key
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return &badRequest{fmt.Sprintf("%v: name a file in a folder that exists on the controller's host and that its user may write to", err)}
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if _, err := to.Write(append(line, '\n')); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), backupRest)
	defer cancel()
	if err := store.Backup(ctx, to); err != nil {
		return err
	}
	if err := to.Sync(); err != nil {
		return err
	}
	return to.Commit()
}

// Restore makes the state folder of a controller out of a backup. It replaces
// nothing: a store or an authority that is there is an error.
func Restore(state, file string) error {
	if err := restore(state, file); err != nil {
		return fmt.Errorf("restore %s from %s: %w", state, file, err)
	}
	return nil
}

func restore(state, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, maxBackupHead)
	line, err := in.ReadSlice('\n')
	var head backupHead
	if err == nil {
		err = json.Unmarshal(line, &head)
	}
	if err != nil || head.Version != 1 {
		return fmt.Errorf("it does not begin as a backup of version 1 does: %w", errors.Join(gcs.ErrBackup, err))
	}
	for _, name := range append(backupFiles[:], storeFolder) {
		if _, err := os.Lstat(filepath.Join(state, name)); err == nil {
			return fmt.Errorf("there is a %s already: restore into a new folder, or move it away", filepath.Join(state, name))
		}
	}
	if err := gcs.Restore(filepath.Join(state, storeFolder), io.Reader(in)); err != nil {
		return err
	}
	for _, name := range backupFiles {
		b, ok := head.Files[name]
		if !ok {
			continue
		}
		path := filepath.Join(state, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			return err
		}
	}
	return nil
}
