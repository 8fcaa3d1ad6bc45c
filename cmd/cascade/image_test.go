//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cascade-run/cascade/internal/testing/smallfs"
	"github.com/cascade-run/cascade/internal/testing/tier"
)

// upper writes a file in capitals.
const (
	upperInGo = `package main

import (
	"bytes"
	"os"
)

func main() {
	text, err := os.ReadFile(os.Args[1])
	if err != nil || os.WriteFile(os.Args[2], bytes.ToUpper(text), 0o600) != nil {
		os.Exit(3)
	}
}
`
	upperInC = `#include <ctype.h>
#include <stdio.h>

int main(int n, char **args) {
	FILE *in = fopen(args[1], "r"), *out = fopen(args[2], "w");
	if (n != 3 || !in || !out) return 3;
	for (int c; (c = getc(in)) != EOF;) putc(toupper(c), out);
	return fclose(out) != 0;
}
`
)

// Commands run in images that have not the host's C library: those of one with musl, as
// Alpine has it, and those of one with none.
func TestImagesWithoutTheLibrary(t *testing.T) {
	tier.Nightly(t, "needs musl")
	if os.Geteuid() != 0 {
		t.Skip("takes root, or user namespaces")
	}
	build := func(t *testing.T, variable string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Env = append(os.Environ(), variable)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", args, err, out)
		}
	}
	programs := t.TempDir()
	build(t, "CGO_ENABLED=0", "go", "build", "-o", filepath.Join(programs, "static"), ".")
	for name, image := range map[string]func(t *testing.T, dir string){
		"musl": func(t *testing.T, dir string) {
			if _, err := exec.LookPath("musl-gcc"); err != nil && os.Getenv("CASCADE_REQUIRE_MUSL") == "" {
				t.Skip("no programs with musl here (Debian has them in musl-tools): ", err)
			}
			source := filepath.Join(t.TempDir(), "upper.c")
			if err := os.WriteFile(source, []byte(upperInC), 0o600); err != nil {
				t.Fatal(err)
			}
			build(t, "LC_ALL=C", "musl-gcc", "-o", filepath.Join(dir, "bin", "upper"), source)
			loaders, err := filepath.Glob("/lib/ld-musl-*.so.1")
			if err != nil || len(loaders) == 0 {
				t.Fatalf("musl's loader is not in /lib: %v", err)
			}
			build(t, "LC_ALL=C", "cp", "--dereference", loaders[0], filepath.Join(dir, "lib"))
		},
		"none": func(t *testing.T, dir string) {
			source := filepath.Join(t.TempDir(), "upper.go")
			if err := os.WriteFile(source, []byte(upperInGo), 0o600); err != nil {
				t.Fatal(err)
			}
			build(t, "CGO_ENABLED=0", "go", "build", "-o", filepath.Join(dir, "bin", "upper"), source)
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := t.TempDir()
			for _, dir := range []string{"bin", "lib"} {
				if err := os.Mkdir(filepath.Join(files, dir), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			image(t, files)
			smallfs.FakePodman(t, files, name)
			h := newHost(t)
			h.write("job.yaml", `job: image
environments:
  small: {container: localhost/cascade-test}
tasks:
  make: {command: "printf 'of the host' > ${out.x}", out: [x]}
  read: {command: [upper, "${in.x}", "${out.y}"], environment: small, in: {x: make.x}, out: [y]}
  back: {command: "cat ${in.y} > ${out.z}", in: {y: read.y}, out: [z]}
outputs: [{from: back.z, to: z.txt}]
`)
			cmd := exec.CommandContext(t.Context(), filepath.Join(programs, "static"), "run", "job.yaml")
			cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+t.TempDir(), "CASCADE_STATE="+h.state)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if text, err := os.ReadFile("z.txt"); err != nil || string(text) != "OF THE HOST" {
				t.Errorf("the output has %q, %v", text, err)
			}
		})
	}
}
