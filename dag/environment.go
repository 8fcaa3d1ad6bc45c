package dag

import (
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Environment is what tasks need installed. Kind-specific settings are kept as
// they were written; agent/runtimeenv interprets them.
type Environment struct {
	Name       string
	Go         string            // folder of a Go package whose registered functions are tasks; "" if none
	Binary     string            // executor that is built already, for whatever platform; "" if none
	Binaries   []Binary          // the same for each of some platforms, sorted by that: others have none
	Python     *Python           // interpreter and packages of Python functions; nil if none
	WorkingDir string            // folder or archive (also a Package or an Address) in which its processes start, a copy of it; "" is the job's folder
	PyModules  []string          // folders, files and archives (Packages, Addresses) that Python can import from
	Vars       map[string]string // environment variables
	Container  *Container        // image that its processes see; nil is the host
	Plugins    []Field           // settings of plugins that hosts have beside the built-in ones, sorted by name
	Source     string            // folder that relative paths refer to
}

// Kind names what makes an environment's executor: "go", "python", "binary", or
// "default" for the executor that comes with the agent.
func (e *Environment) Kind() string {
	switch {
	case e.Go != "":
		return "go"
	case e.Python != nil:
		return "python"
	case e.Binary != "" || len(e.Binaries) > 0:
		return "binary"
	}
	return "default"
}

// Python says which interpreter and which packages Python functions need.
type Python struct {
	Version string   // specifiers such as ">=3.10,<3.13"; "3.12" is any 3.12; "" is any that Cascade supports
	Pip     []string // requirements as pip writes them
	Wheels  string   // folder of wheels beside the package index; "" if none
	Offline bool     // take packages from Wheels and the cache alone
}

// environmentPlain is how many elements an encoded environment has that uses
// nothing but a Go package, a folder and variables: the layout before there was
// anything else, which stored graphs have.
const (
	environmentPlain = 4
	environmentFull  = 8
)

var (
	environmentKeys = []string{"go", "python", "binary", "working_dir", "py_modules", "env", "container", "conda", "plugins", "source"}
	pythonKeys      = []string{"version", "pip", "wheels", "offline"}
)

func (j *jobFile) environment(p pair) {
	name := p.key.Value
	what := fmt.Sprintf("environment %q", clip(name))
	e := Environment{Name: name, Source: j.opt.Dir}
	for _, k := range j.keyed(p.val, what, environmentKeys) {
		switch of := what + ": " + k.key.Value; k.key.Value {
		case "go":
			e.Go, _ = j.text(k.val, of)
		case "binary":
			j.binary(&e, k.val, of)
		case "python":
			e.Python = j.python(k.val, of)
		case "working_dir":
			e.WorkingDir, _ = j.text(k.val, of)
		case "py_modules":
			e.PyModules = j.texts(k.val, of)
		case "container":
			e.Container = j.container(k.val, of)
		case "conda":
			j.addPlugins(&e, k, j.conda(k.val, of))
		case "plugins":
			j.addPlugins(&e, k, j.plugins(k.val, of))
		case "source":
			if s, ok := j.text(k.val, of); ok && s != "" {
				e.Source = s
				if !path.IsAbs(s) {
					e.Source = path.Join(j.opt.Dir, s)
				}
			}
		case "env":
			e.Vars = map[string]string{}
			for _, v := range j.pairs(k.val, of) {
				e.Vars[v.key.Value], _ = j.text(v.val, of+" "+v.key.Value)
			}
		}
	}
	j.g.Environments = append(j.g.Environments, e)
}

func (j *jobFile) python(n *yaml.Node, what string) *Python {
	py := &Python{}
	for _, k := range j.keyed(n, what, pythonKeys) {
		switch of := what + ": " + k.key.Value; k.key.Value {
		case "version":
			py.Version, _ = j.text(k.val, of)
			if tooOld(py.Version) {
				j.problem(k.val, fmt.Sprintf("%s: %q admits no Python from %s on, and Cascade takes no older one", of, clip(py.Version), OldestPython), versionHint)
			}
		case "pip":
			py.Pip = j.texts(k.val, of)
		case "wheels":
			py.Wheels, _ = j.text(k.val, of)
		case "offline":
			py.Offline = j.truth(k.val, of)
		}
	}
	return py
}

// texts reads a list of texts; one text is a list of one.
func (j *jobFile) texts(n *yaml.Node, what string) (out []string) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null" {
		if s, ok := j.text(n, what); ok {
			out = append(out, s)
		}
		return out
	}
	for _, item := range j.items(n, what) {
		if s, ok := j.text(item, what); ok {
			out = append(out, s)
		}
	}
	return out
}

