package statedir

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if f, err := Lock(path); !errors.Is(err, ErrHeld) || f != nil {
		t.Errorf("while it is held: %v", err)
	}
	// Removed by its holder it is free for the next, who is not in the way of the one before.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if held, err := tryLock(first, path); held || err != nil {
		t.Errorf("a removed lock counts: %v, %v", held, err)
	}
	if err := errors.Join(first.Close(), second.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestErase(t *testing.T) {
	for name, c := range map[string]struct {
		other string // a file that is somebody else's
		left  bool
	}{"alone": {"", false}, "beside": {"mine.txt", true}, "beside the lock": {"store/mine.txt", true}} {
		dir := filepath.Join(t.TempDir(), "state")
		for _, file := range []string{"store/lock", "store/shard/x", "numbers", c.other} {
			if file == "" {
				continue
			}
			path := filepath.Join(dir, file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		if err := Erase(dir, "store/lock", "store/shard", "numbers", "never"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_, err := os.Stat(dir)
		if left := err == nil; left != c.left {
			t.Errorf("%s: the folder is left: %v", name, left)
		}
		if c.left {
			if _, err := os.Stat(filepath.Join(dir, c.other)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
