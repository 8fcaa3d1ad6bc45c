package agent

import "strings"

// deviceEnv is what tells an executor which devices it may use: those of names, on a host
// that has some. CUDA reads it once per process, which is why devices belong to executors.
func deviceEnv(names []string) []string {
	return []string{
		"CUDA_DEVICE_ORDER=PCI_BUS_ID", // the order in which they are numbered here
		"CUDA_VISIBLE_DEVICES=" + strings.Join(names, ","),
	}
}
