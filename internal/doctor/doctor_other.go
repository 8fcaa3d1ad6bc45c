//go:build !linux

package doctor

// Host is what checks look at.
type Host struct{}

// ThisHost is the host of this process.
func ThisHost(_, _, _ string) *Host { return &Host{} }

// Examine says that only clients run here.
func (*Host) Examine() []Line {
	return []Line{ok("system", "clients run here; controller and agents run on Linux only")}
}
