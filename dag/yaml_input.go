package dag

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

var (
	inputKeys = []string{"file", "files", "url", "sha256", "size", "kept", "resources", "retries", "timeout", "priority", "keep_going", "deadline"}
	fileKeys  = []string{"file", "url", "sha256", "size", "kept"}
)

// inputs reads the section inputs. They become the first groups.
func (j *jobFile) inputs(n *yaml.Node) {
	for _, p := range j.pairs(n, "inputs") {
		j.entry(p)
	}
}

// entry reads one input of the job.
func (j *jobFile) entry(p pair) {
	name := p.key.Value
	what := fmt.Sprintf("input %q", clip(name))
	keys := j.keyed(p.val, what, inputKeys)
	at := slices.IndexFunc(keys, func(k pair) bool { return k.key.Value == "files" })
	grp := NewInput(name, File{})
	if at >= 0 {
		grp = NewInputs(name, j.manyFiles(keys[at].val, what+": files"))
	} else {
		grp.Files[0] = j.oneFile(keys, p.val, what)
	}
	for _, k := range keys {
		switch key := k.key.Value; {
		case !slices.Contains(fileKeys, key) && key != "files":
			j.setting(&grp, key, k.val, what+": "+key)
		case at >= 0 && key != "files":
			j.problem(k.key, fmt.Sprintf("%s has files, and %s is for one", what, key), "write it with the file it belongs to: files: [{file: PATH, sha256: HASH}, ...]")
		}
	}
	j.tasks = append(j.tasks, p)
	j.g.Groups = append(j.g.Groups, grp)
}

// oneFile reads the keys of one file, and looks for it. A key that could not be read
// keeps its text: it has been reported.
func (j *jobFile) oneFile(keys []pair, n *yaml.Node, what string) (f File) {
	place, there := n, false
	for _, k := range keys {
		w := what + ": " + k.key.Value
		switch k.key.Value {
		case "file":
			if f.Path, there = j.text(k.val, w); !there {
				f.Path = k.val.Value
			}
			place = k.val
		case "url":
			var ok bool
			if f.URL, ok = j.text(k.val, w); !ok {
				f.URL = k.val.Value
			}
		case "sha256":
			s, _ := j.text(k.val, w)
			f.SHA256 = strings.ToLower(s)
		case "size":
			f.Size = j.whole(k.val, w, 0, maxFileSize)
		case "kept":
			f.Kept = j.truth(k.val, w)
		}
	}
	if there && !f.Kept { // what the cluster keeps need not be here any more
		j.find(place, f.Path, what)
	}
	return f
}

// manyFiles reads a pattern, or a list of files in the order that they get.
func (j *jobFile) manyFiles(n *yaml.Node, what string) (files []File) {
	if n.Kind == yaml.SequenceNode {
		for _, item := range j.items(n, what) {
			if item.Kind == yaml.MappingNode {
				files = append(files, j.oneFile(j.keyed(item, what, fileKeys), item, what))
			} else if path, ok := j.text(item, what); ok {
				j.find(item, path, what)
				files = append(files, File{Path: path})
			}
		}
		return files
	}
	unread := []File{{Path: n.Value}} // was reported
	v, ok := j.scalar(n, what)
	if !ok {
		return unread
	}
	if pattern, ok := v.(string); ok {
		return j.matching(n, pattern, what)
	}
	list, ok := v.([]any) // of a parameter
	for _, e := range list {
		path, isText := e.(string)
		if ok = ok && isText; ok {
			j.find(n, path, what)
			files = append(files, File{Path: path})
		}
	}
	if !ok {
		wrong := "is " + quoteValue(v)
		if list != nil {
			wrong = "has values that are no paths"
		}
		j.problem(n, what+" "+wrong, `write a pattern such as "data/*.grib", or a list of paths`)
		return unread
	}
	return files
}

