package runtimeenv

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// index is where packages come from, as the agent's environment or pip's
// configuration says. uv does not read the latter.
type index struct {
	main    string   // "": what uv takes by itself
	vars    []string // NAME=value for uv
	noIndex bool
}

// fromPip are pip's settings and what uv calls them.
var fromPip = []struct{ pip, uv string }{
	{"index-url", "UV_DEFAULT_INDEX"},
	{"extra-index-url", "UV_INDEX"},
	{"find-links", "UV_FIND_LINKS"},
	{"trusted-host", "UV_INSECURE_HOST"},
	{"cert", "SSL_CERT_FILE"},
	{"default-timeout", "UV_HTTP_TIMEOUT"},
	{"timeout", "UV_HTTP_TIMEOUT"},
}

// findIndex reads the environment and the configuration of an interpreter's pip.
// The files are read here: pip would take a second to say what is in them.
func findIndex(interpreter string) index {
	settings := pipSettings(pipFiles(interpreter), os.ReadFile)
	for _, s := range append([]struct{ pip, uv string }{{pip: "no-index"}}, fromPip...) {
		if v := os.Getenv("PIP_" + strings.ToUpper(strings.ReplaceAll(s.pip, "-", "_"))); v != "" {
			settings[s.pip] = v
		}
	}
	return indexFrom(settings, os.Getenv)
}

// IndexVars are the variables, as NAME=value, that tell uv where an interpreter's pip
// finds packages. Programs that start uv by themselves need them.
func IndexVars(interpreter string) []string { return findIndex(interpreter).vars }

// pipFiles lists where pip looks for its configuration, what counts more later
// ("Configuration" of its user guide): the host's, the user's, that of the interpreter's
// prefix, and the one that a variable names.
func pipFiles(interpreter string) (files []string) {
	own := os.Getenv("PIP_CONFIG_FILE")
	if own == os.DevNull {
		return nil
	}
	for _, dir := range filepath.SplitList(cmp.Or(os.Getenv("XDG_CONFIG_DIRS"), "/etc/xdg")) {
		files = append(files, filepath.Join(dir, "pip", "pip.conf"))
	}
	files = append(files, "/etc/pip.conf")
	if home, err := os.UserHomeDir(); err == nil {
		files = append(files, filepath.Join(home, ".pip", "pip.conf"),
			filepath.Join(cmp.Or(os.Getenv("XDG_CONFIG_HOME"), filepath.Join(home, ".config")), "pip", "pip.conf"))
	}
	files = append(files, filepath.Join(filepath.Dir(filepath.Dir(interpreter)), "pip.conf"))
	if own != "" {
		files = append(files, own)
	}
	return files
}

// pipSettings reads configuration files; of one file's sections, install counts more than global.
func pipSettings(files []string, read func(string) ([]byte, error)) map[string]string {
	sections := map[string]map[string]string{"global": {}, "install": {}}
	for _, name := range files {
		text, err := read(name)
		if err != nil {
			continue // most are not there
		}
		var section map[string]string
		key := ""
		for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
			line := strings.TrimSpace(lines.Text())
			switch {
			case line == "" || line[0] == '#' || line[0] == ';':
			case line[0] == '[':
				section, key = sections[strings.Trim(line, "[] ")], ""
			case section == nil:
			case key != "" && strings.ContainsAny(lines.Text()[:1], " \t"): // goes on
				section[key] = strings.TrimSpace(section[key] + " " + line)
			default:
				at := strings.IndexAny(line, "=:")
				if at < 0 {
					continue
				}
				key = strings.ReplaceAll(strings.TrimSpace(line[:at]), "_", "-")
				section[key] = strings.TrimSpace(line[at+1:])
			}
		}
	}
	out := sections["global"]
	maps.Copy(out, sections["install"])
	return out
}

func indexFrom(settings map[string]string, getenv func(string) string) (ix index) {
	own := cmp.Or(getenv("UV_DEFAULT_INDEX"), getenv("UV_INDEX_URL"))
	ix.main = cmp.Or(own, settings["index-url"])
	ix.noIndex = settings["no-index"] == "true" || settings["no-index"] == "1"
	for _, s := range fromPip {
		value := settings[s.pip]
		set := getenv(s.uv) != "" || s.pip == "index-url" && own != "" || s.pip == "extra-index-url" && getenv("UV_EXTRA_INDEX_URL") != ""
		if value == "" || set || slices.ContainsFunc(ix.vars, func(kv string) bool { return strings.HasPrefix(kv, s.uv+"=") }) {
			continue
		}
		words := strings.Fields(value) // pip separates by white space
		if s.uv == "UV_FIND_LINKS" {
			words = slices.DeleteFunc(words, func(w string) bool { // pip passes over folders that are not there, uv does not
				_, err := os.Stat(w)
				return err != nil && !strings.Contains(w, "://")
			})
		}
		sep := " "
		if s.uv == "UV_FIND_LINKS" {
			sep = ","
		}
		if len(words) > 0 {
			ix.vars = append(ix.vars, s.uv+"="+strings.Join(words, sep))
		}
	}
	return ix
}

// dialTimeout is how long an index may take to accept a connection before it is
// named as the reason of the delay.
const dialTimeout = 5 * time.Second

// reachable tells whether the index accepts connections; nil also when that
// cannot be known: behind a proxy, or when uv uses its own default.
func (ix index) reachable(ctx context.Context) error {
	at, err := url.Parse(ix.main)
	if err != nil || at.Host == "" || ix.noIndex {
		return nil // uv will say what is wrong with it
	}
	for _, proxy := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"} {
		if os.Getenv(proxy) != "" {
			return nil
		}
	}
	port := cmp.Or(at.Port(), map[string]string{"http": "80", "https": "443"}[at.Scheme])
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(at.Hostname(), port))
	if err != nil {
		return &unreachable{fmt.Errorf("the package index %s cannot be reached: %w", at.Redacted(), err)}
	}
	return conn.Close()
}

// unreachable is a transient error.
type unreachable struct{ error }

func (*unreachable) Transient() bool { return true }
func (u *unreachable) Unwrap() error { return u.error }
