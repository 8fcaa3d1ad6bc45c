package samehost

import (
	"crypto/sha256"
	"fmt"
	"os"
	"syscall"

	"github.com/cascade-run/cascade/dag"
)

// Resource is the name of the resource that this host's agents have; "" when the host
// cannot be told from others. It changes with each boot.
func Resource() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	h := sha256.New()
	_, _ = h.Write(boot)                                      // a hash does not fail
	for _, path := range []string{"/", "/proc/self/ns/net"} { // another container, another host of a test
		info, err := os.Stat(path)
		if err != nil {
			return ""
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return ""
		}
		_, _ = fmt.Fprintf(h, " %d %d", st.Dev, st.Ino)
	}
	return fmt.Sprintf("%s%x", dag.HostResource, h.Sum(nil)[:6])
}

// Amount is how much of it an agent has, in thousandths: more than its tasks will want.
const Amount = 1e12
