// Package members keeps who may be in a cluster: tokens that admit, certificates
// that were issued, and those that are revoked.
//
//	Invite ─▶ token ── by hand ─▶ comms.ServeJoin, pki.Admit ─▶ Redeem, Issued ─▶ certificate
//	                                                              │ Renew, over the link
//	Revoke ─▶ Revoked: asked in every handshake, told to agents ◀─┘
//
// Invariants:
//   - A change is in the store before the request is answered.
//   - Only valid requests use up a token, and never more often than it permits.
//   - A token without a name admits no member under the name of a valid certificate.
package members
