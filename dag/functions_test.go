package dag

import (
	"strings"
	"testing"
)

func TestCheckFunctions(t *testing.T) {
	have := Functions{
		"Ramp":  "(with {n int; label string?; at {x int; y []int}}) -> (values array f64)",
		"Sum":   "(values array f64, more list of msgpack map[string]struct { A, B int }) -> (sum msgpack float64)",
		"Gen":   "() -> (series of field array f64 2-D)",
		"Other": "no signature that we know",
	}
	whole := func(name string) InputDecl { return InputDecl{Name: name} }
	check := have.Checker()
	for _, c := range []struct {
		name, message, hint string
		g                   Group
	}{
		{"right", "", "", Group{Run: Run{Function: "Ramp"}, With: []Field{{Name: "n"}, {Name: "at"}}, Outputs: []OutputDecl{{Name: "values"}}}},
		{"not all outputs", "", "", Group{Run: Run{Function: "Ramp"}, With: []Field{{Name: "n"}, {Name: "at"}}}},
		{"list", "", "", Group{Run: Run{Function: "Sum"}, Inputs: []InputDecl{whole("values"), {Name: "more", List: true}}}},
		{"series", "", "", Group{Run: Run{Function: "Gen"}, Outputs: []OutputDecl{{Name: "field", Generate: GenerateOpen}}}},
		{"unknown form", "", "", Group{Run: Run{Function: "Other"}, With: []Field{{Name: "n"}}}},
		{"command", "", "", Group{Run: Run{Command: []Arg{{}}}}},
		{"name", "function Rump is not registered in here", `did you mean "Ramp"?`, Group{Run: Run{Function: "Rump"}}},
		{"far name", "function Simulate is not registered in here", "it has Gen, Other, Ramp, Sum", Group{Run: Run{Function: "Simulate"}}},
		{"with", "with.n is missing: the function takes {n int; label string?; at {x int; y []int}}; with.lable is not a parameter of the function: it takes {n int; label string?; at {x int; y []int}}",
			`did you mean "label"?`, Group{Run: Run{Function: "Ramp"}, With: []Field{{Name: "lable"}, {Name: "at"}}}},
		{"no with", "the job gives parameters (with:), function Gen takes none", "", Group{Run: Run{Function: "Gen"}, With: []Field{{Name: "n"}}}},
		{"ports", `function Sum does not fit the job: it has no input "valeus", input "more" is one dataset in the job and a list in the function, input "values" is missing, it has no output "summ"; it is Sum` + have["Sum"],
			`did you mean "values"? did you mean "sum"?`,
			Group{Run: Run{Function: "Sum"}, Inputs: []InputDecl{whole("valeus"), whole("more")}, Outputs: []OutputDecl{{Name: "summ"}}}},
		{"no series", `function Gen does not fit the job: output "field" is one dataset (out) in the job and a series (generates) in the function; it is Gen` + have["Gen"], "",
			Group{Run: Run{Function: "Gen"}, Outputs: []OutputDecl{{Name: "field"}}}},
	} {
		if message, hint := check(&c.g, "here"); message != c.message || hint != c.hint {
			t.Errorf("by a checker of many: got %q, %q", message, hint)
		}
		if message, hint := have.Check(&c.g, "here"); message != c.message || hint != c.hint {
			t.Errorf("%s:\n%s (%s), want\n%s (%s)", c.name, message, hint, c.message, c.hint)
		}
	}
}

// An executor that finds functions by itself is believed of those it does not name.
func TestAnyFunction(t *testing.T) {
	have := Functions{AnyFunction: "", "Ramp": "(with {n int}) -> (values array f64)"}
	if message, _ := have.Check(&Group{Run: Run{Function: "fields.decode"}}, "here"); message != "" {
		t.Errorf("an unnamed function: %s", message)
	}
	if message, _ := have.Check(&Group{Run: Run{Function: "Ramp"}}, "here"); message == "" {
		t.Error("a named function that does not fit the job is accepted")
	}
}

// What Cascade's programs have for themselves is told to nobody.
func TestOwnFunctionsAreNotTold(t *testing.T) {
	have := Functions{"cascade-perf-both": "(x raw, y raw) -> (out raw)"}
	_, hint := have.Check(&Group{Run: Run{Function: "cascade-perf-bot"}}, "here")
	if want := "it has no functions, only commands; a Python function needs environments: in the job file and run: ENVIRONMENT:FUNCTION, "; !strings.HasPrefix(hint, want) {
		t.Errorf("the hint is %q", hint)
	}
}

// Who names a function of Python where no Python is learns so, whatever else is there.
func TestHintsOfUnknownFunctions(t *testing.T) {
	none, some := Functions{}, Functions{"Ramp": "() -> ()", "texts.Longest": "() -> ()"}
	for _, c := range []struct {
		have      Functions
		run, hint string
	}{
		{none, "longest", "it has no functions, only commands; a Python function needs environments: in the job file and run: ENVIRONMENT:FUNCTION, a Go function an environment whose package registers it"},
		{none, "py:texts.longest", "it has no functions, only commands; a Python function needs python: {} in environment py, a Go function an environment whose package registers it"},
		{some, "Rump", `did you mean "Ramp"?`},
		{some, "Sum", "it has Ramp, texts.Longest"},
		{some, "py:texts.longest", `did you mean "texts.Longest"?`},
		{some, "fields.decode", "it has Ramp, texts.Longest; a Python function needs environments: in the job file and run: ENVIRONMENT:FUNCTION"},
		{some, "py:fields.decode", "it has Ramp, texts.Longest; a Python function needs python: {} in environment py"},
	} {
		env, name, found := strings.Cut(c.run, ":")
		if !found {
			env, name = "", c.run
		}
		if _, hint := c.have.Check(&Group{Run: Run{Environment: env, Function: name}}, "here"); hint != c.hint {
			t.Errorf("run: %q: %s\nwant %s", c.run, hint, c.hint)
		}
	}
}

func FuzzSignature(f *testing.F) {
	f.Add("(a raw, with {n int?}) -> (series of b raw)")
	f.Add("() -> ()")
	f.Fuzz(func(t *testing.T, text string) {
		if sig, ok := parseSignature(text); ok && len(sig.required) > len(sig.fields) {
			t.Errorf("%q: %+v", text, sig)
		}
	})
}
