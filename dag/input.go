package dag

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Inputs of a job are what its tasks read that no task makes: files, and what URLs
// give. Each is a group of tasks like any other, whose function is the runtime's own
// and reads one File into the store. So an input is a dataset: it goes to the hosts
// that need it, is spilled, dropped and recomputed as others are.

// InputFunction is what the tasks of an input run. The executor that comes with an
// agent has it; no function of a user's can have its name.
const InputFunction = "cascade.input"

// InputOutput is the name of an input's dataset, which references leave out.
const InputOutput = "data"

// HostResource begins the name of a resource that the agents of one host have: who
// wants some of it is put where the files are that a client has seen.
const HostResource = "host-"

// inputVar is the axis of an input that is several files: their number.
const inputVar = "i"

// File is what a task of an input reads: a file, or what a URL gives.
type File struct {
	Path   string // relative to the job's folder, or whole; "" for a URL
	URL    string // http or https; "" for a file
	SHA256 string // of the bytes, in hexadecimal; "" not known
	Size   int64  // bytes; 0 also when it is not known
	Kept   bool   // the cluster keeps the bytes, as package SHA256, for hosts that do not have the file
}

// String is the path or the URL.
func (f *File) String() string {
	if f.URL != "" {
		return f.URL
	}
	return f.Path
}

// fields is the file as parameters of InputFunction. All are there always: tasks of
// several inputs share what their executors keep of a function.
func (f *File) fields() []Field {
	return []Field{{"path", f.Path}, {"url", f.URL}, {"sha256", f.SHA256}, {"size", f.Size}, {"kept", f.Kept}}
}

// NewInput is a group that reads one file into the job. Its reference is its name.
func NewInput(name string, f File) Group {
	return Group{Name: name, Run: Run{Function: InputFunction}, Outputs: []OutputDecl{{Name: InputOutput}}, Files: []File{f}}
}

// NewInputs is a family that reads several files into the job: NAME[0], NAME[1] and
// so on in their order, NAME[*] for all.
func NewInputs(name string, files []File) Group {
	grp := NewInput(name, File{})
	grp.Axes, grp.Files = []Axis{{Var: inputVar, N: int64(len(files))}}, files
	return grp
}

// IsInput tells whether the group reads an input of the job.
func (grp *Group) IsInput() bool { return grp.Run.Function == InputFunction }

// InputBytes is the mean size of a group's files; 0 when it is no input, or they are
// not known.
func (grp *Group) InputBytes() float64 {
	total := 0.0
	for i := range grp.Files {
		total += float64(grp.Files[i].Size)
	}
	return total / float64(max(len(grp.Files), 1))
}

// FileOf returns what a task of an input reads; ok is false for other tasks.
func (g *Graph) FileOf(i TaskIndex) (f File, ok bool) {
	_, row := g.row(i)
	if !row.group.IsInput() {
		return File{}, false
	}
	return row.group.Files[row.local], true
}

// InputGroups returns the inputs of the job, which are its first groups. The caller
// does not change them.
func (g *Graph) InputGroups() []Group {
	n := 0
	for n < len(g.Groups) && g.Groups[n].IsInput() {
		n++
	}
	return g.Groups[:n:n]
}

// WithInputs returns the graph with other files for the tasks of its inputs, and
// other resources: for a client that knows what the files hold and where they are.
func (g *Graph) WithInputs(inputs []Group) (*Graph, error) {
	have := g.InputGroups()
	if len(inputs) != len(have) {
		return nil, fmt.Errorf("graph %q: %d inputs in place of %d", g.Name, len(inputs), len(have))
	}
	out := *g
	out.Groups = append([]Group(nil), g.Groups...)
	for i := range inputs {
		if inputs[i].Name != have[i].Name || len(inputs[i].Files) != len(have[i].Files) {
			return nil, fmt.Errorf("graph %q: other inputs than its own", g.Name)
		}
		if _, err := checkFiles(inputs[i].Files); err != nil {
			return nil, fmt.Errorf("graph %q: input %q: %w", g.Name, inputs[i].Name, err)
		}
		out.Groups[i].Files, out.Groups[i].Resources = inputs[i].Files, inputs[i].Resources
	}
	return &out, nil
}

