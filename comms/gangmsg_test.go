package comms

import "testing"

func TestIsMemberAddress(t *testing.T) {
	for at, want := range map[string]bool{
		"10.0.0.1:27000":    true,
		"[fe80::1]:27000":   true,
		"h1:1":              true,
		"":                  false,
		"h1":                false,
		":1":                false,
		"h1:":               false,
		"h1:1,h2:2":         false,
		"10.0.0.1:27\x0000": false,
	} {
		if got := IsMemberAddress(at); got != want {
			t.Errorf("%q: %v", at, got)
		}
	}
}
