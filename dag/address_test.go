package dag_test

import (
	"strings"
	"testing"

	"github.com/cascade-run/cascade/dag"
)

func TestParseAddress(t *testing.T) {
	hash := strings.Repeat("0a", 32)
	for _, c := range []struct {
		text string
		want dag.Address
		ok   bool
	}{
		{"https://host/dir/code.zip", dag.Address{URL: "https://host/dir/code.zip", Name: "code.zip"}, true},
		{"http://host:8000/m-1.whl?key=1", dag.Address{URL: "http://host:8000/m-1.whl?key=1", Name: "m-1.whl"}, true},
		{"https://host/Code.ZIP#sha256=" + hash, dag.Address{URL: "https://host/Code.ZIP", Hash: hash, Name: "Code.ZIP"}, true},
		{"https://host/code.zip#sha256=" + hash[2:], dag.Address{}, false},
		{"https://host/code.zip#sha256=" + strings.ToUpper(hash), dag.Address{}, false},
		{"https://host/code.zip#md5=" + hash, dag.Address{}, false},
		{"https://host/code.zip#", dag.Address{}, false},
		{"https://host/code.tar.gz", dag.Address{}, false},
		{"https://host/?a=b.zip", dag.Address{}, false},
		{"https:///code.zip", dag.Address{}, false},
		{"https://host:PORT/code.zip", dag.Address{}, false},
		{"https://host/a b.zip", dag.Address{}, false},
		{"ftp://host/code.zip", dag.Address{}, false},
		{"./code.zip", dag.Address{}, false},
		{"", dag.Address{}, false},
	} {
		a, ok := dag.ParseAddress(c.text)
		if a != c.want || ok != c.ok {
			t.Errorf("%q: %v, %v", c.text, a, ok)
		}
	}
}

func FuzzParseAddress(f *testing.F) {
	f.Add("https://host/code.zip#sha256=" + strings.Repeat("0a", 32))
	f.Fuzz(func(t *testing.T, text string) {
		a, ok := dag.ParseAddress(text)
		if !ok {
			return
		}
		again := a.URL
		if a.Hash != "" {
			again += "#sha256=" + a.Hash
		}
		if again != text || strings.ContainsAny(a.Name, "/\\ ") {
			t.Errorf("%q became %+v", text, a)
		}
	})
}

// Where an address may stand, and what is said of one elsewhere.
func TestAddressInEnvironment(t *testing.T) {
	for _, c := range []struct{ settings, want string }{
		{`{working_dir: "https://host/code.zip"}`, ""},
		{`{python: {}, py_modules: ["https://host/m.whl"]}`, ""},
		{`{go: "https://host/code.zip"}`, "is an address"},
		{`{binary: "https://host/code.zip"}`, "is an address"},
		{`{working_dir: "https://host/code.tgz"}`, "does not end in .zip or .whl"},
		{`{working_dir: "https://host/code.zip#sha256=12"}`, "no hash behind the #"},
	} {
		_, err := dag.ParseYAML("job.yaml", []byte("job: j\nenvironments:\n  e: "+c.settings+"\ntasks:\n  a: {command: [x], environment: e}\n"), dag.Override{}, dag.Options{})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.settings, err)
		}
	}
}
