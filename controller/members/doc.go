// Package members keeps who may be in a cluster: tokens that admit, certificates
// that were issued, and those that are revoked.
//
//	Invite ─▶ token ── by hand ─▶ comms.ServeJoin, pki.Admit ─▶ Redeem, Issued ─▶ certificate
//	                                                              │ Renew, over the link
//	Revoke ─▶ Revoked: asked in every handshake, told to agents ◀─┘
//
// Invariants: what is answered is in the store before; a token is spent by good
// requests only, and never more often than it says; a token without a name
// admits no member under a name that a living certificate has.
package members
