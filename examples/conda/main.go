// Command conda is a plugin of Cascade's agents: it makes environments of conda
// packages with micromamba. Put the program, by the name of conda, into the folder of
// plugins of each host; README.md beside this file shows a job.
//
// It is one page on purpose: docs/plugins.md describes what it speaks.
package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/vmihailenco/msgpack/v5"
)

// request is what the agent asks.
type request struct {
	Do       string   `msgpack:"do"`
	Settings settings `msgpack:"settings"`
	Dir      string   `msgpack:"dir"`
	Place    string   `msgpack:"place"`
}

// settings are what stands under plugins: conda: in a job.
type settings struct {
	Channels []string `msgpack:"channels"`
	Packages []string `msgpack:"packages"`
}

// answer is a map, of what an answer can have.
type answer map[string]any

func main() {
	say := func(a answer) {
		if err := write(os.Stdout, a); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	req, err := read(os.Stdin)
	if err != nil {
		say(answer{"error": err.Error()})
		return
	}
	a, err := serve(req, func(text string) { say(answer{"tell": text}) })
	if err != nil {
		say(answer{"error": err.Error(), "transient": transient.MatchString(err.Error())})
		return
	}
	a["done"] = true
	say(a)
}

func serve(req request, tell func(string)) (answer, error) {
	switch req.Do {
	case "describe":
		return answer{"protocol": 1, "priority": 50}, nil
	case "validate":
		return answer{}, req.Settings.validate()
	case "key":
		return answer{"key": req.Settings.key()}, nil
	case "create":
		return create(req, tell)
	case "activate":
		return answer{"env": map[string]string{"CONDA_PREFIX": req.Dir}, "path": []string{filepath.Join(req.Dir, "bin")}}, nil
	case "delete":
		return answer{}, nil
	}
	return nil, fmt.Errorf("%q cannot be done", req.Do)
}

func (s settings) validate() error {
	if len(s.Packages) == 0 {
		return errors.New(`want packages, such as {channels: [conda-forge], packages: ["cdo=2.4"]}`)
	}
	for _, text := range slices.Concat(s.Packages, s.Channels) {
		if text == "" || strings.HasPrefix(text, "-") {
			return fmt.Errorf("%q is no package or channel", text)
		}
	}
	if _, err := exec.LookPath("micromamba"); err != nil {
		return fmt.Errorf("micromamba is not in the agent's PATH: %w", err)
	}
	return nil
}

// key is equal for settings that mean the same. Versions are resolved once on a host.
func (s settings) key() string {
	slices.Sort(s.Packages)
	text, err := json.Marshal([]any{runtime.GOOS, runtime.GOARCH, s.Channels, slices.Compact(s.Packages)})
	if err != nil {
		panic(err) // texts can be encoded
	}
	return string(text)
}

// create installs into dir what is to work at place.
func create(req request, tell func(string)) (answer, error) {
	args := []string{"create", "--yes", "--quiet", "--no-rc", "--prefix", req.Dir, "--relocate-prefix", req.Place}
	if len(req.Settings.Channels) > 0 {
		args = append(args, "--override-channels")
	}
	for _, c := range req.Settings.Channels {
		args = append(args, "--channel", c)
	}
	tell("micromamba installs " + strings.Join(req.Settings.Packages, " "))
	out, err := exec.Command("micromamba", append(args, req.Settings.Packages...)...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("micromamba create: %w\n%s", err, strings.TrimSpace(string(out)))
	}
	metadata, err := filepath.Glob(filepath.Join(req.Dir, "conda-meta", "*-*-*.json"))
	packages := []string{}
	for _, path := range metadata { // NAME-VERSION-BUILD.json
		parts := strings.Split(strings.TrimSuffix(filepath.Base(path), ".json"), "-")
		n := len(parts)
		packages = append(packages, strings.Join(parts[:n-2], "-")+" "+parts[n-2])
	}
	return answer{"packages": packages}, err
}

// transient is what may be gone when it is tried again.
var transient = regexp.MustCompile(`(?i)time-?out|timed out|could not resolve|connection|temporar|HTTP 5\d\d`)

// read takes a frame: its length, and a msgpack map.
func read(from io.Reader) (req request, err error) {
	var size uint32
	if err := binary.Read(from, binary.BigEndian, &size); err != nil {
		return req, fmt.Errorf("read the request: %w", err)
	}
	if err := msgpack.NewDecoder(io.LimitReader(from, int64(size))).Decode(&req); err != nil {
		return req, fmt.Errorf("read the request: %w", err)
	}
	return req, nil
}

func write(to io.Writer, a answer) error {
	text, err := msgpack.Marshal(a)
	if err != nil {
		return err
	}
	_, err = to.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}
