package perf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Descriptions of the baselines.
const (
	rttName   = "round trip of 64 bytes over a raw Unix socket, between two processes"
	loopName  = "plain Go loop that calls the same function through a pointer"
	fsyncName = "append of 512 bytes and fsync, median"
)

// socketRTT is the median round trip to another process, which only reads and writes.
func socketRTT() (median time.Duration, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return 0, fmt.Errorf("baseline: %w", err)
	}
	unix.CloseOnExec(fds[0]) // else it echoes to its own end, too
	unix.CloseOnExec(fds[1])
	theirs := os.NewFile(uintptr(fds[1]), "echo")
	echo := exec.Command("cat")
	echo.Stdin, echo.Stdout = theirs, theirs
	err = errors.Join(echo.Start(), theirs.Close())
	if err == nil {
		median, err = roundTrips(fds[0])
	}
	err = errors.Join(err, unix.Close(fds[0]))
	if echo.Process != nil {
		err = errors.Join(err, echo.Wait())
	}
	if err != nil {
		return 0, fmt.Errorf("baseline: round trip over a socket to cat: %w", err)
	}
	return median, nil
}

// roundTrips is the median round trip over a socket whose other side echoes.
func roundTrips(fd int) (time.Duration, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var b [64]byte
	took := make([]time.Duration, 2000)
	for i := range took {
		began := time.Now()
		if _, err := unix.Write(fd, b[:]); err != nil {
			return 0, err
		}
		for got := 0; got < len(b); {
			n, err := unix.Read(fd, b[got:])
			if err != nil {
				return 0, err
			}
			if n == 0 {
				return 0, io.ErrUnexpectedEOF
			}
			got += n
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// loopRate is how often a second one core calls the function of noop tasks.
func loopRate() float64 {
	const n = 5_000_000
	return n / nanoseconds(func() { repeat(noop, n) }) * 1e9
}

// repeat calls f n times. It is not inlined: the compiler would see what f is and leave it out.
//
//go:noinline
func repeat(f func(context.Context) (int64, error), n int) {
	ctx := context.Background()
	for range n {
		_, _ = f(ctx)
	}
}

// fsyncTime is what an append and its fsync take in a folder, in microseconds.
func fsyncTime(dir string) (float64, error) {
	took, err := fsyncTimes(dir, 50)
	return quantile(took, 0.5), err
}

func fsyncTimes(dir string, n int) ([]float64, error) {
	f, err := os.OpenFile(filepath.Join(dir, "baseline"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("baseline: %w", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	b := make([]byte, 512)
	took := make([]float64, n)
	for i := range took {
		began := time.Now()
		if _, err = f.Write(b); err == nil {
			err = f.Sync()
		}
		if err != nil {
			return nil, fmt.Errorf("baseline: %w", err)
		}
		took[i] = microseconds(time.Since(began))
	}
	return took, nil
}

// quantile returns the value below which q of the values lie; it sorts them.
func quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return v[min(int(q*float64(len(v))), len(v)-1)]
}

func median(v []float64) float64 { return quantile(v, 0.5) }