// checkEnvironment finds what is wrong with an environment.
func checkEnvironment(e *Environment) error {
	kinds := 0
	for _, set := range []bool{e.Go != "", e.Binary != "" || len(e.Binaries) > 0, e.Python != nil} {
		if set {
			kinds++
		}
	}
	if kinds > 1 {
		return mistake("it has more than one of go, python and binary", "make two environments: a task's functions come from one of them")
	}
	for _, text := range []string{e.Go, e.Binary, e.Source} {
		if err := checkPlace(text, false); err != nil {
			return err
		}
	}
	for _, text := range append([]string{e.WorkingDir}, e.PyModules...) {
		if err := checkPlace(text, true); err != nil {
			return err
		}
	}
	if len(e.PyModules) > 0 && e.Python == nil {
		return mistake("it has py_modules and no python", "add python: {} for the interpreter")
	}
	if slices.Contains(e.PyModules, "") {
		return mistake("an entry of py_modules is empty", "name a folder, a .py file, a .zip or a .whl")
	}
	if e.Python != nil {
		if err := checkPython(e.Python); err != nil {
			return err
		}
	}
	if err := checkBinaries(e); err != nil {
		return err
	}
	if err := checkContainer(e); err != nil {
		return err
	}
	if err := checkPlugins(e.Plugins); err != nil {
		return err
	}
	return checkVars(e.Vars)
}

// checkPlace finds what is wrong with a path, the package in its place, or the address where one may stand.
func checkPlace(text string, address bool) error {
	if err := checkText(text); err != nil {
		return err
	}
	if err := checkPackage(text); err != nil {
		return err
	}
	return checkAddress(text, address)
}

func checkVars(vars map[string]string) error {
	for _, k := range sortedKeys(vars) {
		if err := checkVarName(k); err != nil {
			return err
		}
		if err := checkText(vars[k]); err != nil {
			return err
		}
	}
	return nil
}

// maxRequirements bounds the requirements of one environment.
const maxRequirements = 1000

// Versions and requirements as PEP 440 and PEP 508 write them, apart from what
// stands behind ; which the installer reads.
var (
	versionSpec = regexp.MustCompile(`^(~=|===?|!=|<=?|>=?) *[0-9A-Za-z][0-9A-Za-z.!+*_-]*$`)
	plainNumber = regexp.MustCompile(`^[0-9]+(\.[0-9]+){0,2}$`)
	requirement = regexp.MustCompile(`^([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?) *(\[[A-Za-z0-9._, -]*\])? *(.*)$`)
)

func checkPython(py *Python) error {
	if py.Version != "" && !plainNumber.MatchString(py.Version) && !specifiers(py.Version) {
		return mistake(fmt.Sprintf("%q is no version of Python", clip(py.Version)), versionHint)
	}
	if err := checkText(py.Wheels); err != nil {
		return err
	}
	if len(py.Pip) > maxRequirements {
		return mistake(fmt.Sprintf("%d requirements: at most %d are allowed", len(py.Pip), maxRequirements), "")
	}
	for _, text := range py.Pip {
		if err := checkRequirement(text); err != nil {
			return err
		}
	}
	return nil
}

