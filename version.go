package cascade

import (
	"runtime/debug"
	"strings"

	"github.com/cascade-run/cascade/executor/python"
)

// Version returns the version of Cascade in this build, such as "0.1.0 (25c01a85c1e2)".
// The number is that of the Python package of the same sources. The revision is there if
// the program is one of Cascade's and was built in a clone; a "+" behind it says that the
// clone had changes that were not committed.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return python.Version()
	}
	return versionOf(python.Version(), info)
}

func versionOf(number string, info *debug.BuildInfo) string {
	const module, digits = "github.com/cascade-run/cascade", 12
	revision, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= digits:
			revision = s.Value[:digits]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+"
		}
	}
	if revision == "" || !strings.HasPrefix(info.Main.Path+"/", module+"/") {
		return number
	}
	return number + " (" + revision + changed + ")"
}
