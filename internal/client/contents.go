package client

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/zeebo/blake3"

	"github.com/cascade-run/cascade/agent/runtimeenv"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/memo"
)

// contentsOf hashes what the tasks of a graph rest on outside of it: environments that are
// more than packages, this program, and the files that tasks name. Folders are not looked into.
func contentsOf(ctx context.Context, g *dag.Graph, dir string) (all []comms.Content, err error) {
	used, own := map[string]bool{}, false
	for i := range g.Groups {
		r := &g.Groups[i].Run
		used[r.Environment] = true
		own = own || r.Environment == "" && r.Function != "" && !g.Groups[i].IsInput()
	}
	add := func(name string, h comms.Hash) { all = append(all, comms.Content{Name: name, Hash: h}) }
	for _, env := range g.Environments {
		if !used[env.Name] || !memo.Outside(&env) {
			continue
		}
		if !filepath.IsAbs(env.Source) {
			env.Source = filepath.Join(dir, env.Source) // as the agent does
		}
		h, err := environmentHash(ctx, env)
		if err != nil {
			return nil, err
		}
		add(memo.Environment+env.Name, h)
	}
	if own {
		path, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
		h, err := fileHash(path)
		if err != nil {
			return nil, err
		}
		add(memo.Program, h)
	}
	memo.Files(g, func(path string) bool {
		at := path
		if !filepath.IsAbs(at) {
			at = filepath.Join(dir, at)
		}
		info, statErr := os.Stat(at)
		if statErr != nil || !info.Mode().IsRegular() {
			return true
		}
		var h comms.Hash
		if h, err = fileHash(at); err == nil {
			add(memo.File+path, h)
		} else if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			err = nil // gone meanwhile, or nothing that a task could read
		}
		return err == nil && ctx.Err() == nil
	})
	add(memo.Noted, "")
	if err == nil {
		err = context.Cause(ctx)
	}
	return memo.Sorted(all), err
}

// environmentHash is of all that an environment is made of.
func environmentHash(ctx context.Context, env dag.Environment) (comms.Hash, error) {
	cache, err := runtimeenv.Open("", "")
	if err != nil {
		return "", err
	}
	var keys []string
	for _, one := range each(env) {
		key, e := cache.Key(ctx, one)
		keys, err = append(keys, key), errors.Join(err, e)
	}
	if err = errors.Join(err, cache.Close()); err != nil {
		return "", err
	}
	sum := blake3.Sum256([]byte(strings.Join(keys, "\n")))
	return comms.Hash(append([]byte{comms.HashBLAKE3}, sum[:]...)), nil
}

// each returns what an environment is on hosts of the platforms that it names, in order;
// itself, when it names none.
func each(env dag.Environment) (all []dag.Environment) {
	binaries := env.Binaries
	env.Binaries = nil
	for _, b := range binaries {
		env.Binary = b.Path
		all = append(all, env)
	}
	if all == nil {
		all = append(all, env)
	}
	return all
}

func fileHash(path string) (comms.Hash, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("hash a file that the job names: %w", err)
	}
	defer f.Close()
	h := sha256.New() // which every client has
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("hash file %s: %w", path, err)
	}
	return comms.Hash(append([]byte{comms.HashSHA256}, h.Sum(nil)...)), nil
}
