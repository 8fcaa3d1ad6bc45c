package statedir

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Local is where a local cluster keeps what.
type Local struct {
	State      string // what outlives the cluster
	Run        string // sockets
	Controller string // the controller's socket
}

// FindLocal tells where the folders are; state is "" for the program's own.
func FindLocal(state string) (Local, error) {
	var err error
	if state == "" {
		if state, err = StateFolder(filepath.Base(os.Args[0])); err != nil {
			return Local{}, err
		}
	}
	if state, err = filepath.Abs(state); err != nil {
		return Local{}, fmt.Errorf("find the state folder: %w", err)
	}
	base, err := RuntimeFolder()
	if err != nil {
		return Local{}, err
	}
	sum := sha256.Sum256([]byte(state))
	run := filepath.Join(base, hex.EncodeToString(sum[:6]))
	return Local{State: state, Run: run, Controller: filepath.Join(run, "controller.sock")}, nil
}

// LockLocal takes the state folder for this process. When another process has
// it, the lock is nil and holder is that process's number.
func LockLocal(dir string) (lock *os.File, holder string, err error) {
	path := filepath.Join(dir, "lock")
	f, err := Lock(path)
	if errors.Is(err, ErrHeld) {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, "", fmt.Errorf("read %s: %w", path, err)
		}
		return nil, strings.TrimSpace(string(b)), nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("lock the state folder: %w", err)
	}
	if err = f.Truncate(0); err == nil {
		_, err = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	if err != nil {
		f.Close()
		return nil, "", fmt.Errorf("write %s: %w", path, err)
	}
	return f, "", nil
}
