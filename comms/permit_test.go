package comms

import (
	"errors"
	"slices"
	"testing"

	"github.com/cascade-run/cascade/comms/pki"
)

// The table of who may send what and the routes of the messages agree: a client
// of some role may send exactly what goes from clients to somebody.
func TestPermitFollowsRoutes(t *testing.T) {
	for _, info := range loadSchema(t).messages {
		m := newMessage(info.number)
		routed := slices.ContainsFunc(info.routes, func(r route) bool { return r.from == "client" })
		if err := Permit(Identity{Grant: pki.RoleAdmin}, m); (err == nil) != routed {
			t.Errorf("%T: routed from clients %t, an admin is told %v", m, routed, err)
		}
		_, numbered := NumberOf(m)
		_, blob := m.(*Blob)
		if _, many := m.(*Many); routed != (numbered || blob || many) {
			t.Errorf("%T: from clients %t, with a number %t", m, routed, numbered)
		}
		for _, role := range []pki.Role{pki.RoleAgent, pki.RoleController, ""} {
			if err := Permit(Identity{Grant: role}, m); !errors.Is(err, ErrDenied) {
				t.Errorf("%T from %q as a client: %v", m, role, err)
			}
		}
	}
}

func TestPermit(t *testing.T) {
	for _, c := range []struct {
		m                      Message
		observe, submit, admin bool
	}{
		{&Query{Kind: QueryJobs}, true, true, true},
		{&Watch{}, true, true, true},
		{&Fetch{}, true, true, true},
		{&Renew{}, true, true, true},
		{&Submit{}, false, true, true},
		{&Blob{}, false, true, true},
		{&Control{}, false, true, true},
		{&Query{Kind: QueryMembers}, false, false, true},
		{&Query{Kind: QueryTokens}, false, false, true},
		{&Invite{}, false, false, true},
		{&Revoke{}, false, false, true},
		{&Backup{}, false, false, true},
		{&Drain{}, false, false, true},
		{&SetProfiles{}, false, false, true},
		{&Events{}, false, false, false},
	} {
		for role, want := range map[pki.Role]bool{pki.RoleObserve: c.observe, pki.RoleSubmit: c.submit, pki.RoleAdmin: c.admin} {
			if err := Permit(Identity{Grant: role, Holder: "anna"}, c.m); (err == nil) != want {
				t.Errorf("%T by %s: %v", c.m, role, err)
			}
		}
	}
	want := "not permitted: Submit needs the role submit, and the certificate of anna is for observe: ask an admin for a token (cascade cluster user anna --role submit)"
	if err := Permit(Identity{Grant: pki.RoleObserve, Holder: "anna"}, &Submit{}); err.Error() != want {
		t.Errorf("the refusal says %q", err)
	}
}
