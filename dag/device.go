package dag

import "fmt"

// gpuMemory is what Resources.GPUMemory is called in job files and in encoded graphs.
const gpuMemory = "gpu_memory"

// Devices returns how many whole devices a task gets for itself, or which share of one,
// in thousandths; at most one of them is not 0.
func (r *Resources) Devices() (whole int, share int64) {
	if r.GPU < 1000 {
		return 0, r.GPU
	}
	return int(r.GPU / 1000), 0
}

// wholeDevices reads what an encoded graph asks for: one that was stored before there was
// the rule of checkDevices gets a device whole of which it asked for a part beside others.
func wholeDevices(gpu int64) int64 {
	if part := gpu % 1000; gpu > 1000 && gpu < maxAmount && part != 0 {
		return gpu - part + 1000
	}
	return gpu
}

// checkDevices checks that a task asks for whole devices, or for a share of one.
func checkDevices(r *Resources) error {
	if r.GPU > 1000 && r.GPU%1000 != 0 {
		return mistake(fmt.Sprintf("gpu %s is more than one device and not whole", thousandthsText(r.GPU)),
			fmt.Sprintf("write %d or %d for whole devices; a number below 1 is a share of one", r.GPU/1000, r.GPU/1000+1))
	}
	return nil
}

// checkDeviceMemory checks the memory that a task needs on each of its devices.
func checkDeviceMemory(r *Resources) error {
	if r.GPUMemory < 0 || r.GPUMemory > 0 && r.GPU == 0 {
		return mistake("gpu_memory is without gpu", "write both, as in {gpu: 1, gpu_memory: 10GiB}")
	}
	return nil
}
