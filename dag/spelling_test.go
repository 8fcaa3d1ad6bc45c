package dag

import (
	"fmt"
	"strings"
	"testing"
)

// spelledScalars are what a YAML file may have in the place of a value.
var spelledScalars = []string{
	"3", "-3", "+5", "0", "-0", "007", "0x1F", "0o17", "1_000", "9223372036854775807", "9007199254740993",
	"3.10", "2.0", "1e7", "4651090e2", "1E-7", "-0.0", ".5", "1e21", "1234567.5", "!!float 3", "!!str 3", "!!int 3", "! 3",
	"true", "True", "yes", "null", "~", "2024-02-29", "10:30", "x", `"3.10"`, "fix it", "[1.50, 2]", "{a: 1.50}",
	"9223372036854775808", "1e400", ".inf", "!!float x", "!!int 3.5", "!!bool 5", "!!null x", "!!set {a}", "!!python/name:os.system x", "!!seq {a: b}",
}

// TestSpellings: each scalar as a parameter, in with:, as an environment variable and as a word of a
// command is what the golden file says: equal in kind where a value is wanted, as it is written where a text is.
func TestSpellings(t *testing.T) {
	var b strings.Builder
	for _, s := range spelledScalars {
		fmt.Fprintf(&b, "%s\n", s)
		graphOf(t, &b, "  with", "", "tasks: {t: {run: F, with: {v: "+s+"}}}")
		graphOf(t, &b, "  env", "", "tasks: {t: {command: [x], env: {V: "+s+"}}}")
		graphOf(t, &b, "  word", "", "tasks: {t: {command: [x, "+s+"]}}")
		const uses = `tasks: {t: {for: {i: [0]}, command: [x, "${params.v}", "v${params.v}", "${string(params.v)}", "${params.w}"], env: {V: "${params.v}"}}, u: {run: F, with: {v: "${params.v}", text: "v${params.v}"}}}`
		graphOf(t, &b, "  param", "", "params: {v: "+s+`, w: "${params.v}"}`+"\n"+uses)
		graphOf(t, &b, "  flag", s, `params: {v: null}`+"\n"+`tasks: {t: {command: [x, "${params.v}"]}, u: {run: F, with: {v: "${params.v}"}}}`)
	}
	for _, s := range []string{"fix #12", "&x y", "*x", "run 3: second try", "@home", "[WIP] fix", "[a, b", "{a", "- a", "% x", "'quoted'", `"3"`, "", " 3 ", "a: b", "!!str 3", "${params.v}", "12345678901234567890", "[1, 2.50]", "{a: 1}"} {
		fmt.Fprintf(&b, "--param v=%s\n", s)
		graphOf(t, &b, "  flag", s, "params: {v: null}\ntasks: {u: {run: F, with: {v: \"${params.v}\"}}}")
	}
	graphOf(t, &b, "a list, by a loop variable", "", "params: {v: [3.9, 3.10, {a: 1e3}]}\ntasks: {t: {for: {i: [0, 1], k: [a]}, command: [x, \"${params.v[i]}\", \"${params.v[2][k]}\", \"${params.v[2].a}\", \"${params.v[i] * 2}\"]}}")
	graphOf(t, &b, "computed", "", "params: {n: 2000000, f: 0.5}\ntasks: {t: {command: [x, \"${params.n / 2}\", \"${params.n / 3}\", \"${params.f * 2}\", \"${params.f * 3}\", \"${2 ** 60}\", \"${2.0 ** 80}\", \"${1 / params.n / 1000}\", \"${string(params.n / 2)}\", \"${string(true)}\"]}}")
	golden(t, "testdata/spellings.golden", []byte(b.String()))
}

// graphOf writes what the tasks of a job have, or its mistakes.
func graphOf(t *testing.T, b *strings.Builder, what, flag, body string) {
	over := Override{}
	if what == "  flag" {
		over.Flags = []string{"v=" + flag}
	}
	g, err := ParseYAML("j", []byte("job: j\n"+body), over, Options{})
	if err != nil {
		fmt.Fprintf(b, "%s: %s\n", what, strings.ReplaceAll(err.Error(), "\n", "\n    "))
		return
	}
	checkRoundTrip(t, g)
	for n := range g.NumTasks() {
		i := TaskIndex(n)
		fmt.Fprintf(b, "%s:", what)
		with, err := g.With(i)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range with {
			fmt.Fprintf(b, " %#v", f.Value)
		}
		env, err := g.EnvVars(i)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range env {
			fmt.Fprintf(b, " $%s=%s", f.Name, f.Value)
		}
		words, err := g.Command(i)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range words[min(1, len(words)):] {
			fmt.Fprintf(b, " %q", w.String())
		}
		b.WriteString("\n")
	}
}
