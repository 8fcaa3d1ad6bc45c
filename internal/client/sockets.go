package client

import (
	"path/filepath"
	"slices"
	"strings"
)

// ControllerSocket is the controller's socket in the folder of a gateway.
const ControllerSocket = "controller.sock"

// AgentSocket is an agent's socket in the folder of a gateway.
func AgentSocket(name string) string { return "agent-" + name + ".sock" }

// HostPort returns the first TCP endpoint of addresses.
func HostPort(addresses []string) (string, bool) {
	i := slices.IndexFunc(addresses, func(a string) bool { return strings.HasPrefix(a, "tcp://") })
	if i < 0 {
		return "", false
	}
	return strings.TrimPrefix(addresses[i], "tcp://"), true
}

// beside returns the socket of an agent in the folder of a gateway whose
// controller's socket is at the address; "" when that is none.
func beside(controller, agent string) string {
	path, ok := strings.CutPrefix(controller, "ipc://")
	if !ok || agent == "" || filepath.Base(path) != ControllerSocket {
		return ""
	}
	return filepath.Join(filepath.Dir(path), AgentSocket(agent))
}
