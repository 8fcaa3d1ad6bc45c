//go:build !linux

package tune

import "fmt"

// socketPath is the path of an experiment's socket.
func socketPath(folder string) (path string, release func(), err error) {
	if path = directPath(folder); !shortPath(path) {
		return "", nil, fmt.Errorf("the path %s is too long for a socket: use a folder with a shorter path", path)
	}
	return path, func() {}, nil
}
