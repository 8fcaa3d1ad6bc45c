package dag

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Package names files by the hash of their bytes: what a client has sent ahead of
// its job. In a job it stands in the place of a path, so that the job means the
// same on every host.
type Package struct {
	Hash string // SHA-256 of the whole, in hexadecimal
	Name string // of the file or folder that it was, for people
}

const (
	packageScheme = "package:"
	packageHash   = packageScheme + "sha256:"
	hashDigits    = 64
)

// String writes package:sha256:HASH/NAME, the form that stands in a job.
func (p Package) String() string { return packageHash + p.Hash + "/" + p.Name }

// ParsePackage reads the form that String writes; ok is false for other text, a path.
func ParsePackage(text string) (p Package, ok bool) {
	rest, ok := strings.CutPrefix(text, packageHash)
	if !ok {
		return Package{}, false
	}
	p.Hash, p.Name, ok = strings.Cut(rest, "/")
	ok = ok && isSHA256(p.Hash) &&
		p.Name != "" && p.Name != "." && p.Name != ".." && !strings.ContainsAny(p.Name, "/\\\x00")
	if !ok {
		return Package{}, false
	}
	return p, true
}

// isSHA256 tells whether a text is a SHA-256 in hexadecimal, in the one form that
// equal hashes have.
func isSHA256(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(s) == hashDigits && hex.EncodeToString(b) == s
}

// checkPackage refuses text that begins like the name of a package and is none.
func checkPackage(text string) error {
	if _, ok := ParsePackage(text); ok || !strings.HasPrefix(text, packageScheme) {
		return nil
	}
	return mistake(fmt.Sprintf("%q is no package", clip(text)), "write "+packageHash+"HASH/NAME with 64 digits, or a path that does not begin with "+packageScheme)
}

// files are the places of an environment where a path or a package stands.
func (e *Environment) files() []string {
	all := append([]string{e.Binary, e.WorkingDir}, e.PyModules...)
	for _, b := range e.Binaries {
		all = append(all, b.Path)
	}
	return all
}

// Packages returns the packages that the job needs, each once, in order: those of
// its environments, and the files of its inputs that the cluster keeps.
func (g *Graph) Packages() (all []Package) {
	seen := map[string]bool{}
	add := func(p Package) {
		if !seen[p.Hash] {
			seen[p.Hash] = true
			all = append(all, p)
		}
	}
	for i := range g.Environments {
		for _, text := range g.Environments[i].files() {
			if p, ok := ParsePackage(text); ok {
				add(p)
			}
		}
	}
	inputs := g.InputGroups()
	for i := range inputs {
		for _, f := range inputs[i].Files {
			if f.Kept {
				add(Package{Hash: f.SHA256, Name: f.Path[strings.LastIndexByte(f.Path, '/')+1:]})
			}
		}
	}
	return all
}

// WithEnvironments returns the graph with other environments of the same names,
// for a client that has sent their files ahead.
func (g *Graph) WithEnvironments(envs []Environment) (*Graph, error) {
	if !slices.EqualFunc(g.Environments, envs, func(a, b Environment) bool { return a.Name == b.Name }) {
		return nil, fmt.Errorf("graph %q: other environments than its own", g.Name)
	}
	for i := range envs {
		if err := checkEnvironment(&envs[i]); err != nil {
			return nil, fmt.Errorf("environment %q: %w", envs[i].Name, err)
		}
	}
	out := *g
	out.Environments = envs
	return &out, nil
}
