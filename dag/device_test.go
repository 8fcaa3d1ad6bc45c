package dag

import (
	"strings"
	"testing"
)

const deviceJob = "job: d\ntasks:\n  a: {command: \"true\", resources: {gpu: 2, gpu_memory: 10GiB}}\n"

// A graph that was stored before devices had to be whole above one is still read; one
// that is built now is not.
func TestPartsOfDevices(t *testing.T) {
	g, err := ParseYAML("d.yaml", []byte(deviceJob), Override{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	g.Groups[0].Resources.GPU = 1500
	again, err := Decode(g.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if whole, share := again.Groups[0].Resources.Devices(); whole != 2 || share != 0 {
		t.Errorf("it gets %d devices and %d thousandths", whole, share)
	}
	b := NewBuilder("d")
	b.Add(again.Groups[0])
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
	for gpu, want := range map[int64][2]int64{0: {0, 0}, 1: {0, 1}, 999: {0, 999}, 1000: {1, 0}, 1001: {2, 0}, 4000: {4, 0}} {
		if whole, share := (&Resources{GPU: gpu}).Devices(); int64(whole) != want[0] || share != want[1] {
			t.Errorf("gpu %d is %d devices and %d thousandths of one", gpu, whole, share)
		}
	}
}
