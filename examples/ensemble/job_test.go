package main

import (
	"fmt"
	"testing"

	"github.com/cascade-run/cascade/examples/internal/twin"
)

func TestProgramEqualsJobFile(t *testing.T) {
	for _, field := range []string{"t", "z"} {
		for _, steps := range []int{2, 4} {
			t.Run(fmt.Sprint(field, steps), func(t *testing.T) {
				file := twin.Read(t, "job.yaml", "field="+field, fmt.Sprint("steps=", steps))
				code, err := graph(field, steps)
				if err != nil {
					t.Fatal(err)
				}
				if err := twin.Differences(code, file); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
