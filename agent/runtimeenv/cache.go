package runtimeenv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/backoff"
	"github.com/cascade-run/cascade/internal/diskspace"
	"github.com/cascade-run/cascade/internal/flock"
	"github.com/cascade-run/cascade/internal/safedir"
)

// Plugin makes one kind of thing that an environment can ask for. Its methods
// may be called by several goroutines.
type Plugin interface {
	// Name names the plugin in messages and the cache.
	Name() string
	// Priority orders plugins that serve one environment, lower first: a later one sees what the earlier activated.
	Priority() int
	// Applies tells whether env asks for something of this plugin.
	Applies(env dag.Environment) bool
	// Validate finds mistakes without building anything.
	Validate(env dag.Environment) error
	// Key returns a hash over all that Create would use; "" when there is nothing to create.
	Key(ctx context.Context, env dag.Environment) (string, error)
	// Create makes the environment in b.Dir, an empty folder, which is moved
	// afterwards. An error that is Transient is tried again, in an empty folder.
	Create(ctx context.Context, env dag.Environment, b *Build) error
	// Activate adds to act what starts an executor in the environment in dir.
	Activate(env dag.Environment, dir string, act *Activation) error
	// Delete frees what Create took outside of dir, before dir is removed.
	Delete(dir string) error
}

// inPlace is a plugin whose environments cannot be moved. Create makes the folder
// b.Dir, which does not exist, at its own place; it is complete when its record is there.
type inPlace interface{ worksInPlace() }

func isInPlace(p Plugin) bool {
	_, is := p.(inPlace)
	return is
}

// sealed is a plugin whose folders tasks share and only read: what one writes there would reach others, also of
// other jobs. For a user the modes of folders and files see to it, for root a mount (Activation.ReadOnly).
type sealed interface{ isSealed() }

// seal takes the right to write from the folders and files of a tree. A file with several names keeps its mode, as it may
// be one of uv's cache, which is the user's: a copy of each would take the disk space of all packages once more.
func seal(dir string) error {
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() && !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil || entry.Type().IsRegular() && info.Sys().(*syscall.Stat_t).Nlink > 1 {
			return err
		}
		return os.Chmod(path, info.Mode().Perm()&^0o222)
	})
	if err != nil {
		return fmt.Errorf("make the environment read-only: %w", err)
	}
	return nil
}

// Build is one try of Create.
type Build struct {
	Place    string            // where Dir is moved afterwards
	Dir      string            // empty folder to fill
	Packages []string          // set by Create: NAME VERSION of what was installed, for people
	tell     func(text string) // says what the build waits for
}

// Tell says what a build waits for, to whoever asked for it. Text is for people.
func (b *Build) Tell(text string) {
	if b.tell != nil {
		b.tell(text)
	}
}

// transient is an error that may be gone when the build is tried again.
type transient interface{ Transient() bool }

// Activation is what starts an executor in an environment.
type Activation struct {
	Command []string // program and arguments; empty: the executor that comes with the agent
	Env     []string // NAME=value, added to the executor's environment
	Dir     string   // where executors start; empty: the job's folder
	Root    string   // folder that is their file system; empty: the host's
	Foreign bool     // Command runs functions only: commands are run by the agent's executor, with Env
	// ReadOnly are folders that executors share: they are not to write there.
	ReadOnly []string
	// Code are the folders that hold the files of working_dir and py_modules, below which they have their own names.
	Code  []string
	Keys  []string // of all that was made for it: PLUGIN-KEY
	Built bool     // something was made just now rather than found in the cache
	Bytes int64    // of files that were made for it

	executor string // folder of the Python executor's package, which nothing hides
}

// Cache makes environments and keeps them in a folder.
type Cache struct {
	dir      string
	plugins  []Plugin
	patience time.Duration // how long transient errors of one build are tried again
	source   Source        // of packages; nil: there are none
	recent   recent
	platform string // for which binaries run here; "": ThisPlatform
	room     room

	mu       sync.Mutex
	held     map[string]*os.File  // locks of the environments that we use, by folder
	building map[string]*building // by folder
}

