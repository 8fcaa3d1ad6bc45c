//go:build linux

package agent

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestFindDevices(t *testing.T) {
	nvidia := map[string]string{
		"proc/driver/nvidia/gpus/0000:65:00.0/information": "Model: \t\t NVIDIA A100\nGPU UUID: \t GPU-bbbb\nDevice Minor: \t 1\n",
		"proc/driver/nvidia/gpus/0000:17:00.0/information": "Model: \t\t NVIDIA A100\nGPU UUID: \t GPU-aaaa\nDevice Minor: \t 0\n",
		"proc/driver/nvidia/gpus/0000:ca:00.0/information": "Model: \t\t NVIDIA A100\nGPU UUID: \t GPU-????-??\nDevice Minor: \t 2\n",
		"dev/nvidia0": "", "dev/nvidia1": "", "dev/nvidia2": "",
	}
	amd := map[string]string{
		"sys/class/kfd/kfd/topology/nodes/0/properties":  "cpu_cores_count 64\nsimd_count 0\n",
		"sys/class/kfd/kfd/topology/nodes/10/properties": "simd_count 440\ndrm_render_minor 130\n",
		"sys/class/kfd/kfd/topology/nodes/2/properties":  "simd_count 440\ndrm_render_minor 128\n",
		"dev/dri/renderD128":                             "",
	}
	for _, c := range []struct {
		name     string
		files    map[string]string
		env      map[string]string
		want     []string
		variable string
	}{
		{name: "none", variable: cudaVariable},
		{name: "nvidia", files: nvidia, want: []string{"GPU-aaaa", "GPU-bbbb", "2"}, variable: cudaVariable},
		{name: "some by number", files: nvidia, env: map[string]string{cudaVariable: "1, 0,1"}, want: []string{"GPU-bbbb", "GPU-aaaa"}, variable: cudaVariable},
		{name: "some by name", files: nvidia, env: map[string]string{cudaVariable: "MIG-cc,GPU-aaaa"}, want: []string{"MIG-cc", "GPU-aaaa"}, variable: cudaVariable},
		{name: "a number of none ends the list", files: nvidia, env: map[string]string{cudaVariable: "0,-1,1"}, want: []string{"GPU-aaaa"}, variable: cudaVariable},
		{name: "none may be used", files: nvidia, env: map[string]string{cudaVariable: ""}, variable: cudaVariable},
		{name: "the variable alone makes none", env: map[string]string{cudaVariable: "0"}, variable: cudaVariable},
		{name: "one has no device file here", files: amd, want: []string{"0"}, variable: hipVariable},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, variable := findDevices(write(t, c.files), func(name string) (string, bool) { v, ok := c.env[name]; return v, ok })
			if !slices.Equal(got, c.want) || variable != c.variable {
				t.Errorf("%q in %s, want %q in %s", got, variable, c.want, c.variable)
			}
		})
	}
}

// Tasks that run at once have different devices, and are told which, commands and functions
// alike. When both devices are needed at once, executors whose process knows one of them end.
func TestDevices(t *testing.T) {
	t.Setenv(cudaVariable, "") // the devices of this host, if it has any, are none of the test
	t.Setenv(hipVariable, "")
	h := startHost(t, func(cfg *Config) { cfg.GPU, cfg.CPU = 2000, 4000 })
	for _, c := range []struct{ tasks, want string }{
		{`
  a: {run: alone, with: {n: 2}, out: [devices], resources: {gpu: 1}}
  b: {run: alone, with: {n: 2}, out: [devices], resources: {gpu: 1}}
`, "a finished 1\nb finished 1"},
		{`
  both: {run: alone, with: {n: 2}, out: [devices], resources: {gpu: 2}}
  part: {command: "test $CUDA_VISIBLE_DEVICES = 0", in: {all: both.devices}, resources: {gpu: 0.5}}
  none: {command: "test -z \"$CUDA_VISIBLE_DEVICES\"", in: {all: both.devices}}
`, "both finished 1\npart finished 1\nnone finished 1"},
	} {
		j := h.submit("job: devices\ntasks:" + c.tasks)
		if got := j.ended(); got != c.want {
			t.Errorf("got\n%s\nwant\n%s", got, c.want)
		}
		for _, device := range []string{"0", "1"} {
			if err := os.Remove(filepath.Join(h.dir, device)); err != nil {
				t.Error(err)
			}
		}
	}
}
