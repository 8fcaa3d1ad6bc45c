package tune

import (
	"fmt"
	"os"
	"path/filepath"
)

// socketPath is the path of an experiment's socket, by the open folder when it is too long for an address.
func socketPath(folder string) (path string, release func(), err error) {
	if path = directPath(folder); shortPath(path) {
		return path, func() {}, nil
	}
	f, err := os.Open(folder)
	if err != nil {
		return "", nil, fmt.Errorf("open the folder of the experiment: %w", err)
	}
	return filepath.Join(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), SocketFile), func() { f.Close() }, nil
}