// find looks whether a file is there, with Options.Find if there is one.
func (j *jobFile) find(n *yaml.Node, path, what string) {
	if j.opt.Find == nil {
		return
	}
	if _, err := j.opt.Find(path, false); err != nil {
		hint := "an input is a regular file that you may read; its path begins at the job file's folder"
		if strings.ContainsAny(path, "*?[") {
			hint = fmt.Sprintf("a pattern stands for several files: files: %q", path)
		}
		j.fail(n, mistake(fmt.Sprintf("%s: %v", what, err), hint))
	}
}

// matching returns the files of a pattern, sorted by path.
func (j *jobFile) matching(n *yaml.Node, pattern, what string) (files []File) {
	const hint = `a pattern such as "data/*.grib" stands for regular files, from the job file's folder on; each of them must be readable`
	err := errors.New("patterns are looked up when a job file is read, and here no files are looked for")
	var paths []string
	if j.opt.Find != nil {
		paths, err = j.opt.Find(pattern, true)
	}
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("no file is like %s", clip(pattern))
	}
	if err != nil {
		j.fail(n, mistake(fmt.Sprintf("%s: %v", what, err), hint))
		return []File{{Path: pattern}}
	}
	for _, p := range slices.Sorted(slices.Values(paths)) {
		files = append(files, File{Path: p})
	}
	return files
}

// maxFileSize is the most bytes of a file; it is a bound of numbers, not of hosts.
const maxFileSize = 1 << 50

// input prints an input of the job.
func (p *printer) input(grp *Group) {
	p.line(1, grp.Name, "")
	if len(grp.Axes) > 0 {
		files := make([]string, len(grp.Files))
		for i := range grp.Files {
			var w []string
			for _, f := range grp.Files[i].texts() {
				w = append(w, f[0]+": "+f[1])
			}
			files[i] = "{" + strings.Join(w, ", ") + "}"
		}
		p.line(2, "files", "["+strings.Join(files, ", ")+"]")
	} else {
		for _, f := range grp.Files[0].texts() {
			p.line(2, f[0], f[1])
		}
	}
	p.limits(grp)
}

// texts is the keys of a file that are set, with their values as YAML has them.
func (f *File) texts() (all [][2]string) {
	for _, t := range [][2]string{{"file", f.Path}, {"url", f.URL}, {"sha256", f.SHA256}} {
		if t[1] != "" {
			all = append(all, [2]string{t[0], quote(escapeText(t[1]))})
		}
	}
	if f.Size != 0 {
		all = append(all, [2]string{"size", strconv.FormatInt(f.Size, 10)})
	}
	if f.Kept {
		all = append(all, [2]string{"kept", "true"})
	}
	return all
}

func inputSchema() map[string]any {
	one := func() map[string]any {
		return map[string]any{
			"file":   described(text(), "Path of a file, from the job file's folder on."),
			"url":    described(text(), "http or https; the host that needs it fetches it."),
			"sha256": described(map[string]any{"type": "string", "pattern": `^[0-9a-fA-F]{64}$|\$\{`}, "SHA-256 that the bytes must have. The client fills it in for files when it submits the job."),
			"size":   described(wholeFrom(0), "Bytes, when they are known."),
			"kept":   described(boolean(), "The cluster keeps the file by its hash. The client fills it in when it submits the job."),
		}
	}
	which := []any{map[string]any{"required": []string{"file"}}, map[string]any{"required": []string{"url"}}}
	item := strict(object("A file or a URL.", one()))
	item["oneOf"] = which
	keys := one()
	maps.Copy(keys, limitsSchema())
	keys["files"] = described(anyOf(text(), list(anyOf(text(), item))), `A pattern such as "data/*.grib", sorted by path, or a list: a family, NAME[0], NAME[1], ...`)
	entry := strict(object("An input: a file, several files, or what a URL gives.", keys))
	entry["oneOf"] = append([]any{map[string]any{"required": []string{"files"}}}, which...)
	return entry
}
