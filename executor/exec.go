package executor

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/executor/command"
	"github.com/cascade-run/cascade/executor/value"
	"github.com/cascade-run/cascade/internal/safedir"
	"github.com/cascade-run/cascade/shm"
	"github.com/cascade-run/cascade/shm/ledger"
)

const (
	defaultGrace = 2 * time.Second // from SIGTERM to SIGKILL after a time-out
	maxListEnv   = 64 << 10        // longer lists of paths do not become a variable
)

// program is a command being prepared: where its datasets are.
type program struct {
	run     *run
	dir     string // scratch folder of its own, "" until it is needed
	inputs  [][]string
	lists   []string    // of inputs that are lists, a file with the paths
	files   []inputFile // all of inputs
	outputs []commandOutput
}

// inputFile is how a file was before the command ran.
type inputFile struct {
	input, path string
	before      os.FileInfo
}

// commandOutput is a file that the command creates, in a folder of its own: what the command
// leaves beside it goes with the folder.
type commandOutput struct {
	lease   *comms.Lease
	path    string
	segment string // where the file goes in the store
	done    bool   // it was reported, or put into the message
}

// command runs a command and seals what it wrote.
func (r *run) command() (descs []comms.Desc, err error) {
	p := &program{run: r}
	defer func() { err = errors.Join(err, p.cleanUp()) }()
	if err := p.makeInputs(); err != nil {
		return nil, &kindError{comms.ErrorInput, err}
	}
	if err := p.leaseOutputs(); err != nil {
		return nil, err
	}
	spec, err := p.spec()
	if err != nil {
		return nil, err
	}
	stdin, stdout, err := p.redirect(&spec)
	if err == nil {
		err = p.perform(spec)
	}
	err = errors.Join(err, closeAll(stdin, stdout))
	if err != nil {
		return nil, err
	}
	return p.seal()
}

