//go:build linux

package agent

import "testing"

// The use of a host is read from what the kernel tells, also when that goes back.
func TestUse(t *testing.T) {
	const cores = "cpu0 1 1 1 1\ncpu1 1 1 1 1\nintr 5\n"
	for _, c := range []struct {
		what, before, now string
		busy              float64
	}{
		{"half", "cpu  100 0 100 800 0 0 0 0 0 0\n", "cpu  200 0 200 1000 0 0 0 0 0 0\n", 1},
		{"all, of which another machine took a part", "cpu  100 0 0 100 0 0 0 0 0 0\n", "cpu  150 0 0 100 0 0 0 50 0 0\n", 2},
		{"none, but for a disk", "cpu  100 0 0 100 0 0 0 0\n", "cpu  100 0 0 100 100 0 0 0\n", 0},
		{"a guest counts once", "cpu  100 0 0 100 0 0 0 0 0 0\n", "cpu  200 0 0 200 0 0 0 0 100 0\n", 1},
		{"an old kernel", "cpu 1 1 1 1\n", "cpu 2 2 2 2\n", 1.5},
		{"no time between", "cpu 5 5 5 5\n", "cpu 5 5 5 5\n", 0},
		{"idle time goes back", "cpu 100 0 0 100\n", "cpu 200 0 0 90\n", 2},
	} {
		before, err := readTicks([]byte(c.before + cores))
		if err != nil {
			t.Fatal(err)
		}
		now, err := readTicks([]byte(c.now + cores))
		if err != nil {
			t.Fatal(err)
		}
		if u := useSince(before, now, 3, 4); u.Busy != c.busy || u.Cores != 2 || u.Memory != 3 || u.Total != 4 {
			t.Errorf("%s: %+v, want %v busy", c.what, u, c.busy)
		}
	}
	used, total, err := readMemory([]byte("MemTotal:       1000 kB\nMemFree:  1 kB\nMemAvailable:    400 kB\n"))
	if used != 600<<10 || total != 1000<<10 || err != nil {
		t.Errorf("memory: %d of %d, %v", used, total, err)
	}
	for _, text := range []string{"", "cpu x\n", "intr 5\n", "MemTotal: much\n"} {
		if _, err := readTicks([]byte(text)); err == nil {
			t.Errorf("%q has processors", text)
		}
		if _, _, err := readMemory([]byte(text)); err == nil {
			t.Errorf("%q has memory", text)
		}
	}
}
