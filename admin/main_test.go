//go:build linux

package admin_test

import (
	"testing"

	"github.com/cascade-run/cascade"
)

func TestMain(m *testing.M) { cascade.RunTests(m) }
