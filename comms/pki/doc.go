// Package pki holds the certificates of a cluster: an authority of its own, join
// tokens, and the TLS configurations of links.
//
//	cluster init ─▶ Authority (key and certificate in one folder of mode 0700)
//	             ─▶ Token ── by hand ─▶ Apply on a new host: own key, signing request, token
//	                                     │ TLS, server proven by the token's fingerprint
//	                 Register.Redeem ◀───┘ Admit ─▶ certificate ─▶ Admitted
//	every link: ServerConfig, ClientConfig ─▶ TLS 1.3, both sides proven ─▶ Identity
//	before the end of a certificate: Authority.Renew, over the link itself
//
// Invariants:
//   - A private key never leaves the process that made it.
//   - An identity (role, name) comes from a certificate, never from what a peer says of itself.
//   - A token admits no more often than it says. Its use is on disk before the certificate
//     is sent.
//   - The authority signs identities of its own cluster only.
//   - Host names play no part, since addresses change: the peer that answers must have the
//     role that the caller expects.
package pki
