package perf

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// controlRSS is the memory of this process without what is shared, in bytes.
func controlRSS() (sum uint64, err error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, fmt.Errorf("read this process's memory: %w", err)
	}
	for line := range bytes.Lines(b) {
		name, rest, _ := bytes.Cut(line, []byte(":"))
		if s := string(name); s != "RssAnon" && s != "RssFile" {
			continue
		}
		kb, err := strconv.ParseUint(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte("kB")))), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read this process's memory: %q: %w", line, err)
		}
		sum += kb << 10
	}
	if sum == 0 {
		return 0, errors.New("read this process's memory: /proc/self/status has no RssAnon")
	}
	return sum, nil
}

// watchRSS reads the memory until the returned function is called, which returns the peak.
func watchRSS() func() (uint64, error) {
	stop, done := make(chan struct{}), make(chan struct{})
	var peak uint64
	var failed error
	go func() {
		defer close(done)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			n, err := controlRSS()
			if err != nil {
				failed = err
				return
			}
			peak = max(peak, n)
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	return func() (uint64, error) {
		close(stop)
		<-done
		return peak, failed
	}
}

// cpuTime is what this process has used of the cores, in microseconds.
func cpuTime() float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e3
}

// family is what this process and those below it have used of the cores, in microseconds.
type family map[int]float64

// tick is the unit of times in /proc/PID/stat, in microseconds.
const tick = 1e6 / 100

// familyCPU reads the times of this process and of all below it that live.
func familyCPU() family {
	type process struct {
		parent int
		used   float64
	}
	all := map[int]process{}
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		id, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		words := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
		if len(words) < 13 {
			continue
		}
		parent, _ := strconv.Atoi(string(words[1]))
		user, _ := strconv.ParseFloat(string(words[11]), 64)
		system, _ := strconv.ParseFloat(string(words[12]), 64)
		all[id] = process{parent, (user + system) * tick}
	}
	f := family{}
	for id, p := range all {
		for at := id; at > 1; at = all[at].parent {
			if at == os.Getpid() {
				f[id] = p.used
				break
			}
		}
	}
	return f
}

// since is what was used between two readings, but for processes that have ended.
func (f family) since(before family) (sum float64) {
	for id, used := range f {
		sum += used - before[id]
	}
	return sum
}

func mib(n uint64) float64 { return float64(n) / (1 << 20) }
