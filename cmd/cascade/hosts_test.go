package main

import (
	"reflect"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/planner"
)

func TestParseHosts(t *testing.T) {
	got, err := parseHosts("2x16c64g, 0.5c,4c2gpu:1.5g,4c1gpu")
	want := []planner.Host{{Name: "h0", CPU: 16000, Memory: 64 << 30}, {Name: "h1", CPU: 16000, Memory: 64 << 30},
		{Name: "h2", CPU: 500}, {Name: "h3", CPU: 4000, GPU: 2000, Devices: []planner.Device{{Memory: 3 << 29}, {Memory: 3 << 29}}},
		{Name: "h4", CPU: 4000, GPU: 1000, Devices: []planner.Device{{}}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, s := range []string{"", "x", "0x4c", "4g", "0c", "2x4c,", "1e3c", "300x1c", "99999999c", "-1c", "4c1.5gpu", "4c9999gpu", "4c:8g", "4c1gpu:g"} {
		if _, err := parseHosts(s); err == nil || !strings.Contains(err.Error(), "--hosts") {
			t.Errorf("%q: %v", s, err)
		}
	}
}
