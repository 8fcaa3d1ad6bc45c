// Package admin has what operators of a cluster need besides package cascade: members and
// tokens, profiles, backups, the draining of agents, gateways, and the cleaning of state folders.
package admin
