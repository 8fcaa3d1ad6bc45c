package runtimeenv

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/outfile"
	"github.com/cascade-run/cascade/internal/safedir"
)

// interpreter is a Python of this host.
type interpreter struct {
	Path           string // of the executable, outside of any virtual environment
	Implementation string // "cpython"
	Version        string // "3.11.7"
	Platform       string // "linux-x86_64", and what else decides which wheels fit
}

// How long is waited, and what is heard counts.
const (
	foundTimeout = time.Minute     // for one interpreter to say what it is
	scriptAge    = 5 * time.Minute // how long what a script said counts: it depends on more than its file
)

// probe is what an interpreter is asked. Its words are few, so that its start is all it costs.
const probe = `import json, os, sys, sysconfig
json.dump({"Path": os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable),
  "Implementation": sys.implementation.name,
  "Version": "%d.%d.%d" % sys.version_info[:3] + ("" if sys.version_info[3] == "final" else sys.version_info[3][:1] + str(sys.version_info[4])),
  "Platform": sysconfig.get_platform() + getattr(sys, "abiflags", "")}, sys.stdout)`

// interpreters finds the Pythons of a host and remembers what each said, as long
// as its file stays the same; in memory, and for the next process in a file.
type interpreters struct {
	file string // where to remember

	mu    sync.Mutex
	known map[string]known // by path
}

// known is what a candidate said when its file was as noted.
type known struct {
	Size  int64
	Time  time.Time
	Asked time.Time // of a script
	late  bool      // it did not answer in time: that says nothing
	interpreter
	Err string // instead
}

// find returns the first interpreter that a specification admits: those that
// CASCADE_PYTHON lists, then the python3 of PATH, then the others, newest first.
func (in *interpreters) find(ctx context.Context, spec string) (interpreter, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.load()
	want, err := parseSpec(spec)
	if err != nil {
		return interpreter{}, err
	}
	first := preferred()
	for _, path := range first {
		it := in.ask(ctx, path)
		if it.late { // another one instead would be another environment
			return interpreter{}, lateAnswer(path)
		}
		if it.Err == "" && it.fits(want) {
			return it.interpreter, nil
		}
	}
	var all []known
	for _, path := range others(first) {
		it := in.ask(ctx, path)
		if it.late {
			return interpreter{}, lateAnswer(path)
		}
		if it.Err == "" && suffix(it.Version) == "" { // pre-releases are for those who name them
			all = append(all, it)
		}
	}
	slices.SortStableFunc(all, func(a, b known) int { return compareVersions(b.Version, a.Version) })
	for _, it := range all {
		if it.fits(want) {
			return it.interpreter, nil
		}
	}
	return interpreter{}, in.none(spec, first, all)
}

func lateAnswer(path string) error {
	return fmt.Errorf("python: %s does not say in %s which Python it is", path, foundTimeout)
}

func (in *interpreters) none(spec string, first []string, all []known) error {
	var seen, said []string
	for _, path := range first {
		all = append([]known{in.known[path]}, all...)
	}
	for _, it := range all {
		text := it.Version + " (" + it.Path + ")"
		if it.Err == "" && !slices.Contains(said, text) {
			said = append(said, text)
		}
	}
	slices.Sort(said)
	if len(said) > 0 {
		seen = append(seen, "found: "+strings.Join(said, ", "))
	} else {
		seen = append(seen, "none was found")
	}
	what := dag.OldestPython + " or later"
	if spec != "" {
		what = spec
	}
	return fmt.Errorf("python: this host has no interpreter for %s; %s. Install one, put it on PATH, or name it in the agent's CASCADE_PYTHON", what, seen[0])
}

// fits tells whether an interpreter is admitted: a CPython that is not too old.
func (k known) fits(want []specifier) bool {
	return k.Implementation == "cpython" && compareVersions(k.Version, dag.OldestPython) >= 0 && admits(want, k.Version)
}

var pythonName = regexp.MustCompile(`^python3(\.[0-9]+)?$`)

