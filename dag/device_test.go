package dag

import (
	"math"
	"strings"
	"testing"
)

const deviceJob = "job: d\ntasks:\n  a: {command: \"true\", resources: {gpu: 2, gpu_memory: 10GiB}}\n"

// A graph that was stored before devices had to be whole above one is read as one that
// asks for the whole; such a graph is not built now.
func TestPartsOfDevices(t *testing.T) {
	g, err := ParseYAML("d.yaml", []byte(deviceJob), Override{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for gpu, want := range map[int64]int64{0: 0, 1: 1, 999: 999, 1000: 1000, 1001: 2000, 1256: 2000, 1500: 2000, 4000: 4000, maxAmount - 1: maxAmount, maxAmount: maxAmount} {
		g.Groups[0].Resources.GPU = gpu
		g.Groups[0].Resources.GPUMemory = 0
		again, err := Decode(g.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if got := again.Groups[0].Resources.GPU; got != want {
			t.Errorf("gpu %d is read as %d, want %d", gpu, got, want)
		}
		checkRoundTrip(t, again)
	}
	for _, gpu := range []int64{-1, maxAmount + 1, math.MaxInt64, math.MinInt64} {
		g.Groups[0].Resources.GPU = gpu
		if _, err := Decode(g.Encode()); err == nil || !strings.Contains(err.Error(), "a resource is negative or above") {
			t.Errorf("gpu %d: %v", gpu, err)
		}
	}
	g.Groups[0].Resources.GPU = 1500
	b := NewBuilder("d")
	b.Add(g.Groups[0])
	if _, err := b.Build(); err == nil || !strings.Contains(err.Error(), `task "a": gpu 1.5 is more than one device and not whole (write 1 or 2 for whole devices; a number below 1 is a share of one)`) {
		t.Errorf("built: %v", err)
	}
}

// A program from before there was memory of devices takes it for a resource that no
// host has, and not for nothing.
func TestDeviceMemoryForOlder(t *testing.T) {
	g, err := ParseYAML("d.yaml", []byte(deviceJob), Override{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	with := string(g.Encode())
	g.Groups[0].Resources.GPUMemory = 0
	g.Groups[0].Resources.Custom = map[string]int64{"gpu_memory": 10 << 30}
	if as := string(g.Encode()); as != with {
		t.Errorf("as memory of devices %x\nas a resource %x", with, as)
	}
}

func TestDevices(t *testing.T) {
	for gpu, want := range map[int64][2]int64{0: {0, 0}, 1: {0, 1}, 999: {0, 999}, 1000: {1, 0}, 2000: {2, 0}, 4000: {4, 0}} {
		if whole, share := (&Resources{GPU: gpu}).Devices(); int64(whole) != want[0] || share != want[1] {
			t.Errorf("gpu %d is %d devices and %d thousandths of one", gpu, whole, share)
		}
	}
}
