package runtimeenv

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/diskspace"
)

// fakePlugin is a struct of functions: a test sets what it needs.
type fakePlugin struct {
	key    func() (string, error)
	create func(dir string) error
	waits  bool // Create goes on until it is ended
}

func (f *fakePlugin) Name() string                   { return "fake" }
func (f *fakePlugin) Priority() int                  { return 20 }
func (f *fakePlugin) Applies(dag.Environment) bool   { return true }
func (f *fakePlugin) Validate(dag.Environment) error { return nil }
func (f *fakePlugin) Delete(string) error            { return nil }
func (f *fakePlugin) Key(context.Context, dag.Environment) (string, error) {
	if f.key == nil {
		return "k", nil
	}
	return f.key()
}

func (f *fakePlugin) Create(ctx context.Context, _ dag.Environment, b *Build) error {
	err := f.create(b.Dir)
	if err == nil && f.waits {
		<-ctx.Done()
		err = ctx.Err()
	}
	return err
}

func (f *fakePlugin) Activate(_ dag.Environment, dir string, act *Activation) error {
	act.Command = append(act.Command, filepath.Join(dir, "program"))
	return nil
}

func writeProgram(dir string) error {
	return os.WriteFile(filepath.Join(dir, "program"), []byte("x"), 0o700)
}

func TestOneBuildForMany(t *testing.T) {
	dir := t.TempDir()
	var builds, fresh atomic.Int32
	plugin := &fakePlugin{create: func(dir string) error {
		builds.Add(1)
		return writeProgram(dir)
	}}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			cache := New(dir, plugin)
			defer cache.Close()
			act, err := cache.Prepare(t.Context(), dag.Environment{Name: "e", Vars: map[string]string{"B": "2", "A": "1"}}, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if act.Built {
				fresh.Add(1)
			}
			want := []string{filepath.Join(dir, "fake", "k", "program")}
			if strings.Join(act.Command, " ") != want[0] || strings.Join(act.Env, " ") != "A=1 B=2" || strings.Join(act.Keys, " ") != "fake-k" {
				t.Errorf("activation %+v", act)
			}
			if _, err := os.Stat(act.Command[0]); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if builds.Load() != 1 || fresh.Load() != 1 {
		t.Errorf("%d builds, %d callers were told of one", builds.Load(), fresh.Load())
	}
	cache, other := New(dir, plugin), New(dir, plugin)
	defer cache.Close()
	if _, err := other.Prepare(t.Context(), dag.Environment{}, func(text string) { t.Errorf("what was found is built: %s", text) }); err != nil {
		t.Fatal(err)
	}
	if err := cache.Delete("fake-k"); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("Delete of what is in use: %v", err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cache.Delete("fake-k"); err != nil {
		t.Fatal(err)
	}
	if _, err := cache.Prepare(t.Context(), dag.Environment{}, nil); err != nil || builds.Load() != 2 {
		t.Errorf("after Delete: %v, %d builds", err, builds.Load())
	}
}

func TestFailedBuildLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	broken := errors.New("no compiler")
	fails := true
	cache := New(dir, &fakePlugin{create: func(dir string) error {
		if err := writeProgram(dir); err != nil || !fails {
			return err
		}
		return broken
	}})
	_, err := cache.Prepare(t.Context(), dag.Environment{Name: "e"}, nil)
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), `environment "e"`) {
		t.Errorf("error %v", err)
	}
	left, _ := filepath.Glob(filepath.Join(dir, "fake", "*"))
	if len(left) != 2 || !strings.HasSuffix(left[0], "k.lock") || !strings.HasSuffix(left[1], "k.use") {
		t.Errorf("left behind: %v", left)
	}
	fails = false
	if act, err := cache.Prepare(t.Context(), dag.Environment{Name: "e"}, nil); err != nil || !act.Built {
		t.Errorf("second try: %+v, %v", act, err)
	}
}

