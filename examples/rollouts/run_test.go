package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
)

func TestMain(m *testing.M) { cascade.RunTests(m) }

// The program in Go trains to the gain that the README has, which the one in Python has too.
func TestProgram(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	c := cascadetest.Start(t, cascade.WithCPU(2))
	s, err := c.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	policy, err := TrainPolicy.Go(s.Context(), cascade.Val(10), cascade.Val(100)).Get(s.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("gain %.12f after 100 steps of 10 simulators\n", policy.Gain); !strings.Contains(string(text), want) {
		t.Errorf("it prints %s", want)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
