package admin_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/admin"
)

// A name that is neither a cluster nor a host is answered with the names there are.
// The label is longer than a name in DNS may be, so that nobody outside is asked.
func TestDialNobody(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	long := strings.Repeat("x", 64)
	for _, c := range []struct{ joins, name, want string }{
		{"", long, `(none was joined: cascade cluster join HOST --token TOKEN)`},
		{"hpc", long, `no cluster "` + long + `" was joined (joined are hpc), and as a host it is not found`},
		{long + "y", long, `(joined are hpc, ` + long + `y; did you mean "` + long + `y"?)`},
	} {
		if c.joins != "" {
			if _, err := admin.RememberCluster(c.joins, "tcp://10.0.0.1:7420"); err != nil {
				t.Fatal(err)
			}
		}
		client, err := cascade.Dial(t.Context(), c.name)
		if err == nil {
			t.Fatal(client.Close())
		}
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

// Who gives up while a link is being made is told the own reason, wherever that is.
func TestDialGivenUp(t *testing.T) {
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	for _, address := range []string{"ipc://" + t.TempDir() + "/c.sock", "tcp://127.0.0.1:1"} {
		if _, err := cascade.Dial(ctx, address, cascade.WithInsecureTestNetwork()); !errors.Is(err, enough) {
			t.Errorf("%s: %v", address, err)
		}
	}
}
