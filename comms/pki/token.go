package pki

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// Token lets its bearer join a cluster. It is shown once, when it is made; the
// cluster keeps only a Grant.
type Token struct {
	ID        [8]byte
	Secret    [16]byte
	Authority Fingerprint // whom the bearer may believe
}

// Grant is what the cluster keeps of a token.
type Grant struct {
	ID      [8]byte
	Sum     [sha256.Size]byte // of the secret
	Role    Role              // of who joins
	Name    string            // "": whoever joins chooses one
	Expires int64             // nanoseconds since 1970
	Uses    int               // that are left
}

// NewToken makes a token of the authority that admits uses members of the role until expires.
func (a *Authority) NewToken(role Role, name string, uses int, expires time.Time) (Token, Grant, error) {
	t := Token{Authority: a.Fingerprint()}
	if uses < 1 {
		return t, Grant{}, fmt.Errorf("make a token for %d uses: want at least one", uses)
	}
	check := Identity{Cluster: a.cluster, Role: role, Name: name}
	if name == "" {
		check.Name = "any"
	}
	if err := check.validate(); err != nil {
		return t, Grant{}, fmt.Errorf("make a token: %w", err)
	}
	for _, b := range [][]byte{t.ID[:], t.Secret[:]} {
		if _, err := rand.Read(b); err != nil {
			return t, Grant{}, fmt.Errorf("make a token: %w", err)
		}
	}
	return t, Grant{ID: t.ID, Sum: sha256.Sum256(t.Secret[:]), Role: role, Name: name, Expires: expires.UnixNano(), Uses: uses}, nil
}

// id names the token where its secret may not stand.
func (t Token) id() string { return hex.EncodeToString(t.ID[:]) }

const tokenPrefix = "cascade1."

// String returns the token as its bearer is given it.
func (t Token) String() string {
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(bytes.Join([][]byte{t.ID[:], t.Secret[:], t.Authority[:]}, nil))
}

// ParseToken reads a token.
func ParseToken(s string) (Token, error) {
	var t Token
	rest, ok := strings.CutPrefix(strings.TrimSpace(s), tokenPrefix)
	if !ok {
		return t, fmt.Errorf("a token begins with %q", tokenPrefix)
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(rest)
	if err != nil || len(b) != len(t.ID)+len(t.Secret)+len(t.Authority) {
		return t, errors.New("the token is cut off or changed: copy it whole")
	}
	b = b[copy(t.ID[:], b):]
	b = b[copy(t.Secret[:], b):]
	copy(t.Authority[:], b)
	return t, nil
}

// newToken says how an admin makes one.
const newToken = "a new one is made by cascade cluster token for a host, by cascade cluster user NAME for a person"

// Refusals of a token. They say no more than the bearer may know.
var (
	ErrTokenUnknown = errors.New("the token is unknown or was used up; " + newToken)
	ErrTokenExpired = errors.New("the token has expired; " + newToken)
	ErrTokenName    = errors.New("the token is for another name")
	ErrTokenHost    = errors.New("the token is for hosts, and no use of it was spent: give it to cascade-agent --join HOST --token TOKEN; one for a person is made by cascade cluster user NAME")
	ErrTokenPerson  = errors.New("the token is for a person, and no use of it was spent: that person types cascade cluster join HOST --token TOKEN; one for hosts is made by cascade cluster token")
	ErrNameTaken    = errors.New("the name belongs to a member whose certificate is valid; choose another, or have a token made for this name")
)

// Bearer is what shows a token: only a host becomes an agent, and only a person anything else.
type Bearer string

// Bearers of tokens.
const (
	AnyBearer Bearer = "" // of a build that does not say it
	Host      Bearer = "host"
	Person    Bearer = "person"
)

// Redeem returns the grant after one more use by the bearer that shows the secret and wants the name.
func (g Grant) Redeem(secret [16]byte, name string, as Bearer, now time.Time) (Grant, error) {
	sum := sha256.Sum256(secret[:])
	switch {
	case subtle.ConstantTimeCompare(sum[:], g.Sum[:]) != 1, g.Uses < 1:
		return g, ErrTokenUnknown
	case now.UnixNano() >= g.Expires:
		return g, ErrTokenExpired
	case g.Name != "" && g.Name != name:
		return g, ErrTokenName
	case as == Person && !g.Role.Client():
		return g, ErrTokenHost
	case as == Host && g.Role.Client():
		return g, ErrTokenPerson
	}
	g.Uses--
	return g, nil
}

// Encode returns the stored form of a grant.
func (g Grant) Encode() ([]byte, error) {
	return msgpack.Marshal([]any{1, g.ID[:], g.Sum[:], string(g.Role), g.Name, g.Expires, g.Uses})
}

// DecodeGrant reads what Encode writes.
func DecodeGrant(b []byte) (g Grant, err error) {
	d := msgpack.NewDecoder(bytes.NewReader(b))
	n, err := d.DecodeArrayLen()
	if err != nil || n < 7 {
		return g, fmt.Errorf("the record of a token is malformed: %d fields, %w", n, err)
	}
	var version int
	var id, sum []byte
	var role string
	if err := d.DecodeMulti(&version, &id, &sum, &role, &g.Name, &g.Expires, &g.Uses); err != nil {
		return g, fmt.Errorf("the record of a token is malformed: %w", err)
	}
	if version < 1 || len(id) != len(g.ID) || len(sum) != len(g.Sum) {
		return g, errors.New("the record of a token is malformed")
	}
	g.Role = Role(role)
	copy(g.ID[:], id)
	copy(g.Sum[:], sum)
	return g, nil
}
