//go:build !linux

package runtimeenv

import (
	"os"
	"time"
)

// stamp knows nothing: agents run on Linux.
func stamp(os.FileInfo) (text string, changed time.Time, ok bool) { return "", time.Time{}, false }
