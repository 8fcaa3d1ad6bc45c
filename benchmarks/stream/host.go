//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// blocks is what a file occupies: the store's files are sparse.
func blocks(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return info.Size()
}

// memory returns this process's RssAnon, and the resident pages of files below a folder.
func memory(store string) (anon, mapped int64, err error) {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return 0, 0, fmt.Errorf("read this process's memory: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	ours := false
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		name, rest, found := strings.Cut(line, ":")
		if !found || strings.Contains(name, "-") { // the first line of a mapping: its range, and last its file
			ours = strings.Contains(line, store)
			continue
		}
		var sum *int64
		switch {
		case name == "Anonymous":
			sum = &anon
		case name == "Rss" && ours:
			sum = &mapped
		default:
			continue
		}
		kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("read this process's memory: %q: %w", line, err)
		}
		*sum += kb << 10
	}
	return anon, mapped, lines.Err()
}