// Room on the disk is looked for before a build, while it goes on, and behind it.
func TestEnvironmentsLeaveRoomOnTheDisk(t *testing.T) {
	const plenty, little = 1 << 40, 1 << 10
	for _, c := range []struct {
		name   string
		beside string   // "": the same disk
		free   []uint64 // at each look; the last one stays
		waits  bool     // Create goes on until it is ended
		want   string   // in the error; "" when it is built
		begun  bool
	}{
		{"before", "", []uint64{little}, false, "it is not built (cascade rm environments", false},
		{"while", "", []uint64{plenty, plenty, little}, true, "its build was ended (cascade rm environments", true},
		{"behind", "", []uint64{plenty, little}, false, "it was built and removed again (cascade rm environments", true},
		{"with room", "", []uint64{plenty}, false, "", true},
		{"another disk", "/proc", []uint64{little}, false, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, begun := t.TempDir(), false
			plugin := &fakePlugin{create: func(dir string) error {
				begun = true
				return writeProgram(dir)
			}, waits: c.waits}
			cache := New(filepath.Join(dir, "cache"), plugin)
			defer cache.Close()
			cache.Leave(cmp.Or(c.beside, dir), 1<<20)
			cache.room.look = time.Hour
			if c.waits {
				cache.room.look = time.Millisecond
			}
			var looks atomic.Int64
			cache.room.free = func(string) (uint64, error) {
				return c.free[min(int(looks.Add(1)), len(c.free))-1], nil
			}
			_, err := cache.Prepare(t.Context(), dag.Environment{Name: "e"}, nil)
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, diskspace.ErrLow) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v", err)
			}
			if list, err := cache.List(); err != nil || (len(list) != 0) != (c.want == "") || begun != c.begun {
				t.Errorf("there is %v, %v; it began: %t", list, err, begun)
			}
		})
	}
}

func TestSourcesChangeDuringBuild(t *testing.T) {
	for _, c := range []struct {
		name  string
		keys  string // one letter for each call of Key
		built string // the keys that are in the cache afterwards
		err   string
	}{
		{"once", "abbb", "b", ""},
		{"without end", "abcdefgh", "", "its files changed during each of 3 builds"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, calls := t.TempDir(), 0
			cache := New(dir, &fakePlugin{create: writeProgram, key: func() (string, error) {
				calls++
				return c.keys[calls-1 : calls], nil
			}})
			_, err := cache.Prepare(t.Context(), dag.Environment{}, nil)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			var built string
			programs, _ := filepath.Glob(filepath.Join(dir, "fake", "*", "program"))
			for _, p := range programs {
				built += filepath.Base(filepath.Dir(p))
			}
			if built != c.built {
				t.Errorf("in the cache: %q, want %q", built, c.built)
			}
		})
	}
}

func TestWaitForOtherBuildEndsWithContext(t *testing.T) {
	dir := t.TempDir()
	building, finish := make(chan struct{}), make(chan struct{})
	cache := New(dir, &fakePlugin{create: func(dir string) error {
		close(building)
		<-finish
		return writeProgram(dir)
	}})
	done := make(chan error)
	go func() {
		_, err := cache.Prepare(t.Context(), dag.Environment{}, nil)
		done <- err
	}()
	<-building
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := cache.Prepare(ctx, dag.Environment{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	close(finish)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestVars(t *testing.T) {
	cache := New(t.TempDir())
	if act, err := cache.Prepare(t.Context(), dag.Environment{}, nil); err != nil || len(act.Command)+len(act.Env)+len(act.Keys) != 0 {
		t.Errorf("empty environment: %+v, %v", act, err)
	}
	err := cache.Validate(dag.Environment{Name: "e", Vars: map[string]string{"": "1", "A=B": "1", "C": "a\x00b", "CASCADE_X": "1", "OK": "1"}})
	want := `environment "e": variable "": a name is not empty and has no = in it
variable "A=B": a name is not empty and has no = in it
variable C: its value holds a zero byte
variable CASCADE_X: names that start with CASCADE_ are Cascade's own`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

type passing struct{ error }

func (passing) Transient() bool { return true }

// What may pass is tried again in an empty folder; what stays fails at once, for all who wait.
func TestTransientErrors(t *testing.T) {
	for _, c := range []struct {
		what     string
		fails    []error
		patience time.Duration
		tries    int
		err      string
	}{
		{"it passes", []error{passing{errors.New("away")}, nil}, time.Hour, 2, ""},
		{"it stays", []error{errors.New("wrong"), nil}, time.Hour, 1, "wrong"},
		{"first one, then the other", []error{passing{errors.New("away")}, errors.New("wrong")}, time.Hour, 2, "wrong"},
		{"patience ends", []error{passing{errors.New("away")}}, 0, 1, "away\ntried 1 times"},
	} {
		t.Run(c.what, func(t *testing.T) {
			tries, told := 0, 0
			cache := New(t.TempDir(), &fakePlugin{create: func(dir string) error {
				if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 0 {
					t.Errorf("a folder with %v, %v", left, err)
				}
				tries++
				return errors.Join(writeProgram(dir), c.fails[tries-1])
			}})
			cache.patience = c.patience
			_, err := cache.Prepare(t.Context(), dag.Environment{}, func(string) { told++ })
			if tries != c.tries || told != c.tries || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%d tries, told %d times, error %v", tries, told, err)
			}
		})
	}
}
