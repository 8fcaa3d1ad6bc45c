package cascade_test

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestPlatforms type-checks the programs, and all of ours that they import, for the platforms on which the tests do not run: to
// build them takes minutes, which the nightly tests do.
func TestPlatforms(t *testing.T) {
	for _, row := range []struct{ os, arch, programs string }{
		{"linux", "arm64", "./cmd/..."},
		{"darwin", "arm64", "./cmd/cascade"},
	} {
		t.Run(row.os+"/"+row.arch, func(t *testing.T) {
			t.Parallel()
			load := func(mode packages.LoadMode, patterns ...string) []*packages.Package {
				t.Helper()
				env := append(os.Environ(), "GOOS="+row.os, "GOARCH="+row.arch, "CGO_ENABLED=0")
				all, err := packages.Load(&packages.Config{Mode: mode | packages.NeedName | packages.NeedImports | packages.NeedDeps, Env: env}, patterns...)
				if err != nil {
					t.Fatal(err)
				}
				return all
			}
			var ours []string // of what is not named, bodies of functions are not checked
			packages.Visit(load(0, row.programs), nil, func(p *packages.Package) {
				if strings.HasPrefix(p.PkgPath, "github.com/cascade-run/cascade") {
					ours = append(ours, p.PkgPath)
				}
			})
			if len(ours) < 20 {
				t.Errorf("it imports %d packages of ours", len(ours))
			}
			all := load(packages.NeedFiles|packages.NeedTypes|packages.NeedSyntax|packages.NeedTypesInfo, ours...)
			packages.Visit(all, nil, func(p *packages.Package) {
				for _, e := range p.Errors {
					t.Error(e)
				}
			})
		})
	}
}
