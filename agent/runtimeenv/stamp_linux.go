package runtimeenv

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// stamp is a text that differs when a file was changed or replaced, and when that was.
func stamp(info os.FileInfo) (text string, changed time.Time, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", time.Time{}, false
	}
	changed = time.Unix(st.Ctim.Unix())
	return fmt.Sprintln(st.Dev, st.Ino, st.Size, info.ModTime().UnixNano(), changed.UnixNano()), changed, true
}