// input checks what a group is as an input of the job, if it is one.
func (r *resolver) input(gi int, grp *Group) {
	switch {
	case !grp.IsInput():
		if len(grp.Files) > 0 {
			r.report(gi, "", "", errors.New("only an input of the job reads files"))
		}
		return
	case len(grp.Files) == 0 && len(grp.Axes) == 0:
		r.report(gi, "", "", mistake(InputFunction+" reads the job's inputs, and this is none", "declare it under inputs, or run a function of your own"))
		return
	case gi > 0 && !r.g.Groups[gi-1].IsInput():
		r.report(gi, "", "", errors.New("inputs come before tasks"))
	}
	axes := len(grp.Axes) == 0 && len(grp.Files) == 1 ||
		len(grp.Axes) == 1 && grp.Axes[0].Var == inputVar && grp.Axes[0].Values == nil && grp.Axes[0].First == 0 && grp.Axes[0].N == int64(len(grp.Files))
	output := len(grp.Outputs) == 1 && grp.Outputs[0] == OutputDecl{Name: InputOutput}
	if !axes || !output || grp.Stream != nil || grp.Gang != GangNone || grp.Run.Environment != "" || len(grp.Inputs)+len(grp.With) > 0 {
		r.report(gi, "", "", errors.New("an input is files, each of which is one dataset, and nothing else"))
		r.broken[gi] = true // its tasks are not its files
	}
	if len(grp.Files) == 0 {
		r.report(gi, "files", "", mistake("there is no file", "name at least one"))
	}
	if at, err := checkFiles(grp.Files); err != nil {
		r.reportItem(gi, grp.Files[at].key(len(grp.Axes) > 0), "", at, err)
	}
}

// key is where a file stands in a job file.
func (f *File) key(family bool) string {
	switch {
	case family:
		return "files"
	case f.URL != "":
		return "url"
	}
	return "file"
}

// checkFiles finds the first file that is none.
func checkFiles(files []File) (at int, err error) {
	for i := range files {
		if err := files[i].check(); err != nil {
			return i, err
		}
	}
	return 0, nil
}

func (f *File) check() error {
	if err := checkText(f.String()); err != nil {
		return err
	}
	switch {
	case (f.Path == "") == (f.URL == ""):
		return mistake("a path or a URL is wanted, and one of them", `write {file: PATH}, {files: "data/*.grib"} or {url: URL}`)
	case f.URL != "" && !isURL(f.URL):
		return mistake(fmt.Sprintf("%q is no URL that can be fetched", clip(f.URL)), "write http://HOST/PATH or https://HOST/PATH; a path goes under file")
	case f.URL != "" && checkHost(hostOf(f.URL)) != nil:
		message, hint := splitHint(checkHost(hostOf(f.URL)))
		return mistake(fmt.Sprintf("%q is no URL that can be fetched: %s", clip(f.URL), message), hint)
	case f.Path != "" && isURL(f.Path):
		return mistake(fmt.Sprintf("%q is a URL", clip(f.Path)), "write it under url")
	case f.SHA256 != "" && !isSHA256(f.SHA256):
		return mistake(fmt.Sprintf("%q is no SHA-256", clip(f.SHA256)), "write its 64 hexadecimal digits, as sha256sum prints them")
	case f.Size < 0 || f.Size > maxFileSize:
		return fmt.Errorf("a size of %d bytes", f.Size)
	case f.Kept && (f.SHA256 == "" || f.Path == ""):
		return mistake("what is kept for the job is a file whose SHA-256 is known", "leave out kept: who submits the job sees to it")
	}
	return nil
}

// hostOf is what stands between :// and the path of a URL.
func hostOf(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	return rest
}

// checkHost tells why what stands between :// and the path of a URL names no host, such as a port that
// is no number.
func checkHost(host string) error {
	host = host[strings.LastIndexByte(host, '@')+1:]
	name, port, ported := strings.Cut(host, ":")
	if strings.HasPrefix(host, "[") { // an address of IPv6
		var closed bool
		if name, port, closed = strings.Cut(host[1:], "]"); !closed {
			return mistake(fmt.Sprintf("host %q has no closing bracket", clip(host)), "write [ADDRESS] or [ADDRESS]:PORT")
		}
		port, ported = strings.CutPrefix(port, ":")
	}
	if name == "" {
		return mistake("it names no host", "write http://HOST/PATH or http://HOST:PORT/PATH")
	}
	if n, err := strconv.ParseUint(port, 10, 16); ported && port != "" && (err != nil || n == 0) {
		return mistake(fmt.Sprintf("%q is no port", clip(port)), "a port is a number from 1 to 65535")
	}
	return nil
}

func isURL(s string) bool {
	for _, scheme := range []string{"http://", "https://"} {
		if rest, ok := strings.CutPrefix(s, scheme); ok {
			return rest != "" && rest[0] != '/' && !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c == 0x7f })
		}
	}
	return false
}

// family returns how many files "NAME[*]" of an input stands for, as something to
// loop over; ok is false for other references.
func (r *resolver) family(ti int, ref *ref) (n int, ok bool) {
	grp := &r.g.Groups[ti]
	if !grp.IsInput() || len(grp.Axes) != 1 || len(ref.index) != 1 || !ref.index[0].all || ref.elem != nil {
		return 0, false
	}
	return len(grp.Files), true
}

func (e encoder) files(files []File) {
	e.array(len(files))
	for i := range files {
		f := &files[i]
		e.array(5)
		e.string(f.Path)
		e.string(f.URL)
		e.string(f.SHA256)
		e.int(f.Size)
		e.bool(f.Kept)
	}
}

func (d *decoder) files() []File {
	return listOf(d, d.array(), func() File {
		d.fixed(5)
		return File{Path: d.string(), URL: d.string(), SHA256: d.string(), Size: d.int(), Kept: d.bool()}
	})
}
