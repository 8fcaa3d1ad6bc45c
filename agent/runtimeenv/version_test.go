package runtimeenv

import (
	"io/fs"
	"slices"
	"testing"
)

func TestVersions(t *testing.T) {
	for _, c := range []struct {
		spec string
		yes  []string
		no   []string
	}{
		{"", []string{"3.10.0", "3.13.1"}, nil},
		{"3.11", []string{"3.11.0", "3.11.12"}, []string{"3.1.1", "3.12.0", "3.110.0"}},
		{"3.11.7", []string{"3.11.7"}, []string{"3.11.70", "3.11.8"}},
		{">=3.10,<3.13", []string{"3.10.0", "3.12.9"}, []string{"3.13.0", "3.9.18"}},
		{"!=3.11.*", []string{"3.10.1", "3.12.1"}, []string{"3.11.1"}},
		{"~=3.11", []string{"3.11.0", "3.12.0"}, []string{"3.10.9"}},
		{"~=3.11.2", []string{"3.11.2", "3.11.9"}, []string{"3.11.1", "3.12.0"}},
		{"> 3.12.1", []string{"3.12.2", "3.13.0"}, []string{"3.12.1"}},
		{"<=3.12", []string{"3.12.0", "3.11.9"}, []string{"3.12.1"}},
		{"===3.12.1", []string{"3.12.1"}, []string{"3.12.2"}},
	} {
		want, err := parseSpec(c.spec)
		if err != nil {
			t.Errorf("%q: %v", c.spec, err)
			continue
		}
		for _, v := range c.yes {
			if !admits(want, v) {
				t.Errorf("%q does not admit %s", c.spec, v)
			}
		}
		for _, v := range c.no {
			if admits(want, v) {
				t.Errorf("%q admits %s", c.spec, v)
			}
		}
	}
	for _, bad := range []string{"three", ">=", ">3.*", "~=3", ">=3.10,", "3.x"} {
		if _, err := parseSpec(bad); err == nil {
			t.Errorf("%q is taken for a specification", bad)
		}
	}
	order := []string{"3.9.18", "3.14.0a1", "3.14.0a2", "3.14.0b1", "3.14.0", "3.14.1"}
	shuffled := []string{order[3], order[5], order[0], order[2], order[4], order[1]}
	slices.SortFunc(shuffled, compareVersions)
	if !slices.Equal(shuffled, order) {
		t.Errorf("order %v", shuffled)
	}
}

func TestNormalRequirements(t *testing.T) {
	for _, c := range [][2]string{
		{"NumPy", "numpy"},
		{"Foo.Bar__baz  >= 2 , <3", "foo-bar-baz<3,>=2"},
		{"x[B, a,b] (==1.0)", "x[a,b]==1.0"},
		{"x;python_version  >  '3'", "x ; python_version > '3'"},
		{"x@ https://host/x;1.whl ; sys_platform == 'linux'", "x @ https://host/x;1.whl ; sys_platform == 'linux'"},
		{"a", "a"},
	} {
		if got := normalRequirement(c[0]); got != c[1] {
			t.Errorf("%q becomes %q, want %q", c[0], got, c[1])
		}
	}
	got := normalRequirements([]string{"b", "A", "a", "b>1"})
	if want := []string{"a", "b", "b>1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestIndexFrom(t *testing.T) {
	folder := t.TempDir()
	for _, c := range []struct {
		what     string
		settings string
		env      map[string]string
		main     string
		vars     []string
	}{
		{"nothing", "", nil, "", nil},
		{"a file", "[global]\nindex-url = https://one/simple\nextra_index_url =\n  https://two/simple\n  https://three/simple\n# end\n", nil,
			"https://one/simple", []string{"UV_DEFAULT_INDEX=https://one/simple", "UV_INDEX=https://two/simple https://three/simple"}},
		{"what is set for install goes before", "[install]\nindex-url: https://two\n[global]\nindex-url: https://one\n", nil,
			"https://two", []string{"UV_DEFAULT_INDEX=https://two"}},
		{"other sections", "index-url = https://zero\n[list]\nindex-url = https://one\n", nil, "", nil},
		{"a variable of uv goes before all", "[global]\nindex-url = https://env\ncert = /ca\n", map[string]string{"UV_INDEX_URL": "https://uv", "SSL_CERT_FILE": "/other"},
			"https://uv", nil},
		{"folders that are there", "[global]\nfind-links = /nowhere/at/all " + folder + "\n", nil, "", []string{"UV_FIND_LINKS=" + folder}},
	} {
		ix := indexFrom(pipSettings([]string{"a", "b"}, func(name string) ([]byte, error) {
			if name == "b" {
				return []byte(c.settings), nil
			}
			return []byte("[global]\ntimeout = 5\n"), fs.ErrNotExist
		}), func(name string) string { return c.env[name] })
		if ix.main != c.main || !slices.Equal(ix.vars, c.vars) {
			t.Errorf("%s: index %q, variables %q", c.what, ix.main, ix.vars)
		}
	}
}

func TestWithoutSecrets(t *testing.T) {
	for _, c := range [][2]string{
		{"failed https://user:pw@host/simple/x", "failed https://***@host/simple/x"},
		{"failed https://u:p@ss@host/x@1 and git+ssh://git@h/y", "failed https://***@host/x@1 and git+ssh://***@h/y"},
		{"see https://host/x?token=abc&a=b", "see https://host/x?token=***&a=b"},
		{"name@version of a package", "name@version of a package"},
	} {
		if got := withoutSecrets(c[0]); got != c[1] {
			t.Errorf("%q becomes %q", c[0], got)
		}
	}
}
