package cascade

import "testing"

func TestOutputPath(t *testing.T) {
	tests := []struct{ path, name, want string }{
		{"out.csv", "report.text", "/job/out.csv"},
		{"/abs/out.csv", "report.text", "/abs/out.csv"},
		{"out/", "report.text", "/job/out/report.text"},
		{"/abs/", "report.text", "/abs/report.text"},
		{"out/", "map[3,500].png", "/job/out/map-3-500.png"},
		{"out/", "decode.step[7]", "/job/out/decode-7.step"},
		{"out/", "map[../../etc/x].png", "/job/out/map-.._.._etc_x.png"},
	}
	for _, tt := range tests {
		if got := outputPath("/job", Located{Path: tt.path, Name: tt.name}); got != tt.want {
			t.Errorf("%s to %s: %s, want %s", tt.name, tt.path, got, tt.want)
		}
	}
}
