package dag

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A shell reads a quoted text as one word, which is the text.
func TestQuote(t *testing.T) {
	texts := []string{"", "plain", "a b", "it's", `"$HOME"`, "`id`; $(id)", "a\nb", `\`, "*", "~", "-n", "ä;ö", "''", "#x", "a=b", "!1"}
	for _, text := range texts {
		g, err := ParseYAML("job.yaml", []byte(`{job: j, params: {x: a}, tasks: {t: {for: {v: ["x"]}, command: "printf %s ${quote(params.x)}${quote(params.x + v)} ${ quote ( v + \")\" ) }"}}}`),
			Override{Flags: []string{"x=" + text}}, Options{})
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		words, err := g.Command(0)
		if err != nil {
			t.Fatal(err)
		}
		script := words[2].String()
		out, err := exec.Command("/bin/sh", "-c", strings.ReplaceAll(script, "$${", "${")).Output()
		if want := text + text + "x" + "x)"; err != nil || string(out) != want {
			t.Errorf("%s printed %q, want %q (%v)", script, out, want, err)
		}
	}
}

func TestQuoteMistakes(t *testing.T) {
	for expr, want := range map[string]string{
		"quote(params.x) + 'a'":             "quote(x) is the whole of a placeholder",
		"quote(params.x) + quote(params.x)": "quote(x) is the whole of a placeholder",
		"quote()":                           "quote(x) is the whole of a placeholder",
		"quote(params.l)":                   "cannot be part of a text",
		"quote(params.y)":                   `unknown parameter "y"`,
		"quote(params.x":                    "",
	} {
		_, err := ParseYAML("job.yaml", []byte(`{job: j, params: {x: a, l: [1]}, tasks: {t: {command: "echo ${`+expr+`}"}}}`), Override{}, Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", expr, err)
		}
	}
}

func TestUnquoted(t *testing.T) {
	g, err := ParseYAML("job.yaml", []byte(`
job: j
params: {text: a, n: 1, list: [a], any: null, yes: true}
tasks:
  a: {command: "echo ${params.text}"}
  b: {command: "echo ${quote(params.text)} ${params.n} ${params.yes}"}
  c: {command: [echo, "${params.text}"]}
  d: {command: "echo ${params.n + 1} '${params.list[0]}' ${upper(params['any'] ?? 'x')}"}
  e: {for: {x: [1]}, command: "echo ${x} ${params.text + 'a'}"}
`), Override{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []Unquoted{{"a", "text", "params.text"}, {"d", "list", "params.list[0]"}, {"d", "any", "upper(params['any'] ?? 'x')"}, {"e", "text", "params.text + 'a'"}}
	if got := g.Unquoted(); !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