// checkRequirement checks the form of NAME[EXTRAS] SPECIFIERS or NAME @ URL, with a marker behind ;.
func checkRequirement(text string) error {
	if err := checkText(text); err != nil {
		return err
	}
	bad := func(hint string) error {
		return mistake(fmt.Sprintf("%q is no requirement", clip(text)), hint)
	}
	body, _, _ := strings.Cut(text, ";")
	if strings.ContainsAny(text, "\n\r#") && !strings.Contains(text, "@") {
		return bad("one requirement in one line, without a comment")
	}
	if strings.HasPrefix(text, "-") {
		return bad("options of pip have no place here; wheels names a folder of wheels, the index is that of the host")
	}
	m := requirement.FindStringSubmatch(strings.TrimSpace(body))
	if m == nil {
		return bad(`a name with specifiers, such as "numpy>=2,<3", or "name @ URL"`)
	}
	rest := strings.TrimSpace(m[3])
	if rest == "" || strings.HasPrefix(rest, "@") && strings.TrimSpace(rest[1:]) != "" {
		return nil
	}
	if strings.HasPrefix(rest, "(") && strings.HasSuffix(rest, ")") {
		rest = rest[1 : len(rest)-1]
	}
	if !specifiers(rest) {
		return bad(fmt.Sprintf("%q is no list of specifiers such as >=2,<3", clip(rest)))
	}
	return nil
}

// OldestPython is the first version of Python that executors are written for.
const OldestPython = "3.10"

const versionHint = `write "3.12", or specifiers such as ">=3.10,<3.13"`

// tooOld tells whether a version, or one of its specifiers, admits only what is older
// than OldestPython. Others are left to the hosts that look for an interpreter.
func tooOld(version string) bool {
	return slices.ContainsFunc(strings.Split(version, ","), func(part string) bool {
		text := strings.TrimLeft(part, "~=!<> ")
		op := strings.TrimSpace(strings.TrimSuffix(part, text))
		rest := 0 // the numbers that are not there
		switch op {
		case "!=", ">", ">=":
			return false
		case "":
			rest = math.MaxInt
		case "~=":
			text, rest = text[:max(0, strings.LastIndexByte(text, '.'))], math.MaxInt
		case "==":
			if prefix, all := strings.CutSuffix(text, ".*"); all {
				text, rest = prefix, math.MaxInt
			}
		}
		newest, ok := versionNumbers(text, rest)
		oldest, _ := versionNumbers(OldestPython, 0)
		c := slices.Compare(newest, oldest)
		return ok && (c < 0 || c == 0 && op == "<")
	})
}

// versionNumbers returns the three numbers of a version; those that it does not have are rest.
func versionNumbers(text string, rest int) (out []int, ok bool) {
	out = []int{rest, rest, rest}
	for i, word := range strings.Split(strings.TrimSpace(text), ".") {
		n, err := strconv.Atoi(word)
		if err != nil || i == len(out) {
			return nil, false
		}
		out[i] = n
	}
	return out, true
}

func specifiers(text string) bool {
	for part := range strings.SplitSeq(text, ",") {
		if !versionSpec.MatchString(strings.TrimSpace(part)) {
			return false
		}
	}
	return true
}

func (e encoder) environment(x *Environment) {
	size := environmentWhole
	switch {
	case len(x.Binaries) > 0:
		size = environmentBuilt
	case x.Container != nil || len(x.Plugins) > 0:
	case x.Binary != "" || x.Python != nil || x.WorkingDir != "" || len(x.PyModules) > 0:
		size = environmentFull
	default:
		size = environmentPlain
	}
	e.array(size)
	e.string(x.Name)
	e.string(x.Go)
	e.string(x.Source)
	keys := sortedKeys(x.Vars)
	e.array(len(keys) * 2)
	for _, k := range keys {
		e.string(k)
		e.string(x.Vars[k])
	}
	if size == environmentPlain {
		return
	}
	e.string(x.Binary)
	if py := x.Python; py == nil {
		e.array(0)
	} else {
		e.array(4)
		e.string(py.Version)
		e.strings(py.Pip)
		e.string(py.Wheels)
		e.bool(py.Offline)
	}
	e.string(x.WorkingDir)
	e.strings(x.PyModules)
	if size == environmentFull {
		return
	}
	e.container(x.Container)
	e.fields(x.Plugins)
	if size == environmentBuilt {
		e.binaries(x.Binaries)
	}
}

func (e encoder) strings(list []string) {
	e.array(len(list))
	for _, s := range list {
		e.string(s)
	}
}

