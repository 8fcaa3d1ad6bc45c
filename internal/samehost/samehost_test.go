package samehost_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/internal/samehost"
)

const child = "CASCADE_TEST_PRINT_HOST"

func TestMain(m *testing.M) {
	if os.Getenv(child) != "" {
		os.Stdout.WriteString(samehost.Resource())
		return
	}
	os.Exit(m.Run())
}

// Another process of the host has the same name, one in another network has not.
func TestResource(t *testing.T) {
	own := samehost.Resource()
	if !regexp.MustCompile(`^host-[0-9a-f]{12}$`).MatchString(own) {
		t.Fatalf("resource %q", own)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	of := func(words ...string) (string, error) {
		c := exec.Command(words[0], words[1:]...)
		c.Env = append(os.Environ(), child+"=1")
		out, err := c.Output()
		return string(out), err
	}
	if other, err := of(self); err != nil || other != own {
		t.Errorf("another process has %q, %v; want %q", other, err, own)
	}
	other, err := of("unshare", "--net", self)
	if err != nil {
		t.Skipf("no other network: %v", err)
	}
	if other == own || !strings.HasPrefix(other, "host-") {
		t.Errorf("in another network it has %q, too", other)
	}
}
