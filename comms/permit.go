package comms

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/cascade-run/cascade/comms/pki"
)

// ErrDenied says that a peer's role does not permit what it asks for.
var ErrDenied = errors.New("not permitted")

// The roles that may send messages to a controller or agent. Other messages of a client
// are refused; the routes of the messages, in messages.go, name the receivers.
var (
	observers  = []pki.Role{pki.RoleObserve, pki.RoleSubmit, pki.RoleAdmin}
	submitters = []pki.Role{pki.RoleSubmit, pki.RoleAdmin}
	admins     = []pki.Role{pki.RoleAdmin}
)

// askers returns the client roles that may send a message of the type; nil: none.
func askers(m Message) []pki.Role {
	switch m := m.(type) {
	case *Watch, *Locate, *Fetch, *Renew:
		return observers
	case *Query:
		if m.Kind == QueryMembers || m.Kind == QueryTokens {
			return admins
		}
		return observers
	case *Submit, *Control, *HaveReq, *NamedReq, *Blob, *Many: // of Many each is looked at by itself
		return submitters
	case *Invite, *Revoke, *Backup, *Drain, *SetProfiles:
		return admins
	}
	return nil
}

// Permit says whether a client may send m: its certificate names one of the roles
// that may. With Control a submitter may steer its own jobs only; the receiver checks
// that. The error matches ErrDenied and says what to do.
func Permit(client Identity, m Message) error {
	want := askers(m)
	if slices.Contains(want, client.Grant) {
		return nil
	}
	if want == nil {
		return fmt.Errorf("%w: a client sends no %s", ErrDenied, NameOf(m))
	}
	return fmt.Errorf("%w: %s needs the role %s, and the certificate of %s is for %s: ask an admin for a token (cascade cluster user %s --role %s)",
		ErrDenied, request(m), want[0], client.Holder, client.Grant, client.Holder, want[0])
}

// request is what a message asks for, in words of people.
func request(m Message) string {
	if q, ok := m.(*Query); ok {
		return "to list " + q.Kind
	}
	return NameOf(m)
}

// NameOf returns the name of a message's type, as docs/protocol.md has it.
func NameOf(m Message) string { return reflect.TypeOf(m).Elem().Name() }

// NumberOf returns the number by which an answer names the request m, if it has one.
func NumberOf(m Message) (uint64, bool) {
	switch m := m.(type) {
	case *Watch:
		return m.Req, true
	case *Locate:
		return m.Req, true
	case *Fetch:
		return m.Req, true
	case *Renew:
		return m.Req, true
	case *Query:
		return m.Req, true
	case *Submit:
		return m.Req, true
	case *Control:
		return m.Req, true
	case *HaveReq:
		return m.Req, true
	case *NamedReq:
		return m.Req, true
	case *Invite:
		return m.Req, true
	case *Revoke:
		return m.Req, true
	case *Backup:
		return m.Req, true
	case *Drain:
		return m.Req, true
	case *SetProfiles:
		return m.Req, true
	}
	return 0, false
}