func (d *decoder) environment() (e Environment) {
	n := d.array()
	if d.err == nil && n != environmentPlain && n != environmentFull && n != environmentWhole && n != environmentBuilt {
		d.fail(fmt.Errorf("environment of %d elements", n))
		return e
	}
	e.Name, e.Go, e.Source = d.string(), d.string(), d.string()
	for range d.pairs() {
		if e.Vars == nil {
			e.Vars = map[string]string{}
		}
		k := d.string()
		e.Vars[k] = d.string()
	}
	if n == environmentPlain {
		return e
	}
	e.Binary = d.string()
	switch n := d.array(); n {
	case 0:
	case 4:
		e.Python = &Python{Version: d.string(), Pip: listOf(d, d.array(), d.string), Wheels: d.string(), Offline: d.bool()}
	default:
		d.fail(fmt.Errorf("python of %d elements", n))
	}
	e.WorkingDir = d.string()
	e.PyModules = listOf(d, d.array(), d.string)
	if n >= environmentWhole {
		e.Container, e.Plugins = d.container(), d.fields()
	}
	if n == environmentBuilt {
		e.Binaries = d.binaries()
	}
	return e
}

func environmentText(e *Environment) string {
	var w []string
	add := func(key, text string) {
		if text != "" {
			w = append(w, key+": "+quote(escapeText(text)))
		}
	}
	add("go", e.Go)
	add("binary", e.Binary)
	w = append(w, binariesText(e)...)
	if py := e.Python; py != nil {
		outer := w
		w = nil
		add("version", py.Version)
		if len(py.Pip) > 0 {
			w = append(w, "pip: "+textList(py.Pip))
		}
		add("wheels", py.Wheels)
		if py.Offline {
			w = append(w, "offline: true")
		}
		w = append(outer, "python: {"+strings.Join(w, ", ")+"}")
	}
	add("working_dir", e.WorkingDir)
	if len(e.PyModules) > 0 {
		w = append(w, "py_modules: "+textList(e.PyModules))
	}
	w = append(w, containerText(e)...)
	add("source", e.Source)
	if len(e.Vars) > 0 {
		var v []string
		for _, k := range sortedKeys(e.Vars) {
			v = append(v, quote(k)+": "+quote(escapeText(e.Vars[k])))
		}
		w = append(w, "env: {"+strings.Join(v, ", ")+"}")
	}
	return "{" + strings.Join(w, ", ") + "}"
}

func textList(texts []string) string {
	out := slices.Clone(texts)
	for i := range out {
		out[i] = quote(escapeText(out[i]))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

func environmentSchema() map[string]any {
	texts := func() map[string]any { return anyOf(text(), list(text())) }
	python := strict(object("Interpreter and packages of Python functions.", map[string]any{
		"version": described(anyOf(text(), map[string]any{"type": "number"}), `"3.12", or specifiers such as ">=3.10,<3.13".`),
		"pip":     described(texts(), "Requirements as pip writes them."),
		"wheels":  described(text(), "Folder of wheels that are taken into account beside the package index."),
		"offline": described(boolean(), "Packages come from wheels and the cache alone."),
	}))
	python["type"] = []string{"object", "null"}
	return strict(object("An environment.", map[string]any{
		"go":          described(text(), "Folder of a Go package whose registered functions are tasks, such as ./fields."),
		"python":      python,
		"binary":      described(anyOf(text(), mapping("One for each platform, such as linux/amd64.", text())), "Program that is an executor and was built already."),
		"working_dir": described(text(), "Folder or .zip (or URL of one) in which its processes start, a copy of it; the job's folder by default."),
		"py_modules":  described(texts(), "Packages (folders), .py files, folders of modules, .zip and .whl (or URLs of these) that Python can import."),
		"env":         mapping("Environment variables of its executors.", scalar()),
		"container":   containerSchema(),
		"conda":       condaSchema(),
		"plugins":     mapping("Settings of plugins that hosts have beside the built-in ones, by name of the plugin.", map[string]any{}),
		"source":      described(text(), "Folder that relative paths refer to; the job file's own by default."),
	}))
}
