package main

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/cascade-run/cascade/planner"
)

var hostText = regexp.MustCompile(`^(?:(\d+)x)?(\d+(?:\.\d+)?)c(?:(\d+(?:\.\d+)?)g)?(?:(\d+(?:\.\d+)?)gpu(?::(\d+(?:\.\d+)?)g)?)?$`)

// maxHosts bounds what one plans for: the simulation of transfers keeps something for each pair.
const maxHosts = 256

// maxDevices bounds what one host has.
const maxDevices = 1024

// parseHosts reads a cluster as a user writes it: 2x16c64g1gpu is two hosts of 16
// cores, 64 GiB and one device each, 1x8c2gpu:16g is one with two devices of 16 GiB;
// kinds are separated by commas.
func parseHosts(s string) ([]planner.Host, error) {
	var hosts []planner.Host
	for kind := range strings.SplitSeq(s, ",") {
		m := hostText.FindStringSubmatch(strings.TrimSpace(kind))
		if m == nil {
			return nil, badInputf("--hosts %q: %q names no hosts; write 2x16c64g for two of 16 cores and 64 GiB, 16c for one, 4x8c32g2gpu with devices, 2gpu:16g with their memory, and commas between kinds", s, kind)
		}
		var v [6]float64
		for k, text := range m[1:] {
			if text == "" {
				continue
			}
			n, err := strconv.ParseFloat(text, 64)
			if err != nil || n > 1e6 {
				return nil, badInputf("--hosts %q: %s is too much", s, text)
			}
			v[k+1] = n
		}
		if m[1] == "" {
			v[1] = 1
		}
		if v[1] == 0 || v[2] < 0.001 {
			return nil, badInputf("--hosts %q: %q has no host, or hosts without cores", s, kind)
		}
		if v[4] != math.Trunc(v[4]) || v[4] > maxDevices {
			return nil, badInputf("--hosts %q: %q has %s devices; a host has whole ones, at most %d", s, kind, m[4], maxDevices)
		}
		if len(hosts)+int(v[1]) > maxHosts {
			return nil, badInputf("--hosts %q: these are more than %d hosts", s, maxHosts)
		}
		for range int(v[1]) {
			h := planner.Host{Name: fmt.Sprintf("h%d", len(hosts)), CPU: int64(math.Round(v[2] * 1000)), Memory: int64(v[3] * (1 << 30))}
			h.GPU = int64(v[4]) * 1000
			for range int(v[4]) {
				h.Devices = append(h.Devices, planner.Device{Memory: int64(v[5] * (1 << 30))})
			}
			hosts = append(hosts, h)
		}
	}
	return hosts, nil
}
