package runtimeenv

import (
	"testing"

	"github.com/cascade-run/cascade/dag"
)

// What is removed is told to be needed for a replay, unless what is made anew is the same.
func TestReplay(t *testing.T) {
	const anew = "a replay resolves "
	for _, c := range []struct {
		plugin, what string
		packages     []string
		want         string
	}{
		{"python", "", nil, ""},
		{"python", "numpy<2", []string{"numpy 1.26.4"}, anew + "numpy<2 anew and may get other versions than numpy 1.26.4"},
		{"python", "numpy==1.26.4", []string{"numpy 1.26.4"}, ""},
		{"python", "numpy==1.26.*", []string{"numpy 1.26.4"}, anew + "numpy==1.26.* anew and may get other versions than numpy 1.26.4"},
		{"python", "zope-interface==6.0 Ruff[all]==1", []string{"zope.interface 6.0", "ruff 1"}, ""},
		{"python", "xarray==2024.1.0", []string{"numpy 1.26.4", "xarray 2024.1.0"},
			anew + "xarray==2024.1.0 anew and may get other versions than numpy 1.26.4, xarray 2024.1.0"},
		{dag.CondaPlugin, "cdo==2.4.4", []string{"cdo 2.4.4"}, ""},
		{dag.CondaPlugin, "cdo==2.4.4", []string{"cdo 2.4.4", "hdf5 1.14"}, anew + "cdo==2.4.4 anew and may get other versions than cdo 2.4.4, hdf5 1.14"},
		{"container", "localhost/model:3", nil, "a replay takes the image that localhost/model:3 names by then"},
		{"container", "localhost/model@sha256:00", nil, ""},
		{"working_dir", "steps", nil, "a replay needs steps in /job as it was"},
		{externalPrefix + "licences", "", nil, "a replay makes it anew by the plugin licences"},
		{"uv", "uv==1", []string{"uv 1"}, ""},
	} {
		if got := (Record{Plugin: c.plugin, What: c.what, Packages: c.packages, Source: "/job"}).Replay(); got != c.want {
			t.Errorf("%s %q with %q: %q, want %q", c.plugin, c.what, c.packages, got, c.want)
		}
	}
}
