package dag

import "testing"

// A version is too old when all that it admits is; what cannot be compared is left to the hosts.
func TestTooOld(t *testing.T) {
	for _, version := range []string{"2.7", "2", "3.9", "3.9.18", "<3", "<3.10", "<=3.9.18", "==2.7.*", "==3.9", "===3.9.1", "~=3.9.1", "~= 2.7", ">=3.6, <3.10", "0"} {
		if !tooOld(version) {
			t.Errorf("%q is not too old", version)
		}
	}
	for _, version := range []string{"", "3", "3.10", "3.12", "3.10.0", "<4", "<3.10.1", "<=3.10", "==3.*", "==3.10", "~=3.9", "~=3.10.2", ">=3.6", ">2", "!=3.9.*", "!=2", ">=3.6,<3.13", "4",
		"<3.10rc1", "three", "<", "~=2", "1.2.3.4"} {
		if tooOld(version) {
			t.Errorf("%q is too old", version)
		}
	}
}
