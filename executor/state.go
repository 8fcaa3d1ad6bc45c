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
	job     comms.JobID // of the last run
	pending bool        // it was not looked at

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
func newState() (*state, error) {
	dir, err := os.Open(".")
	if err != nil {
		return nil, err
	}
	s := &state{dir: dir, env: os.Environ(), ids: ids(), mask: syscall.Umask(0o077),
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

// lookAfter is how long a function takes for which it is worth to look, which takes 3 us.
const lookAfter = 20 * time.Microsecond

// ended sets back what a function has changed, and tells whether all is as it was.
// Functions that take little time are looked at after their first run, and after each when that changed
// something; else with others, before a run of another job and when the process waits.
func (s *state) ended(r *run) bool {
	if s == nil || r.kind.fn == nil {
		return true
	}
	k := r.kind
	s.job = k.Job
	if s.pending = k.looked && !k.restless && r.took != 0 && r.took < lookAfter; s.pending {
		return true
	}
	differed, whole := s.restore(r.exec.limits.cpu)
	k.looked, k.restless = true, k.restless || differed
	return whole
}

// begins does so for the runs before one that begins, when that is of another job.
func (s *state) begins(r *run) bool {
	return s == nil || s.job == r.kind.Job || s.waits(r.exec.limits.cpu)
}

// waits does so for the runs before when there is no other.
func (s *state) waits(cpu int64) bool {
	if s == nil || !s.pending {
		return true
	}
	s.pending = false
	_, whole := s.restore(cpu)
	return whole
}

// restore sets back what differs; cpu is what the process was granted. whole tells whether all is as it was.
func (s *state) restore(cpu int64) (differed, whole bool) {
	differed, whole = syscall.Umask(s.mask) != s.mask, s.ids == ids()
	differed = differed || !whole
	var cwd [unix.PathMax]byte
	if n := folder(&cwd); string(cwd[:n]) != string(s.cwd[:s.cwdLen]) {
		differed = true
		whole = s.dir.Chdir() == nil && whole
		s.cwdLen = folder(&s.cwd) // another name, when it was renamed or removed
	}
	if !slices.Equal(os.Environ(), s.env) {
		differed = true
		s.setEnv()
	}
	for i, l := range watchedLimits {
		var now unix.Rlimit
		if err := unix.Getrlimit(l, &now); err == nil && now != s.limits[i] {
			differed = true
			whole = unix.Setrlimit(l, &s.limits[i]) == nil && whole
		}
	}
	differed = differed || os.Stdout != s.out || os.Stderr != s.err || slog.Default() != s.logger || log.Writer() != s.logTo ||
		log.Flags() != s.flags || log.Prefix() != s.prefix
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
		differed = true
		runtime.GOMAXPROCS(n)
	}
	return differed, whole
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
