package runtimeenv

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cascade-run/cascade/dag"
)

// named makes an environment of some KiB whose key is its name.
type named struct{ fakePlugin }

func (*named) Key(_ context.Context, env dag.Environment) (string, error) { return env.Name, nil }
func (*named) Create(_ context.Context, _ dag.Environment, b *Build) error {
	return os.WriteFile(filepath.Join(b.Dir, "program"), make([]byte, 10<<10), 0o700)
}

func prepare(t *testing.T, c *Cache, name string) {
	t.Helper()
	act, err := c.Prepare(t.Context(), dag.Environment{Name: name}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(act.Command[0]); err != nil {
		t.Fatalf("%s is not there after it was prepared: %v", name, err)
	}
}

func kept(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "fake"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestPrune(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		what   string
		limits Limits
		want   []string
	}{
		{"all fit", Limits{}, []string{"a", "b", "c", "used"}},
		{"too many", Limits{Count: 2}, []string{"a", "used"}},
		{"too large", Limits{Bytes: 35 << 10}, []string{"a", "c", "used"}},
		{"too old", Limits{Age: 150 * time.Minute}, []string{"a", "c", "used"}},
		{"all but what is used", Limits{Count: 1, Bytes: 1}, []string{"used"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			dir := t.TempDir()
			before, user := New(dir, new(named)), New(dir, new(named))
			for i, name := range []string{"a", "c", "b"} { // b was used longest ago
				prepare(t, before, name)
				at := now.Add(-time.Duration(i+1) * time.Hour)
				if err := os.Chtimes(filepath.Join(dir, "fake", name+".use"), at, at); err != nil {
					t.Fatal(err)
				}
			}
			prepare(t, user, "used")
			old := filepath.Join(dir, "fake", "used.use")
			if err := os.Chtimes(old, now, now.Add(-1000*time.Hour)); err != nil {
				t.Fatal(err)
			}
			killed := filepath.Join(dir, "fake", ".build-killed")
			if err := os.Mkdir(killed, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(killed, now, now.Add(-25*time.Hour)); err != nil {
				t.Fatal(err)
			}
			if err := before.Close(); err != nil {
				t.Fatal(err)
			}
			removed, err := New(dir, new(named)).Prune(c.limits, now)
			if got := kept(t, dir); err != nil || !slices.Equal(got, c.want) || len(removed) != 4-len(got) {
				t.Errorf("removed %v, kept %v, error %v; want %v", removed, got, err, c.want)
			}
			if err := user.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// What was prepared is there, however busily others prune.
func TestPruneBesideUsers(t *testing.T) {
	dir := t.TempDir()
	var users, pruner sync.WaitGroup
	stop := make(chan struct{})
	pruner.Go(func() {
		for c := New(dir, new(named)); ; {
			if _, err := c.Prune(Limits{Bytes: 1}, time.Now()); err != nil {
				t.Error(err)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for range 4 {
		users.Go(func() {
			for i := range 50 {
				c := New(dir, new(named))
				prepare(t, c, string(rune('a'+i%3)))
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	users.Wait()
	close(stop)
	pruner.Wait()
}

// Who waits until a pruner is done with one environment holds up no other.
func TestUseWaitsAlone(t *testing.T) {
	dir := t.TempDir()
	c := New(dir)
	a, b := filepath.Join(dir, "p", "a"), filepath.Join(dir, "p", "b")
	if err := os.MkdirAll(filepath.Dir(a), 0o700); err != nil {
		t.Fatal(err)
	}
	unlock, err := lockNow(a + ".use")
	if err != nil || unlock == nil {
		t.Fatal(unlock == nil, err)
	}
	var waits sync.WaitGroup
	for range 2 {
		waits.Go(func() {
			if err := c.use(t.Context(), a); err != nil {
				t.Error(err)
			}
		})
	}
	for range 100 { // the others wait by now, or soon
		runtime.Gosched()
		if err := c.use(t.Context(), b); err != nil {
			t.Error(err)
		}
	}
	unlock()
	waits.Wait()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if unlock, err := lockNow(a + ".use"); err != nil || unlock == nil {
		t.Errorf("after Close somebody still has the lock: %v", err)
	} else {
		unlock()
	}
}

// What several environments have by hard links goes with the last of them.
func TestPruneCountsLinksOnce(t *testing.T) {
	dir, wheel := t.TempDir(), filepath.Join(t.TempDir(), "wheel")
	if err := os.WriteFile(wheel, make([]byte, 40<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	plugin := new(named)
	cache := New(dir, plugin)
	now := time.Now()
	for i, name := range []string{"a", "b", "c"} { // a was used longest ago
		prepare(t, cache, name)
		if err := os.Link(wheel, filepath.Join(dir, "fake", name, "linked")); err != nil {
			t.Fatal(err)
		}
		rec := readRecord("fake", filepath.Join(dir, "fake", name))
		rec.Bytes = sizeOf(filepath.Join(dir, "fake", name)) // 50 KiB
		if err := rec.write(filepath.Join(dir, "fake", name)); err != nil {
			t.Fatal(err)
		}
		at := now.Add(time.Duration(i-9) * time.Hour)
		if err := os.Chtimes(filepath.Join(dir, "fake", name+".use"), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := cache.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		limit int64
		want  []string
	}{
		{70 << 10, []string{"a", "b", "c"}},
		{60 << 10, []string{"b", "c"}},
		{50 << 10, []string{"c"}},
		{-1, nil},
	} {
		if _, err := cache.Prune(Limits{Bytes: c.limit}, now); err != nil {
			t.Fatal(err)
		}
		if got := kept(t, dir); !slices.Equal(got, c.want) {
			t.Errorf("of %d bytes: %v, want %v", c.limit, got, c.want)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "fake", "*.json")); err != nil || len(left) > 0 {
		t.Errorf("notes of what is gone: %v, %v", left, err)
	}
}
