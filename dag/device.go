package dag

import "fmt"

// gpuMemory is what Resources.GPUMemory is called in job files and in encoded graphs.
const gpuMemory = "gpu_memory"

// Devices returns how many whole devices a task gets for itself, or which share of one,
// in thousandths; at most one of them is not 0. A graph of an older build may ask for
// more than one device and a part: it gets that one whole.
func (r *Resources) Devices() (whole int, share int64) {
	if r.GPU < 1000 {
		return 0, r.GPU
	}
	return int((r.GPU + 999) / 1000), 0
}

// checkDevices checks what a graph is not decoded for: stored ones were written before
// there was such a rule.
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
