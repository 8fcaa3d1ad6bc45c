package executor

import (
	"io"
	"log"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade/comms"
)

// state is what functions share as they run in one process, beside the variables of
// packages: what one changes is set back before the next. It is the runner's, and
// there is none (nil) in a process that does other things as well.
type state struct {
	call time.Duration // a system call takes longer than this, see capture

	job     comms.JobID // of the last run
	pending bool        // a run ended so soon after it began that it was not looked at

	dir      *os.File // where the process started
	cwd      [unix.PathMax]byte
	cwdLen   int
	mask     int
	env      []string
	limits   [len(watchedLimits)]unix.Rlimit
	ids      [4]int
	out, err *os.File
	logger   *slog.Logger
	logTo    io.Writer
	flags    int
	prefix   string
}

// watchedLimits are the bounds of setrlimit(2) that are compared.
var watchedLimits = [...]int{unix.RLIMIT_AS, unix.RLIMIT_CORE, unix.RLIMIT_CPU, unix.RLIMIT_DATA, unix.RLIMIT_FSIZE,
	unix.RLIMIT_NOFILE, unix.RLIMIT_STACK}

// newState takes the process as it is.
func newState(call time.Duration) (*state, error) {
	dir, err := os.Open(".")
	if err != nil {
		return nil, err
	}
	s := &state{call: call, dir: dir, env: os.Environ(), ids: ids(), mask: syscall.Umask(0o077),
		out: os.Stdout, err: os.Stderr, logger: slog.Default(), logTo: log.Writer(), flags: log.Flags(), prefix: log.Prefix()}
	syscall.Umask(s.mask)
	s.cwdLen = folder(&s.cwd)
	for i, l := range watchedLimits {
		if err := unix.Getrlimit(l, &s.limits[i]); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// folder is the length of the working folder's name; 0 when it was removed.
func folder(name *[unix.PathMax]byte) int {
	n, err := unix.Getcwd(name[:])
	if err != nil {
		return 0
	}
	return n
}

func ids() [4]int { return [4]int{os.Getuid(), os.Geteuid(), os.Getgid(), os.Getegid()} }

// ended sets back what a function has changed, and tells whether all is as it was.
// To look takes some microseconds, so that a function which took less time than a system call, and
// so has made none, is looked at with others: before a run of another job, and when the process waits.
func (s *state) ended(r *run) bool {
	if s == nil || r.kind.fn == nil {
		return true
	}
	s.job = r.kind.Job
	if s.pending = r.took != 0 && r.took < s.call; s.pending {
		return true
	}
	return s.restore(r.exec.limits.cpu)
}

// begins is ended for the runs before one that begins, which were not looked at.
func (s *state) begins(r *run) bool {
	if s == nil || !s.pending || s.job == r.kind.Job {
		return true
	}
	s.pending = false
	return s.restore(r.exec.limits.cpu)
}

// waits is ended for those runs when there is no other.
func (s *state) waits(cpu int64) bool {
	if s == nil || !s.pending {
		return true
	}
	s.pending = false
	return s.restore(cpu)
}

// restore sets back what differs; cpu is what the process was granted.
func (s *state) restore(cpu int64) (whole bool) {
	whole = s.ids == ids()
	syscall.Umask(s.mask)
	var cwd [unix.PathMax]byte
	if n := folder(&cwd); string(cwd[:n]) != string(s.cwd[:s.cwdLen]) {
		whole = s.dir.Chdir() == nil && whole
		s.cwdLen = folder(&s.cwd) // another name, when it was renamed or removed
	}
	if !slices.Equal(os.Environ(), s.env) {
		s.setEnv()
	}
	for i, l := range watchedLimits {
		var now unix.Rlimit
		if err := unix.Getrlimit(l, &now); err == nil && now != s.limits[i] {
			whole = unix.Setrlimit(l, &s.limits[i]) == nil && whole
		}
	}
	os.Stdout, os.Stderr = s.out, s.err
	if slog.Default() != s.logger {
		slog.SetDefault(s.logger)
	}
	if log.Writer() != s.logTo {
		log.SetOutput(s.logTo)
	}
	log.SetFlags(s.flags)
	log.SetPrefix(s.prefix)
	if n := cores(cpu); cpu > 0 && runtime.GOMAXPROCS(0) != n {
		runtime.GOMAXPROCS(n)
	}
	return whole
}

// setEnv sets all variables anew.
func (s *state) setEnv() {
	os.Clearenv()
	for _, kv := range s.env {
		if name, value, ok := strings.Cut(kv, "="); ok && name != "" {
			_ = os.Setenv(name, value) // it was one before
		}
	}
	s.env = os.Environ() // in the order that they have now
}
