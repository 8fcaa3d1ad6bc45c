package netlab

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Host is a host of a Lab.
type Host struct {
	lab   *Lab
	space netns.NsHandle
	addr  netip.Addr
	port  netlink.Link // the switch's end of its link
	eth   netlink.Link
	line  *line // between the two, where the kernel cannot delay packets
	group *group
}

// Addr returns the host's address.
func (h *Host) Addr() netip.Addr { return h.addr }

// Space returns the path of the host's network namespace, for programs that enter it
// by themselves, as nsenter --net does. It is good until the Lab is closed.
func (h *Host) Space() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), int(h.space)) }

// Do runs f in the host's network: a socket that f makes belongs there for good.
// Goroutines that f starts do not.
func (h *Host) Do(f func() error) error {
	return onThread(func() error {
		if err := netns.Set(h.space); err != nil {
			return fmt.Errorf("enter host %s: %w", h.addr, err)
		}
		return f()
	})
}

// waiting is what a program is started by: it goes on once its process is in the
// host's control group, so that its children are too.
const waiting = `read -r _ <&%[1]d && exec "$@" %[1]d<&-`

// Start starts cmd on the host, as cmd.Start does. It has at most five ExtraFiles.
func (h *Host) Start(cmd *exec.Cmd) error {
	if len(cmd.ExtraFiles) > 5 {
		return fmt.Errorf("start %s on host %s: %d extra files, want at most 5", cmd.Path, h.addr, len(cmd.ExtraFiles))
	}
	if cmd.Err != nil {
		return cmd.Err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start %s on host %s: %w", cmd.Path, h.addr, err)
	}
	cmd.ExtraFiles = append(cmd.ExtraFiles, r)
	script := fmt.Sprintf(waiting, 2+len(cmd.ExtraFiles))
	cmd.Args = append([]string{"sh", "-c", script, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	err = h.Do(cmd.Start)
	if err == nil {
		if err = h.group.add(cmd.Process.Pid); err == nil {
			_, err = w.WriteString("\n")
		}
		if err != nil {
			err = errors.Join(err, cmd.Process.Kill(), cmd.Wait())
		}
	}
	if err = errors.Join(err, r.Close(), w.Close()); err != nil {
		return fmt.Errorf("start %s on host %s: %w", cmd.Args[4], h.addr, err)
	}
	return nil
}

// Cut lets nothing through the host's link any more; its peers are not told.
func (h *Host) Cut() error {
	if err := h.lab.wires.LinkSetDown(h.port); err != nil {
		return fmt.Errorf("cut the link of host %s: %w", h.addr, err)
	}
	return nil
}

// It ends a Cut.
func (h *Host) Mend() error {
	if err := h.lab.wires.LinkSetUp(h.port); err != nil {
		return fmt.Errorf("repair the link of host %s: %w", h.addr, err)
	}
	return nil
}

// Freeze stops everything on the host, without a signal that it could see.
func (h *Host) Freeze() error { return h.told("freeze", h.group.freeze()) }

// Thaw ends a Freeze.
func (h *Host) Thaw() error { return h.told("thaw", h.group.thaw()) }

// Slow leaves the host so much cpu, in cores; 0 ends the bound.
func (h *Host) Slow(cores float64) error { return h.told("slow", h.group.quota(cores)) }

// Kill ends everything on the host at once. A process that is started there later runs.
func (h *Host) Kill() error { return h.told("kill", h.group.kill()) }

func (h *Host) told(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s host %s: %w", what, h.addr, err)
	}
	return nil
}
