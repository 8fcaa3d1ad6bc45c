//go:build linux

package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The variables by which the libraries of NVIDIA's and AMD's devices are told which
// ones a process may use.
const (
	cudaVariable = "CUDA_VISIBLE_DEVICES"
	hipVariable  = "HIP_VISIBLE_DEVICES"
)

// findDevices returns the names of the devices that this process may use, and the variable
// in which its tasks are told theirs. Files are looked for below root. What a variable
// in the environment says counts: so a host is given a part of its devices.
func findDevices(root string, env func(string) (string, bool)) (names []string, variable string) {
	for _, kind := range []struct {
		variable string
		there    func(root string) []string
	}{{cudaVariable, nvidiaDevices}, {hipVariable, amdDevices}} {
		names := kind.there(root)
		if text, set := env(kind.variable); set {
			names = visible(text, names)
		}
		if len(names) > 0 {
			return names, kind.variable
		}
	}
	return nil, cudaVariable
}

// visible returns what a variable lets processes use of the devices that are there: a
// number counts them from 0, and ends the list when there is none of it.
func visible(text string, there []string) (names []string) {
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		n, err := strconv.Atoi(name)
		switch {
		case len(there) == 0 || name == "" || err == nil && (n < 0 || n >= len(there)):
			return names
		case err == nil:
			name = there[n]
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// nvidiaDevices lists NVIDIA's devices as its driver does, by their UUIDs, which stay
// true in containers; of these only those that have a device file.
func nvidiaDevices(root string) (names []string) {
	all, _ := filepath.Glob(filepath.Join(root, "proc/driver/nvidia/gpus/*/information"))
	for _, path := range all { // sorted, as PCI buses are
		said := map[string]string{}
		for line := range strings.Lines(readText(path)) {
			if key, value, ok := strings.Cut(line, ":"); ok {
				said[strings.TrimSpace(key)] = strings.TrimSpace(value)
			}
		}
		if _, err := os.Stat(filepath.Join(root, "dev/nvidia"+said["Device Minor"])); err != nil {
			continue
		}
		name := said["GPU UUID"]
		if !strings.HasPrefix(name, "GPU-") || strings.Contains(name, "?") { // not read yet
			name = said["Device Minor"]
		}
		names = append(names, name)
	}
	return names
}

// amdDevices lists AMD's devices as its runtime counts them: the nodes with processors of
// that kind, by number, of which this process may open the device file.
func amdDevices(root string) (names []string) {
	nodes, _ := filepath.Glob(filepath.Join(root, "sys/class/kfd/kfd/topology/nodes/*/properties"))
	slices.SortFunc(nodes, func(a, b string) int { return nodeNumber(a) - nodeNumber(b) })
	for _, path := range nodes {
		said := map[string]string{}
		for line := range strings.Lines(readText(path)) {
			if key, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
				said[key] = value
			}
		}
		if said["simd_count"] == "" || said["simd_count"] == "0" {
			continue
		}
		if _, err := os.Stat(filepath.Join(root, "dev/dri/renderD"+said["drm_render_minor"])); err == nil {
			names = append(names, strconv.Itoa(len(names)))
		}
	}
	return names
}

// nodeNumber is the number of the folder in which a file lies.
func nodeNumber(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
	return n
}

// detectDevices fills the devices that are not set.
func (cfg *Config) detectDevices() {
	cfg.devices, cfg.deviceVariable = findDevices("/", os.LookupEnv)
	switch {
	case cfg.GPU < 0:
		cfg.GPU = 0
	case cfg.GPU == 0:
		cfg.GPU = int64(len(cfg.devices)) * 1000
	}
	if most := int((cfg.GPU + 999) / 1000); len(cfg.devices) > most {
		cfg.devices = cfg.devices[:most]
	}
}
