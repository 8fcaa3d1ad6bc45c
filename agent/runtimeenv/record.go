package runtimeenv

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/outfile"
)

// Record says what was made under a key, for people and for Prune. It lies beside
// the folder: KEY.json.
type Record struct {
	Plugin   string    `json:"plugin"`           // that made it
	Key      string    `json:"key"`              // in the plugin
	Name     string    `json:"name"`             // of the environment that asked first
	What     string    `json:"what"`             // what it asked for
	Source   string    `json:"source,omitempty"` // the folder that its paths referred to
	Packages []string  `json:"packages"`         // NAME VERSION of what was installed
	Made     time.Time `json:"made"`             // when its build began
	Seconds  float64   `json:"seconds"`          // how long it took
	Bytes    int64     `json:"bytes"`            // of its files; what it shares by hard links counts for each
	Used     time.Time `json:"used,omitzero"`    // last; not in the file
	InUse    bool      `json:"in_use,omitempty"` // by a living process; not in the file
}

// ID names what was made, as in Activation.Keys.
func (r Record) ID() string { return r.Plugin + "-" + r.Key }

// Replay says what a run with the removed environment would need to be the same as before;
// "" when it would be: the environment is then built anew.
func (r Record) Replay() string {
	switch r.Plugin {
	case "python", dag.CondaPlugin:
		if r.What != "" && !pinned(strings.Fields(r.What), r.Packages) {
			return "a replay resolves " + r.What + " anew and may get other versions than " + strings.Join(r.Packages, ", ")
		}
	case "container":
		if !strings.Contains(r.What, "@") {
			return "a replay takes the image that " + r.What + " names by then"
		}
	case "working_dir", "py_modules", "binary", "go":
		paths := slices.DeleteFunc(strings.Fields(r.What), func(text string) bool {
			_, ok := dag.ParsePackage(text)
			return ok // the controller keeps it as long as a job names it
		})
		if len(paths) > 0 {
			return "a replay needs " + strings.Join(paths, " ") + " in " + r.Source + " as it was"
		}
	}
	if name, ok := strings.CutPrefix(r.Plugin, externalPrefix); ok {
		return "a replay makes it anew by the plugin " + name
	}
	return ""
}

// pinned tells whether requirements name the version of each package that was installed,
// also of those that others need.
func pinned(requirements, packages []string) bool {
	exact := map[string]bool{}
	for _, text := range requirements {
		name, version, _ := strings.Cut(text, "==")
		name, _, _ = strings.Cut(name, "[") // extras
		exact[packageName(name)+" "+version] = true
	}
	return !slices.ContainsFunc(packages, func(p string) bool {
		name, version, _ := strings.Cut(p, " ")
		return !exact[packageName(name)+" "+version]
	})
}

// packageName is a name in the form in which those of one package are equal.
func packageName(name string) string {
	return strings.NewReplacer("_", "-", ".", "-").Replace(strings.ToLower(name))
}

// describer says in few words what a plugin makes for an environment.
type describer interface {
	Describe(env dag.Environment) string
}

func describe(p Plugin, env dag.Environment) string {
	if d, ok := p.(describer); ok {
		return d.Describe(env)
	}
	return ""
}

const recordSuffix = ".json"

func (r Record) write(dir string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("note what was made: %w", err)
	}
	if err := outfile.Replace(dir+recordSuffix, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("note what was made: %w", err)
	}
	return nil
}

// readRecord returns what is noted of dir; of one without a note what can be seen.
func readRecord(plugin, dir string) Record {
	r := Record{Plugin: plugin, Key: filepath.Base(dir), Bytes: -1}
	if text, err := os.ReadFile(dir + recordSuffix); err == nil {
		_ = json.Unmarshal(text, &r) // a note that cannot be read is as good as none
	}
	if r.Bytes < 0 {
		r.Bytes = sizeOf(dir)
	}
	return r
}

func (c *Cache) bytesOf(dir string) int64 {
	return readRecord(filepath.Base(filepath.Dir(dir)), dir).Bytes
}

// forget removes what is noted of dir.
func forget(dir string) error {
	if err := os.Remove(dir + recordSuffix); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