func closeAll(files ...*os.File) error {
	var errs []error
	for _, f := range files {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// perform runs the program and turns a bad end into an error.
func (p *program) perform(spec command.Spec) error {
	r := p.run
	res, err := r.exec.starter.Run(r.ctx, spec)
	if err != nil {
		return &kindError{comms.ErrorSetup, err}
	}
	r.commandCPU, r.usage.PeakRSS = int64(res.CPU), res.PeakRSS
	if err := r.stoppedErr(); err != nil {
		return err
	}
	if err := p.unchanged(); err != nil {
		return err
	}
	switch {
	case res.Signal != "":
		return &exitError{code: -1, signal: res.Signal}
	case res.ExitCode != 0:
		return &exitError{code: int32(res.ExitCode)}
	}
	return nil
}

// exitError is a program's bad end.
type exitError struct {
	code   int32
	signal string
}

func (e *exitError) Error() string {
	if e.signal != "" {
		return "the command was ended by " + e.signal
	}
	return fmt.Sprintf("the command ended with status %d", e.code)
}

// makeInputs finds or makes a file for each input dataset.
func (p *program) makeInputs() error {
	r := p.run
	if len(r.Inputs) != len(r.kind.Inputs) {
		return fmt.Errorf("the run has %d inputs, its kind %d", len(r.Inputs), len(r.kind.Inputs))
	}
	p.inputs, p.lists = make([][]string, len(r.Inputs)), make([]string, len(r.Inputs))
	for i := range r.Inputs {
		in := &r.kind.Inputs[i]
		data := r.Inputs[i].Data
		if !in.List && (len(data) != 1 || data[0].Place.Kind == comms.PlaceNone) {
			return fmt.Errorf("input %q: the dataset is nowhere", in.Name)
		}
		for k := range data {
			if data[k].Place.Kind == comms.PlaceNone {
				continue
			}
			path, err := p.file(in.Name, k, &data[k])
			if err != nil {
				return fmt.Errorf("input %q: %w", in.Name, err)
			}
			before, err := os.Lstat(path)
			if err != nil {
				return fmt.Errorf("input %q: %w", in.Name, err)
			}
			p.inputs[i] = append(p.inputs[i], path)
			p.files = append(p.files, inputFile{in.Name, path, before})
		}
		if in.List {
			if err := p.list(i); err != nil {
				return fmt.Errorf("input %q: %w", in.Name, err)
			}
		}
	}
	return nil
}

// list writes the paths of an input that is a list, one a line: as words they may be too many.
func (p *program) list(input int) error {
	if err := p.makeDir(); err != nil {
		return err
	}
	var b strings.Builder
	for _, path := range p.inputs[input] {
		b.WriteString(path + "\n")
	}
	p.lists[input] = filepath.Join(p.dir, p.run.kind.Inputs[input].Name+"-paths")
	if err := os.WriteFile(p.lists[input], []byte(b.String()), 0o400); err != nil {
		return fmt.Errorf("list the paths for the command: %w", err)
	}
	return nil
}

// file returns the path of a dataset: its own file in the store, or a copy in the scratch
// folder, of a msgpack value as JSON.
func (p *program) file(input string, k int, d *comms.Desc) (string, error) {
	r := p.run
	r.usage.BytesIn += d.Size
	if d.Codec != value.Msgpack && d.Codec != value.Pickle && d.Codec != value.XArray {
		if path, ok := r.exec.mem.wholeFile(d, r.exec.welcome.ShmDir); ok {
			return path, nil
		}
	}
	f, err := p.content(input, d)
	if err != nil {
		return "", err
	}
	switch f.Codec {
	case value.Pickle:
		return "", fmt.Errorf("%s is %s, which only Python tasks read: return %s for a command", r.source(input), value.Pickled(d.DType), value.PlainForm(d.DType))
	case value.XArray:
		return "", errors.New("it is an object of xarray, which only Python tasks read: return its array (x.values), or bytes such as those of x.to_netcdf() for a command")
	}
	b, err := value.Text(f)
	if err != nil {
		return "", fmt.Errorf("%s cannot be a file: %w", r.source(input), err)
	}
	if err := p.makeDir(); err != nil {
		return "", err
	}
	path := filepath.Join(p.dir, input+"-"+strconv.Itoa(k))
	if err := os.WriteFile(path, b, 0o400); err != nil {
		return "", fmt.Errorf("copy dataset for the command: %w", err)
	}
	r.usage.Copied += uint64(len(b))
	return path, nil
}

// source names where an input comes from, as the job says it.
func (r *run) source(input string) string {
	for _, in := range r.kind.Inputs {
		if in.Name == input && in.From != "" {
			return in.From
		}
	}
	return "it"
}

func (p *program) content(input string, d *comms.Desc) (value.Flat, error) {
	r := p.run
	if d.Place.Kind != comms.PlaceLive {
		b, err := r.bytes(input, d)
		return value.Flat{Codec: d.Codec, Bytes: b}, err
	}
	v := r.liveInput(d)
	return v.codec.Encode(v.value)
}

// wholeFile returns the file of a dataset that has one of its own.
func (m *memory) wholeFile(d *comms.Desc, dir string) (string, bool) {
	if d.Place.Kind != comms.PlaceSegment || d.Place.Offset != 0 {
		return "", false
	}
	m.mu.Lock()
	name := m.segs[d.Place.Segment]
	m.mu.Unlock()
	if name == "" {
		return "", false
	}
	path := filepath.Join(dir, name)
	fi, err := os.Stat(path)
	return path, err == nil && fi.Mode().IsRegular() && uint64(fi.Size()) == d.Size
}

func (p *program) makeDir() error {
	if p.dir != "" {
		return nil
	}
	dir := filepath.Join(p.run.exec.welcome.Scratch, "run"+strconv.FormatUint(uint64(p.run.ID), 10))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make scratch folder: %w", err)
	}
	p.dir = dir
	return nil
}

// leaseOutputs gets a place in the store for each output; the command creates the file.
func (p *program) leaseOutputs() error {
	r := p.run
	for i := range r.kind.Outputs {
		l, err := r.exec.mem.request(r.ctx, 0, true, r.ID)
		if err != nil {
			return fmt.Errorf("output %q: %w", r.kind.Outputs[i].Name, err)
		}
		segment := l.Path
		if segment == "" {
			segment = filepath.Join(r.exec.welcome.ShmDir, shm.SegmentName(ledger.Output, ledger.SegmentID(l.Segment)))
		}
		dir := shm.OutputFolder(segment)
		p.outputs = append(p.outputs, commandOutput{lease: l, path: filepath.Join(dir, r.kind.Outputs[i].Name), segment: segment})
		if err := os.Mkdir(dir, 0o700); err != nil {
			return &kindError{comms.ErrorStore, fmt.Errorf("output %q: make its folder: %w", r.kind.Outputs[i].Name, err)}
		}
	}
	return nil
}

// spec puts together command line and environment.
func (p *program) spec() (command.Spec, error) {
	r := p.run
	args, err := p.words()
	if err != nil {
		return command.Spec{}, &kindError{comms.ErrorSetup, err}
	}
	out := r.logger().(streamWriter).logWriter
	return command.Spec{
		Args: args, Env: p.environ(), Dir: r.kind.Dir,
		Output: func(stream uint8, text []byte) { _, _ = out.write(stream, text) }, // a closed log is the end of the run
		Grace:  r.grace, ReadOnly: p.readOnly(),
	}, nil
}

// readOnly lists the files of all inputs, each once.
func (p *program) readOnly() []string {
	paths := make([]string, len(p.files))
	for i := range p.files {
		paths[i] = p.files[i].path
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// unchanged looks for inputs that the command wrote to or replaced, where nothing
// could hinder it: files of its own user, whose modes it changed. A file that was
// mapped and written to through memory looks as before.
func (p *program) unchanged() error {
	for _, f := range p.files {
		after, err := os.Lstat(f.path)
		if err != nil || !os.SameFile(f.before, after) || after.Size() != f.before.Size() || !after.ModTime().Equal(f.before.ModTime()) {
			return wroteTo(f.input)
		}
	}
	return nil
}

// grace is how long the command may take to end; none when the executor itself must.
func (r *run) grace() time.Duration {
	var why *stopped
	switch err := r.stoppedErr(); {
	case !errors.As(err, &why):
		return 0
	case why.grace > 0:
		return why.grace
	}
	return defaultGrace
}

func (p *program) words() ([]string, error) {
	words := p.run.kind.Command
	if p.run.Command != nil {
		words = p.run.Command
	}
	var args []string
	for _, w := range words {
		if len(w.Parts) == 1 && w.Parts[0].Kind == dag.ArgInputs {
			paths, err := p.paths(w.Parts[0])
			if err != nil {
				return nil, err
			}
			args = append(args, paths...)
			continue
		}
		var b strings.Builder
		for _, part := range w.Parts {
			if part.Kind == dag.ArgText {
				b.WriteString(part.Text)
				continue
			}
			paths, err := p.paths(part)
			if err != nil {
				return nil, err
			}
			b.WriteString(strings.Join(paths, " "))
		}
		args = append(args, b.String())
	}
	if len(args) == 0 {
		return nil, errors.New("the command line is empty")
	}
	return args, nil
}

// paths returns the files that a placeholder stands for.
func (p *program) paths(part dag.ArgPart) ([]string, error) {
	k := p.run.kind
	switch part.Kind {
	case dag.ArgInput, dag.ArgInputs, dag.ArgInputsFile:
		for i := range k.Inputs {
			switch {
			case k.Inputs[i].Name != part.Text:
			case part.Kind == dag.ArgInputsFile:
				return p.lists[i : i+1], nil
			default:
				return p.inputs[i], nil
			}
		}
		return nil, fmt.Errorf("the command line names input %q, which the task does not have", part.Text)
	case dag.ArgOutput:
		if i := p.output(part.Text); i >= 0 {
			return []string{p.outputs[i].path}, nil
		}
		return nil, fmt.Errorf("the command line names output %q, which the task does not have", part.Text)
	}
	return nil, fmt.Errorf("the command line has an unresolved part %q", part.Text)
}

func (p *program) output(name string) int {
	return slices.IndexFunc(p.run.kind.Outputs, func(o comms.KindOut) bool { return o.Name == name })
}

// environ makes the environment: this process's without what concerns the
// executor alone, what the job says, and what Cascade tells the command.
func (p *program) environ() []string {
	r := p.run
	env := map[string]string{}
	for _, kv := range os.Environ() {
		if name, v, ok := strings.Cut(kv, "="); ok && !strings.HasPrefix(name, "CASCADE_") {
			env[name] = v
		}
	}
	n := strconv.Itoa(cores(r.kind.Resources.CPU))
	for _, name := range []string{"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "GOMAXPROCS"} {
		env[name] = n
	}
	if m := r.kind.Resources.Memory; m > 0 {
		env["GOMEMLIMIT"] = strconv.FormatInt(m, 10)
	}
	for _, kv := range slices.Concat(r.kind.Env, r.Env) {
		if name, v, ok := strings.Cut(kv, "="); ok {
			env[name] = v
		}
	}
	env["CASCADE_TASK"], env["CASCADE_ATTEMPT"] = r.name(), strconv.FormatUint(uint64(comms.Try(r.Attempt)), 10)
	for i := range r.kind.Inputs {
		name := "CASCADE_IN_" + variable(r.kind.Inputs[i].Name)
		if p.lists[i] != "" {
			env[name+"_FILE"] = p.lists[i]
		}
		if data := r.Inputs[i].Data; len(data) > 0 && data[0].DType != "" {
			env[name+"_DTYPE"] = data[0].DType
			env[name+"_SHAPE"] = shapeText(data[0].Shape)
		}
	}
	for i := range r.kind.Inputs { // behind the others: an input may have the name of what is told of another
		if paths := strings.Join(p.inputs[i], "\n"); len(paths) <= maxListEnv {
			env["CASCADE_IN_"+variable(r.kind.Inputs[i].Name)] = paths
		}
	}
	for i := range r.kind.Outputs {
		env["CASCADE_OUT_"+variable(r.kind.Outputs[i].Name)] = p.outputs[i].path
	}
	out := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out
}

// variable turns a name of the job file into a part of a variable's name.
func variable(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }

func shapeText(shape []uint64) string {
	parts := make([]string, len(shape))
	for i, n := range shape {
		parts[i] = strconv.FormatUint(n, 10)
	}
	return strings.Join(parts, " ")
}

// redirect opens the files of standard input and output.
func (p *program) redirect(spec *command.Spec) (stdin, stdout *os.File, err error) {
	k := p.run.kind
	if k.Stdin != "" {
		paths, err := p.paths(dag.ArgPart{Kind: dag.ArgInput, Text: k.Stdin})
		if err != nil {
			return nil, nil, &kindError{comms.ErrorSetup, err}
		}
		if len(paths) != 1 {
			return nil, nil, &kindError{comms.ErrorSetup, fmt.Errorf("standard input takes one dataset, input %q has %d", k.Stdin, len(paths))}
		}
		if stdin, err = os.Open(paths[0]); err != nil {
			return nil, nil, &kindError{comms.ErrorInput, fmt.Errorf("input %q as standard input: %w", k.Stdin, err)}
		}
		spec.Stdin = stdin
	}
	if k.Stdout != "" {
		i := p.output(k.Stdout)
		if i < 0 {
			return stdin, nil, &kindError{comms.ErrorSetup, fmt.Errorf("standard output goes to output %q, which the task does not have", k.Stdout)}
		}
		if stdout, err = os.OpenFile(p.outputs[i].path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
			return stdin, nil, &kindError{comms.ErrorStore, fmt.Errorf("output %q as standard output: %w", k.Stdout, err)}
		}
		spec.Stdout = stdout
	}
	return stdin, stdout, nil
}

// seal checks that all outputs were written and makes them read-only. Small ones
// that no command reads travel in the message.
func (p *program) seal() ([]comms.Desc, error) {
	r := p.run
	descs := make([]comms.Desc, 0, len(p.outputs))
	for i := range p.outputs {
		o, decl := &p.outputs[i], &r.kind.Outputs[i]
		fi, err := os.Lstat(o.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("the command ended with status 0 but did not write output %q: it must create the file ${out.%s}, also in CASCADE_OUT_%s", decl.Name, decl.Name, variable(decl.Name))
		case err != nil:
			return nil, fmt.Errorf("output %q: %w", decl.Name, err)
		case !fi.Mode().IsRegular():
			return nil, fmt.Errorf("output %q is not a regular file but %s: write the data itself", decl.Name, shm.FileKind(fi.Mode()))
		case fi.Sys().(*syscall.Stat_t).Nlink > 1: // who has the other name could change it, and freeing it would empty the other
			return nil, fmt.Errorf("output %q has other names (hard links): copy the data instead of linking it", decl.Name)
		}
		d := comms.Desc{Ref: comms.DatasetRef{Task: r.Task, Output: uint32(i)}, Attempt: r.Attempt, Codec: value.Raw, Size: uint64(fi.Size())}
		r.usage.BytesOut += d.Size
		if !decl.File && d.Size <= r.exec.welcome.InlineMax {
			b, err := os.ReadFile(o.path)
			if err != nil {
				return nil, fmt.Errorf("output %q: %w", decl.Name, err)
			}
			d.Size, d.Place = uint64(len(b)), comms.Place{Kind: comms.PlaceInline, Bytes: b}
			descs = append(descs, d)
			continue
		}
		if err := errors.Join(os.Chmod(o.path, 0o400), os.Rename(o.path, o.segment)); err != nil {
			return nil, fmt.Errorf("seal output %q: %w", decl.Name, err)
		}
		if d.Size <= r.kind.HashMax {
			if d.Hash, err = hashFile(o.segment); err != nil {
				return nil, fmt.Errorf("hash output %q: %w", decl.Name, err)
			}
		}
		d.Place = comms.Place{Kind: comms.PlaceSegment, Segment: o.lease.Segment}
		descs = append(descs, d)
	}
	for i := range descs {
		p.outputs[i].done = descs[i].Place.Kind == comms.PlaceSegment
	}
	return descs, nil
}

// hashFile is comms.HashOf for the bytes of a file.
func hashFile(path string) (comms.Hash, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return comms.HashFrom(f)
}

// cleanUp removes what the run leaves behind and returns leases without a dataset.
func (p *program) cleanUp() error {
	var errs []error
	for _, o := range p.outputs {
		if err := safedir.Remove(shm.OutputFolder(o.segment)); err != nil {
			errs = append(errs, fmt.Errorf("remove folder of an output: %w", err))
		}
		if o.done {
			continue
		}
		if err := safedir.Remove(o.segment); err != nil {
			errs = append(errs, fmt.Errorf("remove unfinished output: %w", err))
		}
		p.run.exec.mem.giveBack(*o.lease, 0)
	}
	if p.dir != "" {
		if err := safedir.Remove(p.dir); err != nil {
			errs = append(errs, fmt.Errorf("remove scratch folder: %w", err))
		}
	}
	return errors.Join(errs...)
}
