package devices

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// standIn writes a program that says what nvidia-smi would.
func standIn(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nvidia-smi")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const gib = 1 << 30

// What the program prints, the driver shows and the variables leave becomes devices.
func TestNvidia(t *testing.T) {
	const two = `[ "$*" = "--query-gpu=index,uuid,memory.total --format=csv,noheader,nounits" ] || { echo "what is $*?"; exit 2; }
echo "0, GPU-8f3b1c2e-1d0a-4a55-9d4e-0b1e2f3a4b5c, 81920"
echo "1, GPU-11112222-1d0a-4a55-9d4e-0b1e2f3a4b5c, 40960"
`
	driver := t.TempDir()
	for _, address := range []string{"0000:17:00.0", "0000:65:00.0"} {
		write(t, filepath.Join(driver, address, "information"), "Model: \t\t A device\n")
	}
	for _, c := range []struct {
		name, script, driver string
		visible              string // "-": not set
		want                 []Device
		trouble              string
	}{
		{"two", two, "", "-", []Device{{"0", 80 * gib}, {"1", 40 * gib}}, ""},
		{"one by number", two, "", "1", []Device{{"1", 40 * gib}}, ""},
		{"both by uuid", two, "", "GPU-1111,GPU-8f3b1c2e-1d0a-4a55-9d4e-0b1e2f3a4b5c", []Device{{"1", 40 * gib}, {"0", 80 * gib}}, ""},
		{"behind an unknown one", two, "", "0,7,1", []Device{{"0", 80 * gib}}, ""},
		{"one of them twice", two, "", "1,1,0,GPU-1111", []Device{{"1", 40 * gib}, {"0", 80 * gib}}, ""},
		{"a part twice", two, "", "MIG-1c2e/1/0,MIG-1c2e/1/0", []Device{{Name: "MIG-1c2e/1/0"}}, ""},
		{"none to see", two, "", "", nil, ""},
		{"none by -1", two, "", "-1", nil, ""},
		{"parts", two, "", "MIG-1c2e/1/0,MIG-1c2e/2/0", []Device{{Name: "MIG-1c2e/1/0"}, {Name: "MIG-1c2e/2/0"}}, ""},
		{"memory of the host", "echo '0, GPU-1, [N/A]'\n", "", "-", []Device{{Name: "0"}}, ""},
		{"no answer that is known", "echo 'No devices were found'\n", driver, "-", []Device{{Name: "0"}, {Name: "1"}}, `nvidia-smi says "No devices were found"`},
		{"without a driver", "echo 'NVIDIA-SMI has failed because it could not communicate with the driver.'\nexit 9\n", "/nowhere", "-", nil, "exit status 9: NVIDIA-SMI has failed"},
		{"hangs", "exec sleep 1000\n", driver, "-", []Device{{Name: "0"}, {Name: "1"}}, "did not answer within 100ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := Host{SMI: standIn(t, c.script), Nvidia: c.driver, KFD: "/nowhere", Env: variable(c.visible)}
			if c.name == "hangs" {
				h.Within = 100 * time.Millisecond
			}
			got := h.Find()
			if !slices.Equal(got.Devices, c.want) || len(c.want) > 0 && got.Vendor != Nvidia {
				t.Errorf("found %+v, want %v", got, c.want)
			}
			if !strings.Contains(got.Trouble, c.trouble) || (got.Trouble == "") != (c.trouble == "") {
				t.Errorf("trouble %q, want %q", got.Trouble, c.trouble)
			}
		})
	}
}

// variable is an environment with one value for all names; "-": with none.
func variable(text string) func(string) (string, bool) {
	return func(string) (string, bool) { return text, text != "-" }
}

// only is an environment with one variable.
func only(variable, text string) func(string) (string, bool) {
	return func(name string) (string, bool) { return text, name == variable }
}

// Nodes with SIMDs are devices; the memory that is theirs adds up, and the host's does not count.
func TestAMD(t *testing.T) {
	nodes := t.TempDir()
	write(t, filepath.Join(nodes, "0/properties"), "cpu_cores_count 64\nsimd_count 0\nmem_banks_count 1\n")
	write(t, filepath.Join(nodes, "0/mem_banks/0/properties"), "heap_type 0\nsize_in_bytes 549755813888\n")
	for node, id := range map[string]string{"2": "100", "10": "255"} {
		write(t, filepath.Join(nodes, node, "properties"), "cpu_cores_count 0\nsimd_count 440\nunique_id "+id+"\nmem_banks_count 1\n")
		write(t, filepath.Join(nodes, node, "mem_banks/0/properties"), "heap_type 1\nsize_in_bytes 68702699520\nflags 0\n")
	}
	write(t, filepath.Join(nodes, "3/gpu_id"), "1\n") // another's: its properties cannot be read
	h := Host{SMI: "/nowhere/nvidia-smi", Nvidia: "/nowhere", KFD: nodes, Env: variable("-")}
	const memory = 68702699520
	if got := h.Find(); got.Vendor != AMD || !slices.Equal(got.Devices, []Device{{"0", memory}, {"1", memory}}) || got.Trouble != "" {
		t.Errorf("found %+v", got)
	}
	// The second variable counts what the first leaves.
	for _, c := range []struct{ rocr, hip, want string }{
		{"-", "1", "1"},
		{"1", "0", "1"},
		{"1,0", "0", "1"},
		{"1,0", "1,0", "0 1"},
		{"1", "1", ""},
		{"-", "", ""},
	} {
		h.Env = func(name string) (string, bool) {
			text := map[string]string{"ROCR_VISIBLE_DEVICES": c.rocr, "HIP_VISIBLE_DEVICES": c.hip}[name]
			return text, text != "-"
		}
		var names []string
		for _, d := range h.Find().Devices {
			names = append(names, d.Name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("with ROCR_VISIBLE_DEVICES=%s and HIP_VISIBLE_DEVICES=%s found %q, want %q", c.rocr, c.hip, got, c.want)
		}
	}
	h.Env = only("ROCR_VISIBLE_DEVICES", "GPU-00000000000000ff")
	if got := h.Find(); !slices.Equal(got.Devices, []Device{{"1", memory}}) {
		t.Errorf("found %+v", got)
	}
	h.KFD = "/nowhere"
	if got := h.Find(); len(got.Devices) > 0 || got.Vendor != None || got.Trouble != "" {
		t.Errorf("found %+v on a host without devices", got)
	}
}

func TestEnv(t *testing.T) {
	for _, c := range []struct {
		vendor Vendor
		names  []string
		want   string
	}{
		{Nvidia, []string{"0", "2"}, "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0,2"},
		{None, nil, "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES="},
		{AMD, []string{"1", "3"}, "ROCR_VISIBLE_DEVICES=1,3 HIP_VISIBLE_DEVICES=0,1"},
		{AMD, nil, "ROCR_VISIBLE_DEVICES= HIP_VISIBLE_DEVICES="},
	} {
		if got := strings.Join(Env(c.vendor, c.names), " "); got != c.want {
			t.Errorf("%s %v: %s", c.vendor, c.names, got)
		}
	}
}
