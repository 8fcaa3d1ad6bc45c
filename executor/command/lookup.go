package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// lookUp finds a program: a name with a slash below dir, another in PATH.
func lookUp(name, dir string, env []string) (string, error) {
	if name == "" {
		return "", errors.New("the first word of the command is empty: it names the program")
	}
	if dir != "" {
		switch fi, err := os.Stat(dir); {
		case err != nil:
			return "", fmt.Errorf("working folder of the command: %w", err)
		case !fi.IsDir():
			return "", fmt.Errorf("working folder of the command: %s is not a folder", dir)
		}
	}
	if strings.Contains(name, "/") {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, name)
		}
		if err := executable(path); err != nil {
			return "", fmt.Errorf("command %q: %w", name, err)
		}
		if !filepath.IsAbs(name) && dir == "" {
			path = "./" + path
		}
		return path, nil
	}
	list := pathOf(env)
	var found error
	for _, d := range filepath.SplitList(list) {
		if !filepath.IsAbs(d) { // a program beside the data must be asked for by its path
			continue
		}
		path := filepath.Join(d, name)
		err := executable(path)
		if err == nil {
			return path, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && found == nil {
			found = err
		}
	}
	if found != nil {
		return "", fmt.Errorf("command %q: %w", name, found)
	}
	return "", fmt.Errorf("command %q is not in PATH (%s): install it, or write its path", name, list)
}

func pathOf(env []string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], "PATH="); ok {
			return v
		}
	}
	return ""
}

func executable(path string) error {
	fi, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case fi.IsDir():
		return fmt.Errorf("%s is a folder", path)
	case fi.Mode()&0o111 == 0:
		return fmt.Errorf("%s is not executable: run chmod +x on it, or name its interpreter first", path)
	}
	return nil
}

// explain says what an error of exec means.
func explain(name, path string, err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		switch errno {
		case syscall.ENOEXEC:
			return fmt.Errorf("command %q: %s is neither a program for this machine nor a script that starts with #!: %w", name, path, errno)
		case syscall.E2BIG:
			return fmt.Errorf("command %q: its arguments and environment are too long for the system: ${in.NAME[@]} is a file with the paths of a list, one a line: %w", name, errno)
		case syscall.ENOENT:
			return fmt.Errorf("command %q: the interpreter that the first line of %s names is missing: %w", name, path, errno)
		}
	}
	return fmt.Errorf("start command %q: %w", name, err)
}

// signalName is the name people know.
func signalName(s syscall.Signal) string {
	names := map[syscall.Signal]string{
		syscall.SIGABRT: "SIGABRT", syscall.SIGALRM: "SIGALRM", syscall.SIGBUS: "SIGBUS", syscall.SIGFPE: "SIGFPE",
		syscall.SIGHUP: "SIGHUP", syscall.SIGILL: "SIGILL", syscall.SIGINT: "SIGINT", syscall.SIGKILL: "SIGKILL",
		syscall.SIGPIPE: "SIGPIPE", syscall.SIGQUIT: "SIGQUIT", syscall.SIGSEGV: "SIGSEGV", syscall.SIGTERM: "SIGTERM",
		syscall.SIGTRAP: "SIGTRAP", syscall.SIGUSR1: "SIGUSR1", syscall.SIGUSR2: "SIGUSR2", syscall.SIGXCPU: "SIGXCPU", syscall.SIGXFSZ: "SIGXFSZ",
	}
	if n, ok := names[s]; ok {
		return n
	}
	return fmt.Sprintf("signal %d", int(s))
}