// building is a build that this Cache makes; err is set when done is closed.
type building struct {
	done chan struct{}
	err  error
}

const (
	patience   = 2 * time.Minute
	firstPause = time.Second // at most, before a build is tried again; doubled each time up to lastPause
	lastPause  = 20 * time.Second
)

// New returns a cache in dir that knows the built-in plugins and the given ones.
func New(dir string, plugins ...Plugin) *Cache {
	c := &Cache{dir: dir, patience: patience, held: map[string]*os.File{}, building: map[string]*building{},
		room: room{look: lookAtDisk, free: diskspace.Free}}
	c.plugins = append(slices.Concat([]Plugin{new(goPlugin), varsPlugin{}, containerPlugin{}}, pythonPlugins(c)), plugins...)
	if !slices.ContainsFunc(plugins, func(p Plugin) bool { return p.Name() == externalPrefix+dag.CondaPlugin }) {
		c.plugins = append(c.plugins, condaPlugin{})
	}
	return c
}

// serving returns the plugins that serve env, in their order. They are valid: an external
// one says its priority by then.
func (c *Cache) serving(env dag.Environment) (all []Plugin) {
	for _, p := range c.plugins {
		if p.Applies(env) {
			all = append(all, p)
		}
	}
	slices.SortStableFunc(all, func(a, b Plugin) int { return a.Priority() - b.Priority() })
	return all
}

// Validate finds mistakes in env without building anything.
func (c *Cache) Validate(env dag.Environment) error {
	all := []error{c.validatePlugins(env)}
	for _, p := range c.plugins {
		if p.Applies(env) {
			all = append(all, p.Validate(env))
		}
	}
	if err := errors.Join(all...); err != nil {
		return fmt.Errorf("environment %q: %w", env.Name, err)
	}
	return nil
}

// Key returns a text that is equal for environments that are made of the same: the
// keys of all that Prepare would make. It builds nothing.
func (c *Cache) Key(ctx context.Context, env dag.Environment) (string, error) {
	if err := c.Validate(env); err != nil {
		return "", err
	}
	var all []string
	for _, p := range c.serving(env) {
		key, err := p.Key(ctx, env)
		if err != nil {
			return "", fmt.Errorf("environment %q: %w", env.Name, err)
		}
		all = append(all, p.Name()+"-"+key)
	}
	return strings.Join(all, " "), nil
}

// Prepare makes env unless the cache has it, and returns how to start executors
// in it; until Close it is not pruned. It may take minutes. Callers may ask for one environment at the same
// time: one of them builds, the others wait. tell, when it is not nil, is told that something
// is built ("") and what that waits for, from another goroutine perhaps. It answers from memory for
// a second after a look at the files, unless one has changed.
func (c *Cache) Prepare(ctx context.Context, env dag.Environment, tell func(text string)) (Activation, error) {
	q := c.recent.ask(env) // before the look: a file that changes meanwhile makes another question
	act, found := c.recent.find(q)
	if found {
		return act, nil
	}
	if err := c.Validate(env); err != nil {
		return Activation{}, err
	}
	tell = onceBuilt(tell)
	for _, p := range c.serving(env) {
		dir, built, err := c.prepare(ctx, p, env, tell)
		if err != nil {
			return Activation{}, fmt.Errorf("environment %q: %w", env.Name, err)
		}
		act.Built = act.Built || built
		if dir != "" {
			act.Keys = append(act.Keys, p.Name()+"-"+filepath.Base(dir))
			act.Bytes += c.bytesOf(dir)
			if _, is := p.(sealed); is {
				act.ReadOnly = append(act.ReadOnly, dir)
			}
		}
		if err := p.Activate(env, dir, &act); err != nil {
			return Activation{}, fmt.Errorf("environment %q: activate %s: %w", env.Name, p.Name(), err)
		}
	}
	c.recent.note(q, act)
	return act, nil
}

