package ui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
)

//go:embed static
var static embed.FS

// file is a file of the page as it is served.
type file struct {
	kind          string // Content-Type
	tag           string // ETag
	plain, packed []byte // packed by gzip; nil when that gains nothing
}

// files are the files of the page by their paths.
type files map[string]*file

// readFiles reads and packs the files once.
func readFiles() (files, error) {
	all := files{}
	err := fs.WalkDir(static, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := static.ReadFile(name)
		if err != nil {
			return err
		}
		kind := mime.TypeByExtension(path.Ext(name))
		switch path.Ext(name) { // what the host's tables say may differ
		case ".js":
			kind = "text/javascript; charset=utf-8"
		case ".css":
			kind = "text/css; charset=utf-8"
		case ".html":
			kind = "text/html; charset=utf-8"
		case ".txt":
			kind = "text/plain; charset=utf-8"
		}
		all["/"+strings.TrimPrefix(name, "static/")] = &file{kind: kind, tag: fmt.Sprintf(`"%x"`, sha256.Sum256(text))[:20] + `"`, plain: text, packed: packed(text)}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the files of the page: %w", err)
	}
	all["/"] = all["/index.html"]
	return all, nil
}

// packed is text compressed, nil when that is no shorter.
func packed(text []byte) []byte {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil
	}
	if _, err := z.Write(text); err != nil || z.Close() != nil || b.Len() >= len(text) {
		return nil
	}
	return b.Bytes()
}

func (f files) serve(w http.ResponseWriter, r *http.Request) {
	is := f[r.URL.Path]
	if is == nil {
		http.Error(w, "there is no such page: the page is at /", http.StatusNotFound)
		return
	}
	head := w.Header()
	head.Set("Content-Type", is.kind)
	head.Set("Cache-Control", "no-cache") // ask whether it is still the same
	head.Set("ETag", is.tag)
	head.Set("Vary", "Accept-Encoding")
	if r.Header.Get("If-None-Match") == is.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	text := is.plain
	if is.packed != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		head.Set("Content-Encoding", "gzip")
		text = is.packed
	}
	_, _ = w.Write(text) // the page may be gone
}

// smallest is the least answer that is worth compressing, in bytes.
const smallest = 2048

// writeAll writes an answer, packed when that pays and the page takes it.
func writeAll(w http.ResponseWriter, r *http.Request, text []byte) {
	if len(text) >= smallest && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
		if err == nil {
			_, _ = z.Write(text) // the page may be gone
			_ = z.Close()
			return
		}
	}
	_, _ = w.Write(text)
}
