// Package failpoint ends the process at a named point, so that tests can crash a
// real daemon between two of its steps.
//
//	CASCADE_FAILPOINT=controller.commit=3   the third time that the point is reached: SIGKILL
//
// Only builds with the tag check look at the variable; in all others Hit is empty
// and costs nothing. Several points are separated by commas.
//
// The points:
//
//	controller.received   events of an agent are about to be committed
//	controller.stored     a commit is durable, and not yet announced
//	gcs.group             a shard has written a group: other shards may not have theirs
package failpoint
