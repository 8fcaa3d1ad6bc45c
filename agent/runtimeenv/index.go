package runtimeenv

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
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

// findIndex asks the environment first, then pip of the interpreter.
func findIndex(ctx context.Context, python string) index {
	ctx, cancel := context.WithTimeout(ctx, foundTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "-m", "pip", "config", "list")
	cmd.WaitDelay = time.Second
	out, _ := cmd.Output() // a host without pip has no configuration of pip
	settings := pipConfig(out)
	for _, s := range fromPip { // without pip its variables still say what is meant
		if v := os.Getenv("PIP_" + strings.ToUpper(strings.ReplaceAll(s.pip, "-", "_"))); v != "" {
			settings[s.pip] = v
		}
	}
	return indexFrom(settings, os.Getenv)
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

// pipConfig reads lines such as global.index-url='...' ; what is more special comes later and wins.
func pipConfig(text []byte) map[string]string {
	out := map[string]string{}
	var variables []string
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		key, value, ok := strings.Cut(lines.Text(), "=")
		section, name, dotted := strings.Cut(key, ".")
		if !ok || !dotted {
			continue
		}
		value = strings.ReplaceAll(strings.Trim(value, `'"`), `\n`, " ")
		switch section {
		case ":env:": // the environment wins over files
			variables = append(variables, name, value)
		case "global":
			if _, there := out[name]; !there { // what is set for install goes before
				out[name] = value
			}
		case "install":
			out[name] = value
		}
	}
	for i := 0; i < len(variables); i += 2 {
		out[variables[i]] = variables[i+1]
	}
	return out
}

// dialTimeout is how long an index may take to accept a connection before it is
// named as the reason of the delay.
const dialTimeout = 5 * time.Second

// reachable tells whether the index accepts connections; nil also when that
// cannot be known: behind a proxy, or when uv uses its own default.
func (ix index) reachable(ctx context.Context) error {
	at, err := url.Parse(ix.main)
	if err != nil || at.Host == "" || ix.noIndex {
		return nil //nolint:nilerr // uv will say what is wrong with it
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
