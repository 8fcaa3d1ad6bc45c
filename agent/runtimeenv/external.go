package runtimeenv

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zeebo/blake3"

	"github.com/cascade-run/cascade/dag"
)

// Open returns the cache in dir with the external plugins of a folder; "" stands for the user's own.
func Open(dir, plugins string) (*Cache, error) {
	var err error
	if dir == "" {
		if dir, err = DefaultDir(); err != nil {
			return nil, err
		}
	}
	if plugins == "" {
		if plugins, err = DefaultPlugins(); err != nil {
			return nil, err
		}
	}
	external, err := External(plugins)
	if err != nil {
		return nil, err
	}
	return New(dir, external...), nil
}

// DefaultPlugins returns the folder of the user's external plugins.
func DefaultPlugins() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("find the user's folder of settings: %w", err)
	}
	return filepath.Join(dir, "cascade", "plugins"), nil
}

// pluginName is that of a plugin: of its program's file.
var pluginName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// External returns the plugins in a folder: each file that can be executed is one, by
// its name. Other files are passed over. Without the folder there are none.
func External(dir string) (all []Plugin, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("folder of plugins: %w", err)
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		info, err := os.Stat(path) // links are followed
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && pluginName.MatchString(entry.Name()) {
			all = append(all, newExternal(entry.Name(), path))
		}
	}
	return all, nil
}

// externalPlugin is a program that serves one request each time it is started: see exchange.go.
type externalPlugin struct {
	name, path string
	limits     exchangeLimits

	mu        sync.Mutex
	described *pluginAnswer // what it said of itself; nil: nothing yet
	failed    error         // why it did not when it was asked last
}

// defaultPriority is that of plugins which cannot say theirs: behind the built-in ones, and before variables.
const defaultPriority = 100

func newExternal(name, path string) *externalPlugin {
	return &externalPlugin{name: name, path: path, limits: exchangeLimits{answer: 30 * time.Second, create: time.Hour}}
}

// describe returns what the plugin says of itself, which it is asked until it has said it. After
// a failure it is asked anew only with again: that may take as long as an answer may.
func (p *externalPlugin) describe(again bool) (pluginAnswer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.described != nil {
		return *p.described, nil
	}
	if p.failed != nil && !again {
		return pluginAnswer{}, p.failed
	}
	a, err := p.ask(context.Background(), pluginRequest{Do: "describe"}, nil)
	if err == nil && a.Protocol != pluginProtocol {
		err = fmt.Errorf("plugin %s speaks protocol %d, this program %d", p.name, a.Protocol, pluginProtocol)
	}
	if err == nil && (a.Priority < 1 || a.Priority >= varsPriority) {
		err = fmt.Errorf("plugin %s has the priority %d, want 1 to %d", p.name, a.Priority, varsPriority-1)
	}
	if p.failed = err; err != nil {
		return pluginAnswer{}, err
	}
	p.described = &a
	return a, nil
}

// externalPrefix tells external plugins from built-in ones in keys and the cache.
const externalPrefix = "plugin-"

func (p *externalPlugin) Name() string { return externalPrefix + p.name }

// Priority is what the plugin says. One that does not say it fails to validate, which asks anew.
func (p *externalPlugin) Priority() int {
	a, err := p.describe(false)
	if err != nil {
		return defaultPriority
	}
	return a.Priority
}

// settings is what an environment says of the plugin.
func (p *externalPlugin) settings(env dag.Environment) (any, bool) {
	i := slices.IndexFunc(env.Plugins, func(f dag.Field) bool { return f.Name == p.name })
	if i < 0 {
		return nil, false
	}
	return env.Plugins[i].Value, true
}

func (p *externalPlugin) Applies(env dag.Environment) bool {
	_, ok := p.settings(env)
	return ok
}

func (p *externalPlugin) request(do string, env dag.Environment, dir string) pluginRequest {
	settings, _ := p.settings(env)
	return pluginRequest{Do: do, Environment: env.Name, Source: env.Source, Settings: settings, Dir: dir}
}

func (p *externalPlugin) Validate(env dag.Environment) error {
	if _, err := p.describe(true); err != nil {
		return err
	}
	_, err := p.ask(context.Background(), p.request("validate", env, ""), nil)
	return err
}

// validatePlugins finds settings of plugins that this cache does not have.
func (c *Cache) validatePlugins(env dag.Environment) (err error) {
	for _, f := range env.Plugins {
		has := func(p Plugin) bool {
			return p.Name() == externalPrefix+f.Name || p.Name() == f.Name && f.Name == dag.CondaPlugin
		}
		if !slices.ContainsFunc(c.plugins, has) {
			err = errors.Join(err, fmt.Errorf("plugin %s is not on this host: its program belongs into the agent's folder of plugins (cascade-agent --plugins)", f.Name))
		}
	}
	return err
}

// Describe is the names of the settings: any of their values may be a secret.
func (p *externalPlugin) Describe(env dag.Environment) string {
	settings, _ := p.settings(env)
	named, _ := settings.(map[string]any)
	return strings.Join(slices.Sorted(maps.Keys(named)), " ")
}

// Key hashes what the plugin says: of whatever form it is, it names a folder.
func (p *externalPlugin) Key(ctx context.Context, env dag.Environment) (string, error) {
	a, err := p.ask(ctx, p.request("key", env, ""), nil)
	if err != nil {
		return "", err
	}
	if a.Key == "" {
		return "", fmt.Errorf("plugin %s gave no key", p.name)
	}
	h := hasher{blake3.New()}
	h.text("cascade external plugin 1", p.name, a.Key)
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

func (p *externalPlugin) Create(ctx context.Context, env dag.Environment, b *Build) error {
	req := p.request("create", env, b.Dir)
	req.Place = b.Place
	a, err := p.ask(ctx, req, b.Tell)
	b.Packages = a.Packages
	return err
}

// Activate takes variables, and folders for the front of PATH.
func (p *externalPlugin) Activate(env dag.Environment, dir string, act *Activation) error {
	a, err := p.ask(context.Background(), p.request("activate", env, dir), nil)
	if err != nil {
		return err
	}
	if err := (varsPlugin{}).Validate(dag.Environment{Vars: a.Env}); err != nil {
		return fmt.Errorf("plugin %s: %w", p.name, err)
	}
	for _, folder := range a.Path {
		if !filepath.IsAbs(folder) || strings.ContainsAny(folder, ":\x00") {
			return fmt.Errorf("plugin %s puts %q into PATH: want an absolute path", p.name, folder)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.Env)) {
		act.setVar(name, a.Env[name])
	}
	if len(a.Path) > 0 {
		act.addPath(a.Path...)
	}
	return nil
}

func (p *externalPlugin) Delete(dir string) error {
	_, err := p.ask(context.Background(), pluginRequest{Do: "delete", Dir: dir}, nil)
	return err
}

// addPath puts folders to the front of PATH.
func (act *Activation) addPath(folders ...string) {
	rest := os.Getenv("PATH")
	for _, kv := range act.Env {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			rest = value
		}
	}
	act.setVar("PATH", strings.Join(append(folders, rest), string(filepath.ListSeparator)))
}
