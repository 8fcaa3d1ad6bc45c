package dag

import (
	"bytes"
	"strings"
	"testing"
)

func TestSession(t *testing.T) {
	g, err := NewSession("session of mine", "host-1.example", "")
	if err != nil {
		t.Fatal(err)
	}
	back, err := Decode(g.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if !back.IsSession() || !bytes.Equal(back.Encode(), g.Encode()) || back.Name != "session of mine" {
		t.Errorf("decoded it is %+v, and was %+v", back.Groups, g.Groups)
	}
	r := back.Groups[0].Resources
	if r.Cores() != 0 || len(r.Custom) != 1 {
		t.Errorf("it requests %+v", r)
	}
	if plain := AgentResource("a1"); plain != "agent-a1" || AgentResource("host-1.example") == AgentResource("host-2.example") {
		t.Errorf("agents have the resources %s, %s", plain, AgentResource("host-1.example"))
	}
	if one, half := (&Resources{}).Cores(), (&Resources{CPU: 500}).Cores(); one != 1000 || half != 500 {
		t.Errorf("tasks occupy %d and %d thousandths of a core", one, half)
	}
}

func TestSessionMistakes(t *testing.T) {
	for what, add := range map[string]func(b *Builder){
		"only the task of a session occupies no core": func(b *Builder) {
			b.Add(Group{Name: "a", Run: Run{Function: "F"}, Resources: Resources{CPU: NoCPU}})
		},
		"is the task of a session": func(b *Builder) {
			b.Add(Group{Name: "a", Run: Run{Function: SessionFunction}, Resources: Resources{CPU: NoCPU}, Outputs: []OutputDecl{{Name: "x"}}})
		},
		"which is a job of its own": func(b *Builder) {
			b.Add(Group{Name: "a", Run: Run{Function: SessionFunction}, Resources: Resources{CPU: NoCPU}})
			b.Add(Group{Name: "b", Run: Run{Function: "F"}})
		},
		"negative": func(b *Builder) {
			b.Add(Group{Name: "a", Run: Run{Function: "F"}, Resources: Resources{CPU: -2}})
		},
	} {
		b := NewBuilder("job")
		add(b)
		if _, err := b.Build(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("want %q, got %v", what, err)
		}
	}
}

// The text of a job file can be a session: clients in other languages send that.
func TestSessionText(t *testing.T) {
	g, err := ParseYAML("job", []byte(`job: session of mine
environments: {py: {python: {}}}
tasks: {root: {run: "py:cascade.session", resources: {agent-a1: 0.001}}}
`), Override{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want, err := NewSession("session of mine", "a1", "py", Environment{Name: "py", Python: &Python{}})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(g.Encode(), want.Encode()) {
		t.Errorf("it is %+v, want %+v", g.Groups, want.Groups)
	}
}
