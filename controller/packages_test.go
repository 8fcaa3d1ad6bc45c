package controller

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
)

const packagedJob = `
job: d
environments: {e: {working_dir: "package:sha256:HASH/w"}}
tasks: {a: {command: "true > ${out.x}", environment: e, out: [x]}}
`

// sweep removes what nobody needs, as if everything had come long ago.
func (r *running) sweep(t *testing.T) {
	t.Helper()
	if err := r.blobs.expire(time.Now().Add(time.Hour), r.needed); err != nil {
		t.Error(err)
	}
}

// A package that is sent ahead stays until its job is deleted, over restarts of the
// controller; one whose job never came goes.
func TestPackageLife(t *testing.T) {
	dir, net := t.TempDir(), comms.NewInproc()
	r := startController(t, dir, net)
	c := dialClient(t, net)
	const content = "the package"
	h := packageOf(content)
	graph := parse(t, strings.ReplaceAll(packagedJob, "HASH", hex.EncodeToString([]byte(h[1:])))).Encode()
	here := func(want bool) {
		t.Helper()
		r.sweep(t)
		if got := r.blobs.all([]comms.Hash{h}); got != want {
			t.Errorf("the package is there: %v, want %v", got, want)
		}
	}
	upload := func() {
		t.Helper()
		c.sayBody(&comms.Blob{Hash: h, Total: uint64(len(content))}, []byte(content))
		c.say(&comms.HaveReq{Req: 7, Hashes: []comms.Hash{h}})
		if have := expect[*comms.Have](c, "have", nil); len(have.Missing) > 0 {
			t.Errorf("missing %v: %s", have.Missing, have.Why)
		}
	}

	submit(c, 1, graph)
	if m := expect[*comms.Reply](c, "refusal", nil); m.Code != comms.CodeNotFound || !strings.Contains(m.Message, "send them first: package:sha256:") {
		t.Errorf("reply %+v", m)
	}
	upload()
	here(false) // its job has not come in time

	upload()
	submit(c, 1, graph)
	expect[*comms.Accepted](c, "accepted", nil)
	submit(c, 2, graph)
	expect[*comms.Accepted](c, "accepted", nil)
	here(true)
	c.close()
	r.stop(t)
	r = startController(t, dir, net)
	here(true)

	var served []byte
	a := dialPeer(t, net, &peerEnd{}, comms.Identity{Role: "agent", Name: "a1", Incarnation: 1})
	for _, max := range []uint64{4, 0} {
		a.say(&comms.BlobReq{Hash: h, Offset: uint64(len(served)), Max: max})
		m := expect(a, "piece", func(m *comms.Blob) bool { return m.Offset == uint64(len(served)) })
		a.mu.Lock()
		served = append([]byte(nil), a.bodies[h]...)
		a.mu.Unlock()
		if m.Total != uint64(len(content)) || m.Err != "" {
			t.Errorf("piece %+v", m)
		}
	}
	if string(served) != content {
		t.Errorf("served %q", served)
	}
	a.close()

	c = dialClient(t, net)
	for n := range byte(2) {
		here(true)
		c.say(&comms.Control{Req: 8, Job: testJob(n + 1), Action: comms.SteerCancel})
		expect[*comms.Reply](c, "reply", nil)
		c.say(&comms.Watch{Req: 9, Job: testJob(n + 1), Every: -1})
		final(c)
		c.say(&comms.Control{Req: 10, Job: testJob(n + 1), Action: comms.SteerForget})
		expect[*comms.Reply](c, "reply", nil)
		gone := func() bool { _, err := r.store.Job(testJob(n + 1)); return err != nil }
		for !gone() {
			c.say(&comms.Query{Req: 11, Kind: comms.QueryJobs})
			expect[*comms.Page](c, "page", nil)
		}
	}
	here(false)
	c.close()
}
