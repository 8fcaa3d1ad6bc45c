// Package devices finds the devices of a host that tasks can compute on, and says how a
// process is told which of them it may use.
//
//	nvidia-smi, /proc/driver/nvidia/gpus ──┐
//	                                       ├─▶ Found: vendor, names, memory ──▶ Env
//	/sys/class/kfd/kfd/topology/nodes ─────┘
//
// This package was written without a device. Its tests use output that the documents of these
// programs and files show, and stand-ins for them.
package devices

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Vendor says whose devices they are: how processes are told of them.
type Vendor string

// The vendors that are known. Devices that are only said to be there are told as those of
// Nvidia, the convention that most programs follow.
const (
	None   Vendor = ""
	Nvidia Vendor = "nvidia"
	AMD    Vendor = "amd"
)

// Device is one device.
type Device struct {
	Name   string // by which a process is told of it: its number, as its driver counts
	Memory int64  // bytes; 0: not known
}

// Found is what a host has.
type Found struct {
	Vendor  Vendor
	Devices []Device
	Trouble string // why something is not known; "" when all is
}

// Host is where to look. The zero value of each is the real place.
type Host struct {
	SMI    string // program that tells of Nvidia's devices
	Nvidia string // folder with one for each of Nvidia's devices
	KFD    string // folder with one for each node of AMD's driver
	Env    func(string) (string, bool)
	Within time.Duration // that the program has
}

func (h Host) withDefaults() Host {
	if h.SMI == "" {
		h.SMI = "nvidia-smi"
	}
	if h.Nvidia == "" {
		h.Nvidia = "/proc/driver/nvidia/gpus"
	}
	if h.KFD == "" {
		h.KFD = "/sys/class/kfd/kfd/topology/nodes"
	}
	if h.Env == nil {
		h.Env = os.LookupEnv
	}
	if h.Within == 0 {
		h.Within = 10 * time.Second // without its daemon it wakes each device first
	}
	return h
}

// Find looks for devices. Those that this process must not see, by the variables of the vendor,
// are not found; of hosts with devices of both vendors only those of Nvidia are.
func (h Host) Find() Found {
	h = h.withDefaults()
	all, trouble := h.nvidia()
	if len(all) > 0 {
		return Found{Nvidia, named(h.visible(all, "CUDA_VISIBLE_DEVICES")), trouble}
	}
	if all := h.amd(); len(all) > 0 {
		left := h.visible(all, "ROCR_VISIBLE_DEVICES")
		for i := range left {
			left[i].number = strconv.Itoa(i) // by which the next variable counts
		}
		return Found{AMD, named(h.visible(left, "HIP_VISIBLE_DEVICES")), trouble}
	}
	return Found{Trouble: trouble}
}

func named(all []seen) (out []Device) {
	for _, d := range all {
		out = append(out, d.Device)
	}
	return out
}

// seen is a device as its driver tells of it.
type seen struct {
	Device
	number string // by which a variable may name it
	uuid   string
}

// nvidia asks the vendor's program, and where that does not answer counts what the driver shows.
func (h Host) nvidia() (all []seen, trouble string) {
	text, err := h.run(h.SMI, "--query-gpu=index,uuid,memory.total", "--format=csv,noheader,nounits")
	if err == nil {
		if all, err = parseSMI(text); err == nil {
			return all, ""
		}
	}
	folders, _ := os.ReadDir(h.Nvidia) // without the driver there is none; sorted by address on the bus, as they are numbered
	for i := range folders {
		all = append(all, seen{Device: Device{Name: strconv.Itoa(i)}, number: strconv.Itoa(i)})
	}
	if len(all) == 0 && (errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist)) {
		return nil, ""
	}
	return all, fmt.Sprintf("devices of Nvidia, their memory: %v", err)
}

