package planner

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/profiles"
)

const gib = 1 << 30

// withDevices are hosts of four cores, each with devices of so many GiB; 0 is unknown,
// and a host of none is of an older version, with two that it does not name.
func withDevices(each ...[]int64) (all []Host) {
	for i, sizes := range each {
		h := Host{Name: fmt.Sprintf("h%d", i), CPU: 4000, GPU: 2000}
		for k, n := range sizes {
			h.Devices, h.GPU = append(h.Devices, Device{Memory: n * gib}), int64(k+1)*1000
		}
		all = append(all, h)
	}
	return all
}

func TestDevicesOfHosts(t *testing.T) {
	old := []int64(nil)
	for _, tt := range []struct {
		need  string
		hosts []Host
		says  string
	}{
		{"gpu: 1", withDevices(old), ""},
		{"gpu: 2", withDevices([]int64{8}, []int64{8, 0}), ""},
		{"gpu: 1, gpu_memory: 10GiB", withDevices([]int64{8, 8}, []int64{8, 16}), ""},
		{"gpu: 0.5, gpu_memory: 10GiB", withDevices([]int64{0}), ""},
		{"gpu: 3, gpu_memory: 1GiB", withDevices([]int64{8, 8}, old), "it needs gpu 3 (the largest host has 2)"},
		{"gpu: 1, gpu_memory: 1GiB", withDevices(old), "it needs gpu_memory 1 GiB (hosts with so many do not say what memory theirs have: their agents are of an older version)"},
		{"gpu: 0.2, gpu_memory: 10GiB", withDevices([]int64{8, 8}, old, []int64{9, 4}), "it needs gpu_memory 10 GiB (host h2 comes nearest with 9 GiB: up to that it would fit there)"},
		{"gpu: 2, gpu_memory: 10GiB", withDevices([]int64{8, 9}, []int64{16, 4}), "it needs gpu_memory 10 GiB on each of 2 devices (host h0 comes nearest with 8 GiB: up to that it would fit there)"},
		{"cpu: 8, gpu: 1", withDevices([]int64{8}), "it needs cpu 8 (the largest host has 4)"},
	} {
		g := parse(t, fmt.Sprintf("job: d\ntasks:\n  a: {command: \"true\", resources: {%s}}\n", tt.need))
		want := ""
		if tt.says != "" {
			want = "task a: no host has enough: " + tt.says
		}
		if got := Unfit(g, tt.hosts, true); got != want {
			t.Errorf("%s: it says %q, want %q", tt.need, got, want)
		}
		p, err := Make(g, profiles.Snapshot{}, Cluster{Hosts: tt.hosts})
		if err != nil {
			t.Fatal(err)
		}
		if placed := p.Tasks[0].Host >= 0; placed != (want == "") {
			t.Errorf("%s: placed is %t", tt.need, placed)
		}
		if reason := p.Reason(g, 0); want != "" && !strings.Contains(want, reason) {
			t.Errorf("%s: the plan says %q", tt.need, reason)
		}
	}
}

// How many members of a gang a host has devices for.
func TestDeviceRoom(t *testing.T) {
	for _, tt := range []struct {
		gpu, memory int64 // of each member
		host        []int64
		want        int
	}{
		{1000, 0, []int64{8, 8, 8}, 3},
		{2000, 0, []int64{8, 8, 8}, 1},
		{1000, 10 * gib, []int64{8, 16, 0}, 2},
		{600, 0, []int64{8, 8}, 2}, // the rest of neither is enough for a third
		{200, 3 * gib, []int64{8, 0}, 2 + 5},
		{500, 0, nil, 4}, // an older agent counts the sum
		{600, 0, nil, 3},
		{500, 1, nil, 0},
	} {
		grp := dag.Group{Axes: []dag.Axis{{Var: "rank", N: 10}}, Gang: dag.GangPack, Resources: dag.Resources{CPU: 1, GPU: tt.gpu, GPUMemory: tt.memory}}
		h := withDevices(tt.host)[0]
		if got := h.times(&grp.Resources, 10); got != tt.want {
			t.Errorf("of %d thousandths with %d bytes %v has room for %d, want %d", tt.gpu, tt.memory, tt.host, got, tt.want)
		}
	}
}
