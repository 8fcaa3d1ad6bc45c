//go:build linux

package agent

import (
	"strconv"

	"github.com/cascade-run/cascade/agent/devices"
	"github.com/cascade-run/cascade/comms"
)

// offered is the devices that tasks may use: the first of those that were found, or as
// many as the configuration says, whatever was found.
func (cfg *Config) offered(found devices.Found) devices.Found {
	switch n := len(found.Devices); {
	case cfg.GPUs < 0:
		return devices.Found{}
	case cfg.GPUs > n: // said by hand: numbered, as nothing else is known of them
		found.Devices = nil
		for i := range cfg.GPUs {
			found.Devices = append(found.Devices, devices.Device{Name: strconv.Itoa(i)})
		}
	case cfg.GPUs > 0:
		found.Devices = found.Devices[:cfg.GPUs]
	}
	for i := range found.Devices {
		if cfg.GPUMem > 0 {
			found.Devices[i].Memory = cfg.GPUMem
		}
	}
	return found
}

// findDevices looks for the host's devices, and says in the log what tasks may use.
func (a *Agent) findDevices() {
	found := devices.Found{}
	if a.cfg.GPUs >= 0 {
		found = a.cfg.Host.Find()
	}
	if found.Trouble != "" {
		a.log.Warn().Str("trouble", found.Trouble).Msg("devices are not known, or not fully; --gpus and --gpu-memory say what there is")
	}
	a.devices = a.cfg.offered(found)
	for _, d := range a.devices.Devices {
		a.log.Info().Str("device", d.Name).Str("vendor", string(a.devices.Vendor)).Int64("memory", d.Memory).Msg("tasks may use a device")
	}
}

// named is the devices as other processes are told of them.
func (a *Agent) named() (all []comms.Device) {
	for _, d := range a.devices.Devices {
		all = append(all, comms.Device(d))
	}
	return all
}
