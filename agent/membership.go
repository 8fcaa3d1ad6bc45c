//go:build linux

package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/pki"
	"github.com/cascade-run/cascade/internal/outfile"
)

// membership is the agent's place in a cluster: the certificate that proves it
// over TCP, and whom it refuses.
type membership struct {
	dir     string
	member  *pki.Member
	revoked atomic.Pointer[map[string]struct{}]

	mu      sync.Mutex
	renewal *pki.Renewal  // under way
	renewed chan struct{} // capacity 1: an answer came
}

const revokedFile = "revoked" // serial numbers, one a line, as last told by the controller

// openMembership reads the certificate in dir, which must be the named agent's.
func openMembership(dir, name string) (*membership, error) {
	m, err := pki.LoadMember(dir, time.Now)
	if err != nil {
		return nil, err
	}
	if id := m.Identity(); id.Role != pki.RoleAgent || id.Name != name {
		return nil, fmt.Errorf("the certificate in %s is that of %s, and this is agent %s: join under that name, or choose another folder", dir, id, name)
	}
	ms := &membership{dir: dir, member: m, renewed: make(chan struct{}, 1)}
	text, err := os.ReadFile(filepath.Join(dir, revokedFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	ms.know(strings.Fields(string(text)))
	return ms, nil
}

func (m *membership) know(serials []string) {
	set := make(map[string]struct{}, len(serials))
	for _, s := range serials {
		set[s] = struct{}{}
	}
	m.revoked.Store(&set)
}

// learn takes a new list, and writes it for the next start.
func (m *membership) learn(serials []string) error {
	m.know(serials)
	return outfile.Replace(filepath.Join(m.dir, revokedFile), []byte(strings.Join(serials, "\n")+"\n"), 0o600)
}

// refuses tells whether a certificate is revoked.
func (m *membership) refuses(serial string) bool {
	_, ok := (*m.revoked.Load())[serial]
	return ok
}

// security is what TCP links need, to peers of the roles; nil when they are plain or refused.
func (a *Agent) security(expect ...pki.Role) *comms.Security {
	if a.member == nil || a.cfg.InsecureTestNetwork {
		return nil
	}
	return &comms.Security{Member: a.member.member, Revoked: a.member.refuses, Expect: expect}
}

// takeRevoked takes the controller's list of whom to refuse.
func (a *Agent) takeRevoked(m *comms.Revoked) {
	if a.member == nil {
		return // no link of ours has a certificate
	}
	err := a.member.learn(m.Serials)
	a.recheck()
	if err != nil {
		a.log.Warn().Err(err).Msg("the list of revoked certificates is not written")
	}
}

// recheck ends the links of those whose certificates ended.
func (a *Agent) recheck() {
	now := time.Now()
	a.clients.Recheck(now)
	a.peerLinks.Range(func(l, _ any) bool { // those that we dialed, too
		l.(*comms.Link).Recheck(now)
		return true
	})
	a.in.Push(item{note: func() {
		if x := a.loop.moving.x; x != nil {
			x.Recheck(time.Now())
		}
		if x := a.loop.reaching.x; x != nil {
			x.Recheck(time.Now())
		}
	}})
}

const (
	recheckEvery  = 10 * time.Second
	renewPatience = time.Minute // for the answer, before the controller is asked again
	renewPause    = time.Second // between two renewals, however short certificates last
)

// keepLinks looks again and again whose certificates have ended.
func (a *Agent) keepLinks() {
	every := time.NewTicker(recheckEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			a.recheck()
		case <-a.stop.Done():
			return
		}
	}
}

// keepCertificate renews the agent's certificate over a link to the controller,
// as often as it must be while the link lives.
func (a *Agent) keepCertificate(ctx context.Context, link *comms.Link) {
	m := a.member
	for n := uint64(1); ; n++ {
		if !sleep(ctx, link, max(time.Until(m.member.RenewAt()), renewPause)) {
			return
		}
		r, err := m.member.BeginRenewal()
		if err != nil {
			a.log.Error().Err(err).Msg("the certificate is not renewed")
			return
		}
		m.mu.Lock()
		m.renewal = r
		m.mu.Unlock()
		if err := link.Send(comms.Encode(&comms.Renew{Req: n, Request: r.Request()}), nil); err != nil {
			a.log.Warn().Err(err).Msg("the certificate is not renewed yet")
		}
		patience := time.NewTimer(renewPatience)
		select {
		case <-m.renewed:
		case <-patience.C:
		case <-link.Done():
		case <-ctx.Done():
		}
		patience.Stop()
	}
}

// sleep waits, and tells whether there is still a link to wait for.
func sleep(ctx context.Context, link *comms.Link, d time.Duration) bool {
	wait := time.NewTimer(d)
	defer wait.Stop()
	select {
	case <-wait.C:
		return true
	case <-link.Done():
	case <-ctx.Done():
	}
	return false
}

// takeRenewed takes the controller's answer to Renew: a certificate, or a refusal.
func (a *Agent) takeRenewed(answer comms.Message) {
	m := a.member
	if m == nil {
		return
	}
	m.mu.Lock()
	r := m.renewal
	m.renewal = nil
	m.mu.Unlock()
	if r == nil {
		return
	}
	level, err := zerolog.InfoLevel, error(nil)
	switch answer := answer.(type) {
	case *comms.Renewed:
		if err = r.Finish(answer.Certificate); err == nil {
			err = m.member.Save(m.dir)
		}
	case *comms.Reply:
		err = errors.New(answer.Message)
	}
	if err != nil {
		level = zerolog.ErrorLevel
	}
	a.log.WithLevel(level).Err(err).Time("expires", m.member.Expires()).Msg("renewal of the certificate")
	select {
	case m.renewed <- struct{}{}:
	default:
	}
}
