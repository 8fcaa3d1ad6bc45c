package dag

import "testing"

func TestWhere(t *testing.T) {
	const text = `job: x
environments:
  e: {python: {}, py_modules: [a.py, ./b]}
  f:
    working_dir: w
    py_modules:
      - ${x}.py
`
	for _, c := range []struct {
		keys         []string
		line, column int
	}{
		{nil, 1, 1},
		{[]string{"environments", "e", "py_modules", "a.py"}, 3, 32},
		{[]string{"environments", "e", "py_modules", "./b"}, 3, 38},
		{[]string{"environments", "f", "working_dir", "w"}, 5, 18},
		{[]string{"environments", "f", "py_modules", "y.py"}, 7, 7},
		{[]string{"environments", "g", "python"}, 3, 3},
	} {
		if line, column := Where([]byte(text), c.keys...); line != c.line || column != c.column {
			t.Errorf("%v is at %d:%d, want %d:%d", c.keys, line, column, c.line, c.column)
		}
	}
	if line, column := Where([]byte("\t"), "job"); line != 0 || column != 0 {
		t.Errorf("no file has %d:%d", line, column)
	}
}

func TestTabs(t *testing.T) {
	for text, want := range map[string]string{
		"job: t\ntasks:\n\tt: {command: x}\n":                "tab.yaml:3:1: the line is indented by a tab (YAML takes spaces only: replace each tab by them)",
		"job: t\ntasks:\n  t:\n \t  command: x\n":            "tab.yaml:4:2: the line is indented by a tab (YAML takes spaces only: replace each tab by them)",
		"job: t\ntasks:\n  t:\n    command: x\n\tout: [x]\n": "tab.yaml:5:1: the line is indented by a tab (YAML takes spaces only: replace each tab by them)",
	} {
		if _, err := ParseYAML("tab.yaml", []byte(text), Override{}, Options{}); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