// onceBuilt makes tell one that tells once that something is built, before all else.
func onceBuilt(tell func(string)) func(string) {
	if tell == nil {
		return nil
	}
	begun := sync.OnceFunc(func() { tell("") })
	return func(text string) {
		if begun(); text != "" {
			tell(text)
		}
	}
}

// Found returns what a Prepare of env would, when that is known without a look at any file: it never waits.
func (c *Cache) Found(env dag.Environment) (Activation, bool) {
	if !packaged(&env) {
		return Activation{}, false
	}
	return c.recent.find(c.recent.ask(env))
}

// attempts is how often a build is tried when its sources change under it.
const attempts = 3

func (c *Cache) prepare(ctx context.Context, p Plugin, env dag.Environment, tell func(string)) (dir string, built bool, err error) {
	key, err := p.Key(ctx, env)
	if err != nil || key == "" {
		return "", false, err
	}
	for range attempts {
		dir := filepath.Join(c.dir, p.Name(), key)
		again := key
		if err := c.use(ctx, dir); err != nil { // before the look: from here on it is not removed
			return "", false, err
		}
		if found, err := isMade(p, dir); err != nil || found {
			return dir, built, err
		}
		if built, err = c.create(ctx, p, env, key, dir, &again, tell); err != nil {
			return "", false, err
		}
		if again == key {
			return dir, built, nil
		}
		key = again
	}
	return "", false, fmt.Errorf("its files changed during each of %d builds: try again when they are at rest", attempts)
}

// create makes dir unless another process did while we waited for the lock. After
// the build it computes the key again: when the sources changed meanwhile, what
// was built may not be what the key says, and it is thrown away.
func (c *Cache) create(ctx context.Context, p Plugin, env dag.Environment, key, dir string, again *string, tell func(string)) (built bool, err error) {
	if tell != nil {
		tell("")
	}
	parent := filepath.Dir(dir)
	if err := c.ownFolder(parent); err != nil {
		return false, fmt.Errorf("make cache folder: %w", err)
	}
	leave, err := c.enter(ctx, dir)
	if err != nil {
		return false, err
	}
	defer func() { leave(err) }()
	unlock, err := lock(ctx, filepath.Join(parent, key+".lock"))
	if err != nil {
		return false, err
	}
	defer unlock()
	if found, err := isMade(p, dir); err != nil || found {
		return false, err
	}
	started := time.Now()
	build, err := c.try(ctx, p, env, key, parent, tell)
	made := false
	defer func() {
		if build != nil && !made {
			err = errors.Join(err, safedir.Remove(build.Dir))
		}
	}()
	if err != nil {
		return false, err
	}
	if *again, err = p.Key(ctx, env); err != nil || *again != key {
		return false, err
	}
	if err := c.room.left(c.dir, "it was built and removed again"); err != nil {
		return false, err
	}
	rec := Record{Plugin: p.Name(), Key: key, Name: env.Name, What: describe(p, env), Source: env.Source,
		Packages: build.Packages, Made: started, Seconds: time.Since(started).Seconds(), Bytes: sizeOf(build.Dir)}
	if _, is := p.(sealed); is {
		if err := seal(build.Dir); err != nil {
			return false, err
		}
	}
	if err := rec.write(dir); err != nil {
		return false, err
	}
	if !isInPlace(p) {
		if err := os.Rename(build.Dir, dir); err != nil {
			return false, fmt.Errorf("put environment into the cache: %w", err)
		}
	}
	made = true
	return true, nil
}

// ownFolder makes a folder of the cache, in which no other user can put programs: they would run as this one.
func (c *Cache) ownFolder(dir string) error {
	return cmp.Or(safedir.Own(c.dir), safedir.Own(dir))
}

