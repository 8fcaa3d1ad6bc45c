package daemon

import (
	"strings"
	"testing"
)

func TestAddress(t *testing.T) {
	for _, c := range []struct {
		name           string
		network        Network
		towards, ports string
		want, err      string
	}{
		{name: "nothing said", ports: "7420"},
		{name: "in full", network: Network{Listen: "tcp://10.0.0.1:1"}, ports: "7420", want: "tcp://10.0.0.1:1"},
		{name: "an address of this host", network: Network{Interface: "127.0.0.1"}, ports: "7420", want: "tcp://127.0.0.1:7420"},
		{name: "an interface", network: Network{Interface: "lo"}, ports: "7420", want: "tcp://127.0.0.1:7420"},
		{name: "a range", network: Network{Interface: "lo", Ports: "20000-20100"}, ports: "0", want: "tcp://127.0.0.1:20000-20100"},
		{name: "towards the controller", towards: "127.0.0.1:7420", ports: "0", want: "tcp://127.0.0.1:0"},
		{name: "towards it, in a range", network: Network{Ports: "1-9"}, towards: "127.0.0.1:7420", ports: "0", want: "tcp://127.0.0.1:1-9"},
		{name: "IPv6", network: Network{Interface: "::1"}, ports: "7420", want: "tcp://[::1]:7420"},
		{name: "twice", network: Network{Listen: "tcp://10.0.0.1:1", Ports: "1"}, err: "--listen says all"},
		{name: "ports of nothing", network: Network{Ports: "1"}, err: "--ports without --interface"},
		{name: "no such interface", network: Network{Interface: "nosuch0"}, err: "there are lo"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.network.Address(c.towards, c.ports)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) || got != c.want {
				t.Errorf("%q, %v; want %q, %q", got, err, c.want, c.err)
			}
		})
	}
}

// Who is told an address must be able to reach it.
func TestReachable(t *testing.T) {
	for listen, good := range map[string]bool{
		"": true, "tcp://10.0.0.1:0": true, "ipc:///run/x.sock": true, "tcp://node7:1": true,
		"tcp://0.0.0.0:1": false, "tcp://[::]:1": false, "tcp://:1": false, "nonsense": false,
	} {
		if err := Reachable(listen); (err == nil) != good {
			t.Errorf("%q: %v", listen, err)
		}
	}
}