// run runs a program and returns what it prints. It does not wait for longer than it
// may take, even for one that cannot be killed as it waits for its driver.
func (h Host) run(program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), h.Within)
	type answer struct {
		text []byte
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		defer cancel()
		c := exec.CommandContext(ctx, program, args...)
		c.WaitDelay = time.Second
		text, err := c.Output()
		done <- answer{text, err}
	}()
	select {
	case a := <-done:
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return "", fmt.Errorf("%s did not answer within %v", program, h.Within)
		}
		if a.err != nil {
			return "", fmt.Errorf("%s: %w: %s", program, a.err, firstLine(string(a.text)))
		}
		return string(a.text), nil
	case <-time.After(h.Within + 2*time.Second):
		return "", fmt.Errorf("%s did not answer within %v and does not end", program, h.Within)
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// parseSMI reads lines of index, uuid and MiB of memory.
func parseSMI(text string) (all []seen, err error) {
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		part := strings.Split(line, ",")
		if len(part) != 3 {
			return nil, fmt.Errorf("nvidia-smi says %q, want index, uuid and memory", strings.TrimSpace(line))
		}
		for i := range part {
			part[i] = strings.TrimSpace(part[i])
		}
		if _, err := strconv.ParseUint(part[0], 10, 16); err != nil {
			return nil, fmt.Errorf("nvidia-smi says %q, want index, uuid and memory", strings.TrimSpace(line))
		}
		mib, err := strconv.ParseInt(part[2], 10, 40)
		if err != nil {
			mib = 0 // [N/A] of devices that share the host's memory
		}
		all = append(all, seen{Device{part[0], mib << 20}, part[0], part[1]})
	}
	return all, nil
}

// amd reads the nodes of the kernel's driver: those with SIMDs are devices, numbered in order.
func (h Host) amd() (all []seen) {
	folders, _ := os.ReadDir(h.KFD) // without the driver there is none
	slices.SortFunc(folders, func(a, b os.DirEntry) int { return number(a.Name()) - number(b.Name()) })
	for _, f := range folders {
		dir := filepath.Join(h.KFD, f.Name())
		node, err := properties(filepath.Join(dir, "properties"))
		if err != nil || node["simd_count"] == 0 {
			continue // a processor, or a device that this process must not use
		}
		memory := int64(0)
		banks, _ := filepath.Glob(filepath.Join(dir, "mem_banks", "*", "properties"))
		for _, bank := range banks {
			if p, err := properties(bank); err == nil && (p["heap_type"] == 1 || p["heap_type"] == 2) { // the device's own
				memory += int64(p["size_in_bytes"])
			}
		}
		all = append(all, seen{Device{strconv.Itoa(len(all)), memory}, strconv.Itoa(len(all)), fmt.Sprintf("GPU-%016x", node["unique_id"])})
	}
	return all
}

func number(name string) int {
	n, err := strconv.Atoi(name)
	if err != nil {
		return -1
	}
	return n
}

// properties reads lines of a name and a number.
func properties(path string) (map[string]uint64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	all := map[string]uint64{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64); err == nil {
			all[name] = n
		}
	}
	return all, nil
}

// visible leaves those that a variable of this process names, by number or UUID, in its
// order, each once. As for the vendor's library what is behind an unknown name does not count.
func (h Host) visible(all []seen, variable string) (out []seen) {
	text, set := h.Env(variable)
	if !set {
		return all
	}
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		i := slices.IndexFunc(all, func(d seen) bool { return d.number == name || len(name) > 4 && strings.HasPrefix(d.uuid, name) })
		var d seen
		switch {
		case i >= 0:
			d = all[i]
		case strings.HasPrefix(name, "MIG-"): // a part of a device that is one of its own
			d.Name = name
		default:
			return out
		}
		if !slices.ContainsFunc(out, func(o seen) bool { return o.Name == d.Name }) {
			out = append(out, d)
		}
	}
	return out
}

// Env is what tells a process which devices it may use, by their names: on a host of which
// nothing is known as on one of Nvidia's.
func Env(v Vendor, names []string) []string {
	if v == AMD {
		own := make([]string, len(names)) // those that the first variable leaves count from 0
		for i := range own {
			own[i] = strconv.Itoa(i)
		}
		return []string{"ROCR_VISIBLE_DEVICES=" + strings.Join(names, ","), "HIP_VISIBLE_DEVICES=" + strings.Join(own, ",")}
	}
	return []string{
		"CUDA_DEVICE_ORDER=PCI_BUS_ID", // the order in which nvidia-smi numbers them
		"CUDA_VISIBLE_DEVICES=" + strings.Join(names, ","),
	}
}