// enter waits until this Cache builds dir nowhere else: many that wait for one
// build wait here, and only one of them for the lock file. When that build fails
// for good all of them fail.
func (c *Cache) enter(ctx context.Context, dir string) (leave func(error), err error) {
	for {
		c.mu.Lock()
		other := c.building[dir]
		if other == nil {
			mine := &building{done: make(chan struct{})}
			c.building[dir] = mine
			c.mu.Unlock()
			return func(err error) {
				c.mu.Lock()
				delete(c.building, dir)
				c.mu.Unlock()
				mine.err = err
				close(mine.done)
			}, nil
		}
		c.mu.Unlock()
		select {
		case <-other.done:
			if other.err != nil && !errors.Is(other.err, context.Canceled) && !errors.Is(other.err, context.DeadlineExceeded) {
				return nil, other.err
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another build of the same environment: %w", ctx.Err())
		}
	}
}

// try creates an environment in a folder beside its place, again after transient
// errors until patience ends. The caller has the lock of the key: what another
// build of it left behind when it was killed is removed.
func (c *Cache) try(ctx context.Context, p Plugin, env dag.Environment, key, parent string, tell func(string)) (*Build, error) {
	stale, err := filepath.Glob(filepath.Join(parent, ".build-"+key+"-*"))
	if isInPlace(p) {
		place := filepath.Join(parent, key)
		err = errors.Join(err, forget(place)) // of one whose removal was cut off: before there is a folder again
		stale = append(stale, place)
	}
	for _, dir := range stale {
		err = errors.Join(err, safedir.Remove(dir))
	}
	if err != nil {
		return nil, fmt.Errorf("remove what a killed build left: %w", err)
	}
	started, pauses := time.Now(), backoff.Backoff{First: firstPause, Longest: lastPause, Steady: true}
	for n := 1; ; n++ {
		dir := filepath.Join(parent, key)
		if !isInPlace(p) {
			if dir, err = os.MkdirTemp(parent, ".build-"+key+"-"); err != nil {
				return nil, fmt.Errorf("make build folder: %w", err)
			}
		}
		b := &Build{Dir: dir, Place: filepath.Join(parent, key), tell: tell}
		if err = c.room.build(ctx, c.dir, func(ctx context.Context) error { return p.Create(ctx, env, b) }); err == nil {
			return b, nil
		}
		err = errors.Join(err, safedir.Remove(dir))
		var passing transient
		if ctx.Err() != nil || !errors.As(err, &passing) || !passing.Transient() {
			return nil, err
		}
		pause := pauses.Next()
		if time.Since(started)+pause > c.patience {
			return nil, fmt.Errorf("%w\ntried %d times in %s", err, n, time.Since(started).Round(time.Second))
		}
		b.Tell(fmt.Sprintf("try %d failed and is repeated: %v", n, err))
		if !backoff.Sleep(pause, ctx.Done()) {
			return nil, ctx.Err()
		}
	}
}

// isMade tells whether what a plugin makes in dir is there, whole.
func isMade(p Plugin, dir string) (bool, error) {
	if isInPlace(p) {
		if found, err := exists(dir + recordSuffix); err != nil || !found {
			return false, err
		}
	}
	return exists(dir)
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look into the cache: %w", err)
	}
	return true, nil
}

// lock takes the lock file alone, see lockFile.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	file, err := lockFile(ctx, path, flock.Exclusive)
	if err != nil {
		return nil, err
	}
	return func() { file.Close() }, nil
}

// lockFile takes the lock file alone or with others, waiting until ctx ends. The kernel
// frees it when its holder dies.
func lockFile(ctx context.Context, path string, mode flock.Mode) (*os.File, error) {
	file, err := flock.Wait(ctx, path, mode)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("wait for another build of the same environment: %w", err)
	}
	return file, err
}

// Delete removes what was made under a key of Activation.Keys. It is an error when
// it is in use, by this Cache too until Close.
func (c *Cache) Delete(key string) error {
	for _, p := range c.plugins {
		prefix := p.Name() + "-"
		if len(key) <= len(prefix) || key[:len(prefix)] != prefix || filepath.Base(key) != key {
			continue
		}
		removed, err := remove(environment{plugin: p, dir: filepath.Join(c.dir, p.Name(), key[len(prefix):])})
		if err == nil && !removed {
			err = errors.New("it is in use")
		}
		if err != nil {
			return fmt.Errorf("delete environment %s: %w", key, err)
		}
		return nil
	}
	return fmt.Errorf("delete environment %q: no plugin made it", key)
}
