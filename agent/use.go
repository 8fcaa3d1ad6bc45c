//go:build linux

package agent

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// ticks are what the processors of a host have done since it started, in the kernel's ticks.
type ticks struct {
	idle, all uint64
	cores     uint64
}

// readTicks reads /proc/stat. Time that a virtual machine did not get counts as busy, as others cannot have it.
func readTicks(stat []byte) (t ticks, err error) {
	for lines := bufio.NewScanner(bytes.NewReader(stat)); lines.Scan(); {
		name, rest, _ := strings.Cut(lines.Text(), " ")
		if !strings.HasPrefix(name, "cpu") {
			continue
		}
		if name != "cpu" {
			t.cores++
			continue
		}
		for i, text := range strings.Fields(rest) {
			n, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				return t, fmt.Errorf("read the use of processors: %w", err)
			}
			if i >= 8 { // guests are part of what comes before
				break
			}
			if t.all += n; i == 3 || i == 4 { // idle, and waiting for a disk
				t.idle += n
			}
		}
	}
	if t.all == 0 || t.cores == 0 {
		return t, errors.New("read the use of processors: the kernel tells none")
	}
	return t, nil
}

// readMemory reads /proc/meminfo: what is used, and all.
func readMemory(meminfo []byte) (used, total uint64, err error) {
	var free uint64
	for lines := bufio.NewScanner(bytes.NewReader(meminfo)); lines.Scan(); {
		name, rest, _ := strings.Cut(lines.Text(), ":")
		n := &total
		switch name {
		case "MemTotal":
		case "MemAvailable":
			n = &free
		default:
			continue
		}
		kB, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("read the use of memory: %w", err)
		}
		*n = kB << 10
	}
	if total == 0 {
		return 0, 0, errors.New("read the use of memory: the kernel tells none")
	}
	return total - min(free, total), total, nil
}

// useSince is the use of a host between two readings of its processors.
func useSince(before, now ticks, used, total uint64) *comms.Use {
	u := &comms.Use{Cores: now.cores, Memory: used, Total: total}
	if all := now.all - min(before.all, now.all); all > 0 {
		idle := min(now.idle-min(before.idle, now.idle), all) // the kernel's count of idle time may go back
		u.Busy = float64(now.cores) * float64(all-idle) / float64(all)
	}
	return u
}

// firstUse is when the use of the host is told for the first time: people look at a new agent.
const firstUse = time.Second

// tellUse tells the controller again and again how much of the host is in use.
func (a *Agent) tellUse() {
	var before ticks
	if err := a.lookAtUse(&before); err != nil {
		a.log.Warn().Err(err).Msg("the use of this host is not told")
		return
	}
	next := time.NewTimer(firstUse)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-a.stop.Done():
			return
		}
		if err := a.lookAtUse(&before); err != nil {
			a.log.Warn().Err(err).Msg("the use of this host is not told any more")
			return
		}
		next.Reset(comms.UseEvery * time.Second)
	}
}

// lookAtUse tells the use since before, of which it is none the first time, and sets before.
func (a *Agent) lookAtUse(before *ticks) error {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return fmt.Errorf("read the use of processors: %w", err)
	}
	meminfo, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return fmt.Errorf("read the use of memory: %w", err)
	}
	now, err := readTicks(stat)
	if err != nil {
		return err
	}
	used, total, err := readMemory(meminfo)
	if err != nil {
		return err
	}
	if before.all > 0 {
		m := useSince(*before, now, used, total)
		a.in.Push(item{note: func() { a.loop.toController(m) }})
	}
	*before = now
	return nil
}
