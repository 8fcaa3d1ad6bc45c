package dag

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Binary is an executor that was built for the hosts of one platform.
type Binary struct {
	Platform string // operating system and architecture as Go names them, such as "linux/amd64"
	Path     string // of the program, or the Package that it is
}

// environmentBuilt is how many elements an encoded environment has with a binary for
// each platform, which came last.
const environmentBuilt = 11

// agentsRunOn is the operating system of agents; architectures are those for which Go
// builds there, otherwise what else they are called.
const agentsRunOn = "linux"

var (
	architectures = []string{"386", "amd64", "arm", "arm64", "loong64", "mips", "mips64", "mips64le", "mipsle", "ppc64", "ppc64le", "riscv64", "s390x"}
	otherwise     = map[string]string{"x86_64": "amd64", "x86-64": "amd64", "x64": "amd64", "aarch64": "arm64", "armv7": "arm", "armv8": "arm64", "i386": "386", "i686": "386", "x86": "386"}
)

// ProgramEnvironment is the environment of the functions of a program that submits a graph
// and is sent with it: its executors must have the functions as that program has them.
const ProgramEnvironment = "cascade.program"

// WithProgram returns the graph with its functions that are in no environment in one of
// the program that submits it. Environments of a session that name no executor have that
// program as theirs: it calls its own functions in them.
func (g *Graph) WithProgram(env Environment) (*Graph, error) {
	if env.Name != ProgramEnvironment || slices.ContainsFunc(g.Environments, func(e Environment) bool { return e.Name == env.Name }) {
		return nil, fmt.Errorf("graph %q: an environment of a program has the name %s, and is its only one", g.Name, ProgramEnvironment)
	}
	if err := checkEnvironment(&env); err != nil {
		return nil, fmt.Errorf("environment %q: %w", env.Name, err)
	}
	out := *g
	out.Environments = append(slices.Clone(g.Environments), env)
	for i := range out.Environments {
		if e := &out.Environments[i]; g.IsSession() && e.Kind() == "default" {
			e.Binaries = env.Binaries
		}
	}
	out.Groups = slices.Clone(g.Groups)
	for i := range out.Groups {
		if run := &out.Groups[i].Run; run.Environment == "" && run.Function != "" && !out.Groups[i].IsInput() {
			run.Environment = env.Name
		}
	}
	return &out, nil
}

// CheckPlatform refuses what is no platform of agents.
func CheckPlatform(platform string) error {
	system, arch, ok := strings.Cut(platform, "/")
	if !ok {
		return mistake(fmt.Sprintf("%q is no platform", clip(platform)), "write SYSTEM/ARCHITECTURE, such as linux/amd64")
	}
	if usual := otherwise[arch]; usual != "" {
		return mistake(fmt.Sprintf("%q is no platform", clip(platform)), "Go calls it "+agentsRunOn+"/"+usual)
	}
	switch {
	case system != agentsRunOn:
		return mistake(fmt.Sprintf("no agent is of platform %q", clip(platform)), "agents run on "+agentsRunOn+", such as linux/amd64")
	case !slices.Contains(architectures, arch):
		return mistake(fmt.Sprintf("%q is no platform", clip(platform)), "architectures are "+strings.Join(architectures, ", "))
	}
	return nil
}

// Platforms returns those for which the environment has a binary, sorted; none when it
// can be made on hosts of any.
func (e *Environment) Platforms() []string {
	out := make([]string, 0, len(e.Binaries))
	for _, b := range e.Binaries {
		out = append(out, b.Platform)
	}
	return out
}

// BinaryFor returns path or package of the binary for a platform, "" when there is none.
func (e *Environment) BinaryFor(platform string) string {
	for _, b := range e.Binaries {
		if b.Platform == platform {
			return b.Path
		}
	}
	return e.Binary
}

// EnvironmentOf returns the environment that a group's tasks run in; nil for the
// executor that comes with the agent.
func (g *Graph) EnvironmentOf(grp *Group) *Environment {
	for i := range g.Environments {
		if e := &g.Environments[i]; e.Name == grp.Run.Environment && e.Name != "" {
			return e
		}
	}
	return nil
}

// NamesPlatforms tells whether an environment of the graph has a binary for each of
// some platforms: a version of Cascade before that cannot read it.
func (g *Graph) NamesPlatforms() bool {
	return slices.ContainsFunc(g.Environments, func(e Environment) bool { return len(e.Binaries) > 0 })
}

// binary reads the path of a program, or a mapping of platforms to paths.
func (j *jobFile) binary(e *Environment, n *yaml.Node, what string) {
	if n.Kind != yaml.MappingNode {
		e.Binary, _ = j.text(n, what)
		return
	}
	for _, p := range j.pairs(n, what) {
		path, _ := j.text(p.val, what+" "+p.key.Value)
		e.Binaries = append(e.Binaries, Binary{p.key.Value, path})
	}
	slices.SortFunc(e.Binaries, func(a, b Binary) int { return strings.Compare(a.Platform, b.Platform) })
	if len(e.Binaries) == 0 {
		j.fail(n, mistake(what+" names no program", "binary: PATH, or binary: {linux/amd64: PATH, linux/arm64: PATH}"))
	}
}

func checkBinaries(e *Environment) error {
	if e.Binary != "" && len(e.Binaries) > 0 {
		return mistake("it has one binary and one for each platform", "name all of them with their platforms")
	}
	for i, b := range e.Binaries {
		if err := CheckPlatform(b.Platform); err != nil {
			return err
		}
		if i > 0 && e.Binaries[i-1].Platform >= b.Platform {
			return mistake("its binaries are not sorted by platform, each once", "")
		}
		if b.Path == "" {
			return mistake("its binary for "+b.Platform+" has no path", "name the program that was built for it")
		}
		if err := checkPlace(b.Path, false); err != nil {
			return err
		}
	}
	return nil
}

func (e encoder) binaries(all []Binary) {
	e.array(2 * len(all))
	for _, b := range all {
		e.string(b.Platform)
		e.string(b.Path)
	}
}

func (d *decoder) binaries() (all []Binary) {
	return listOf(d, d.pairs(), func() Binary { return Binary{d.string(), d.string()} })
}

// binariesText is the binaries of an environment, as a job file has them.
func binariesText(e *Environment) (w []string) {
	var all []string
	for _, b := range e.Binaries {
		all = append(all, b.Platform+": "+quote(escapeText(b.Path)))
	}
	if all != nil {
		w = append(w, "binary: {"+strings.Join(all, ", ")+"}")
	}
	return w
}
