package fetch

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

// What may be secret in an address is not told in any form in which a server repeats it.
// What a server says is told in part, a secret there not even in part.
func TestSecrets(t *testing.T) {
	long := strings.Repeat("geheim", 100)
	for _, c := range []struct {
		address string // behind http://, before the path and query
		query   string
		says    string // the server
		told    string
	}{
		{"S3CRET@", "", "bad credentials for S3CRET", "bad credentials for ***"},
		{"S3CRET@", "", "what is Basic UzNDUkVUOg==?", "what is Basic ***?"},
		{"anna:p%40ss@", "", "not p@ss, not p%40ss of anna", "not ***, not *** of ***"},
		{"anna:p%2fss%20%21@", "", "not p/ss !, p%2Fss+%21, p%2Fss%20%21", "not ***, ***, ***"},
		{"anna:s@ss@", "", "not s@ss", "not ***"},
		{"", "?token=S3CRET&v=1", "token S3CRET has expired", "token *** has expired"},
		{"", "?token=S3CRET&v=1", "nothing for token=S3CRET&v=1", "nothing for ***"},
		{"", "?sig=a%2Fbcd", "no a/bcd, no a%2Fbcd", "no ***, no ***"},
		{"", "?sig=a/bcd", "no a/bcd, no a%2Fbcd", "no ***, no ***"},
		{"", "?sig=a+b%2Fc", "no a b/c, no a+b/c, no a%20b%2Fc", "no ***, no ***, no ***"},
		{"", "?sig=%zzgeheim", "no %zzgeheim", "no ***"},
		{"", "?S3CRET&v=1", "no S3CRET", "no ***"},
		{"", "?sig=geheim&sig2=geheim2", "no geheim2, no geheim", "no ***, no ***"},
		{"", "?sig=" + long, "no " + long, "no ***"},
		{"", "?v=1", long, long[:200]},
		{"me:no@", "?v=1", "1 of 10: no, not me", "1 of 10: no, not me"},
	} {
		synctest.Test(t, func(t *testing.T) {
			transport, _ := serve(t, func(w http.ResponseWriter, _ *http.Request, _ int) { http.Error(w, c.says, http.StatusForbidden) })
			client := Client{Transport: transport}
			_, err := client.Get(t.Context(), File{URL: "http://" + c.address + "models.test/x" + c.query, Most: 1}, nil)
			if want := "GET http://models.test/x: the server says 403 Forbidden: " + c.told; err == nil || err.Error() != want {
				t.Errorf("%s%s: %v, want %s", c.address, c.query, err, want)
			}
		})
	}
}

// Nor are the secrets of the address where a server sends us on.
func TestSecretsOfRedirects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport, _ := serve(t, func(w http.ResponseWriter, r *http.Request, n int) {
			switch n {
			case 1:
				http.Redirect(w, r, "http://otto:geheim@store.test/x?sig=a%2Fbcd", http.StatusFound)
			case 2:
				http.Redirect(w, r, "http://store.test/y", http.StatusFound)
			default:
				http.Error(w, "otto may not read a/bcd with geheim", http.StatusForbidden)
			}
		})
		client := Client{Transport: transport}
		_, err := client.Get(t.Context(), File{URL: "http://models.test/x", Most: 1}, nil)
		if err == nil || !strings.HasSuffix(err.Error(), ": *** may not read *** with ***") {
			t.Errorf("error %v", err)
		}
	})
}

// An address that cannot be read is not told at all: its secrets may be anywhere in it.
func TestSecretsOfNoAddress(t *testing.T) {
	for _, address := range []string{"http://anna:geheim#1@models.test/x", "http://anna:geheim%zz@models.test/x", "http://models.test:geheim/x"} {
		_, err := new(Client).Get(t.Context(), File{URL: address, Most: 1}, func(io.Reader, int64) error { return nil })
		if err == nil || !strings.HasPrefix(err.Error(), "GET the address: it is none: ") || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