// preferred lists the interpreters to be asked first.
func preferred() (paths []string) {
	for _, path := range filepath.SplitList(os.Getenv("CASCADE_PYTHON")) {
		paths = addProgram(paths, nil, path)
	}
	if path, err := exec.LookPath("python3"); err == nil {
		paths = addProgram(paths, nil, path)
	}
	return paths
}

// addProgram adds a path that can be executed and is not there yet.
func addProgram(paths, not []string, path string) []string {
	if slices.Contains(paths, path) || slices.Contains(not, path) {
		return paths
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return paths
	}
	return append(paths, path)
}

// others lists what else may be an interpreter.
func others(not []string) (paths []string) {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // PATH may name folders that are not there
		}
		for _, e := range entries {
			if pythonName.MatchString(e.Name()) {
				paths = addProgram(paths, not, filepath.Join(dir, e.Name()))
			}
		}
	}
	home, _ := os.UserHomeDir()
	for _, pattern := range []string{
		filepath.Join(cmp.Or(os.Getenv("PYENV_ROOT"), filepath.Join(home, ".pyenv")), "versions", "3.*", "bin", "python3"),
		filepath.Join(cmp.Or(os.Getenv("UV_PYTHON_INSTALL_DIR"), filepath.Join(home, ".local", "share", "uv", "python")), "cpython-*", "bin", "python3"),
	} {
		found, _ := filepath.Glob(pattern) // errs on bad patterns alone
		for _, path := range found {
			paths = addProgram(paths, not, path)
		}
	}
	return paths
}

// ask returns what a candidate says of itself.
func (in *interpreters) ask(ctx context.Context, path string) known {
	info, err := os.Stat(path)
	if err != nil {
		return known{Err: err.Error()}
	}
	if k, ok := in.known[path]; ok && k.Size == info.Size() && k.Time.Equal(info.ModTime()) &&
		(k.Asked.IsZero() || time.Since(k.Asked) < scriptAge) {
		if _, err := os.Stat(k.Path); k.Err != "" || err == nil {
			return k
		}
	}
	k := known{Size: info.Size(), Time: info.ModTime()}
	if !isELF(path) {
		k.Asked = time.Now()
	}
	k.interpreter, err = askInterpreter(ctx, path)
	if err != nil {
		k.Err, k.late = err.Error(), errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil
	}
	if !k.late {
		in.known[path] = k
		in.store()
	}
	return k
}

func askInterpreter(ctx context.Context, path string) (it interpreter, err error) {
	ctx, cancel := context.WithTimeout(ctx, foundTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "-I", "-c", probe)
	cmd.Dir = string(filepath.Separator) // some shims look for a version file in the working folder
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return it, fmt.Errorf("ask %s which Python it is: %w", path, cmp.Or(ctx.Err(), err))
	}
	if err := json.Unmarshal(bytes.TrimSpace(out), &it); err != nil {
		return it, fmt.Errorf("ask %s which Python it is: %w", path, err)
	}
	return it, nil
}

// load reads what an earlier process of this user found out: it names programs that we run.
func (in *interpreters) load() {
	if in.known != nil {
		return
	}
	in.known = map[string]known{}
	if safedir.Own(filepath.Dir(in.file)) != nil { // builds in it say so
		in.file = ""
		return
	}
	text, err := readOwn(in.file)
	if err == nil && json.Unmarshal(text, &in.known) != nil {
		in.known = map[string]known{} // it is asked again
	}
}

// readOwn reads a file of this user.
func readOwn(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var is unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &is); err != nil {
		return nil, err
	}
	if int(is.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("%s belongs to user %d", path, is.Uid)
	}
	return io.ReadAll(f)
}

// store is best effort: without the file the next process asks again.
func (in *interpreters) store() {
	text, err := json.Marshal(in.known)
	if err != nil || in.file == "" {
		return
	}
	_ = outfile.Replace(in.file, text, 0o600)
}

func isELF(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var magic [4]byte
	n, _ := f.Read(magic[:])
	return n == 4 && string(magic[:]) == "\x7fELF"
}
