//go:build check

package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// left is how often each point is still passed, the last time included.
var left = sync.OnceValue(func() map[string]*atomic.Int64 {
	points := map[string]*atomic.Int64{}
	for _, one := range strings.Split(os.Getenv("CASCADE_FAILPOINT"), ",") {
		if one == "" {
			continue
		}
		name, count, _ := strings.Cut(one, "=")
		n, err := strconv.ParseInt(count, 10, 64)
		if err != nil || n < 1 {
			panic(fmt.Sprintf("CASCADE_FAILPOINT: %q: want POINT=COUNT", one))
		}
		points[name] = new(atomic.Int64)
		points[name].Store(n)
	}
	return points
})

// Hit ends the process with SIGKILL when the point was reached as often as
// CASCADE_FAILPOINT says.
func Hit(point string) {
	if n := left()[point]; n != nil && n.Add(-1) == 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // a process may always signal itself
		select {}                                      // the signal may come a moment later
	}
}
