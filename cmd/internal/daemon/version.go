package daemon

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
)

// Build says what this program is.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Date     string `json:"date,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Protocol int    `json:"protocol"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// ThisBuild reads it from the program.
func ThisBuild() Build {
	b := Build{Version: cascade.Version(), Protocol: comms.Protocol, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Date = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String is what --version prints behind the program's name.
func (b Build) String() string {
	text := b.Version
	if b.Date != "" {
		text += " of " + b.Date
	}
	if b.Modified {
		text += ", modified"
	}
	return fmt.Sprintf("%s (protocol %d, %s, %s)", text, b.Protocol, b.Go, b.Platform)
}
