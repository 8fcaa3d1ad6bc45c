package runtimeenv

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/cascade-run/cascade/dag"
)

// ThisPlatform is the platform of this process, as dag.Binary has it.
const ThisPlatform = runtime.GOOS + "/" + runtime.GOARCH

// binaryPlugin starts a program that is an executor, a copy of it: who builds it
// anew changes no program that runs. Of an environment that has one for each of some
// platforms it knows that of this host.
type binaryPlugin struct{ cache *Cache }

func (binaryPlugin) Name() string                     { return "binary" }
func (binaryPlugin) Priority() int                    { return 10 }
func (binaryPlugin) Applies(env dag.Environment) bool { return env.Kind() == "binary" }
func (binaryPlugin) Delete(string) error              { return nil }

// Describe names the program.
func (p binaryPlugin) Describe(env dag.Environment) string { return env.BinaryFor(p.platform()) }

func (p binaryPlugin) platform() string {
	if p.cache == nil {
		return ThisPlatform
	}
	return cmp.Or(p.cache.platform, ThisPlatform)
}

// Validate finds that there is none for this host, or no program where it should be.
func (p binaryPlugin) Validate(env dag.Environment) error {
	text := env.BinaryFor(p.platform())
	if text == "" {
		return fmt.Errorf("binary: there is none for %s, the platform of this host, but for %s", p.platform(), strings.Join(env.Platforms(), ", "))
	}
	return checkProgram(env, text)
}

func checkProgram(env dag.Environment, text string) error {
	return checkSource("binary", env, text, func(info fs.FileInfo) bool {
		return info.Mode().IsRegular() && info.Mode()&0o111 != 0
	}, "want a file that can be executed")
}

// Key hashes the program.
func (p binaryPlugin) Key(_ context.Context, env dag.Environment) (string, error) {
	return treeKey("binary", env, env.BinaryFor(p.platform()))
}

// Create fetches or copies the program.
func (p binaryPlugin) Create(ctx context.Context, env dag.Environment, b *Build) error {
	text := env.BinaryFor(p.platform())
	if pkg, ok := dag.ParsePackage(text); ok {
		if err := p.cache.unpackPackage(ctx, pkg, b.Dir); err != nil {
			return fmt.Errorf("binary: %w", err)
		}
		return nil
	}
	if err := copyFile(absoluteIn(env.Source, text), filepath.Join(b.Dir, binaryName), 0o500); err != nil {
		return fmt.Errorf("binary: %w", err)
	}
	return nil
}

// Activate starts the program.
func (binaryPlugin) Activate(_ dag.Environment, dir string, act *Activation) error {
	act.Command = []string{filepath.Join(dir, binaryName)}
	return nil
}
