//go:build linux

package python_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/agent/runtimeenv"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/testing/pyenv"
)

// riscv is the header of a program for another platform than this host's.
const riscv = "\x7fELF\x02\x01\x01\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" + "\x03\x00\xf3\x00\x01\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x40\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00"

// The Python client packs what the Go client packs, to the bit: a package has one name.
func TestPackages(t *testing.T) {
	pyenv.Python(t)
	job := t.TempDir()
	for name, text := range map[string]string{
		"work/data.txt": strings.Repeat("d", 300), "work/empty": "", "work/tilde~": "", "work/größe.txt": "ä", "work/\xff.bin": "b",
		"work/.cascadeignore": "*.log\n!keep.log\n/top\nsub/*.tmp\n**/deep/x\nfolder/\n[a-c]?.y\n[^a]z\n\\#hash\n[bad\nq[\\]]\n# comment\n  \n",
		"work/x.log":          "", "work/keep.log": "", "work/top": "", "work/sub/top": "", "work/sub/a.tmp": "", "work/sub/sub/a.tmp": "",
		"work/a/deep/x": "", "work/deep/y": "", "work/folder/in": "", "work/sub/folder": "", "work/ab.y": "", "work/dd.y": "",
		"work/az": "", "work/bz": "", "work/#hash": "", "work/[bad": "", "work/q]": "", "work/__pycache__/x.pyc": "", "work/.git/HEAD": "",
		"work/bin/run": "#!", "tool": "#!tool", "built": riscv, "pack/__init__.py": "", "pack/inner.py": "", "lib/one.py": "1", "single.py": "2", "archive.zip": "PK\x05\x06" + strings.Repeat("\x00", 18),
	} {
		path := filepath.Join(job, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"work/bin/run", "tool", "built"} {
		if err := os.Chmod(filepath.Join(job, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"work/link": "data.txt", "work/sub/up": "../bin", "work/nowhere": "gone", "linked": "work"} {
		if err := os.Symlink(target, filepath.Join(job, name)); err != nil {
			t.Fatal(err)
		}
	}
	modules := []string{"pack", "lib", "single.py", "archive.zip", "/not/here", "linked"}
	var p runtimeenv.Packer
	want, err := p.Pack(t.Context(), dag.Environment{Name: "e", Source: job, WorkingDir: "work", Binary: "tool", PyModules: modules})
	if err != nil {
		t.Fatal(err)
	}
	built, err := p.Pack(t.Context(), dag.Environment{Name: "built", Source: job, Binary: "built"})
	if err != nil {
		t.Fatal(err)
	}
	both := []dag.Binary{{Platform: "linux/amd64", Path: "tool"}, {Platform: "linux/riscv64", Path: "built"}}
	several, err := p.Pack(t.Context(), dag.Environment{Name: "several", Source: job, Binaries: both})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{
		"e":       map[string]any{"working_dir": "work", "binary": "tool", "py_modules": modules, "env": map[string]string{"A": "b"}},
		"built":   map[string]any{"binary": "built"},
		"several": map[string]any{"binary": map[string]string{both[0].Platform: both[0].Path, both[1].Platform: both[1].Path}},
	})
	if err != nil {
		t.Fatal(err)
	}
	python, env := interpreter(t)
	cmd := exec.CommandContext(t.Context(), python, "testdata/packages.py", job)
	var errs bytes.Buffer
	cmd.Stdin, cmd.Stderr, cmd.Env = bytes.NewReader(text), &errs, append(env, "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	var got map[string]struct {
		WorkingDir string   `json:"working_dir"`
		Binary     any      `json:"binary"`
		PyModules  []string `json:"py_modules"`
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	have := got["e"]
	if have.WorkingDir != want.WorkingDir || have.Binary != want.Binary {
		t.Errorf("Python names\n%s %s, Go\n%s %s", have.WorkingDir, have.Binary, want.WorkingDir, want.Binary)
	}
	for _, env := range []dag.Environment{built, several} {
		binaries := map[string]any{}
		for _, b := range env.Binaries {
			binaries[b.Platform] = b.Path
		}
		if len(binaries) == 0 || !reflect.DeepEqual(got[env.Name].Binary, any(binaries)) {
			t.Errorf("Python has the binaries %v, Go %v", got[env.Name].Binary, binaries)
		}
	}
	for i := range modules {
		if i >= len(have.PyModules) || have.PyModules[i] != want.PyModules[i] {
			t.Errorf("Python names %s\n%s, Go\n%s", modules[i], have.PyModules, want.PyModules[i])
		}
	}
}
