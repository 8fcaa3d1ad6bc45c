// Package ui serves the page of a cluster: what runs, what waits and why, and what can be done.
// The page is files as they are in git, with no build step; its figures come as JSON.
//
//	browser ──GET api/v1/...──▶ Handler ──▶ topics: one poller for each thing that pages look at
//	        ◀─stream of topics──              │ Watch of a job, queries with bounds
//	        ──POST api/v1/...──▶ actions      ▼
//	                                        Source (a client of the cluster)
//
// A page asks for topics by name: jobs, sessions, hosts, use, job:ID, picture:ID, calls:ID, memory:ID. All pages that look at one topic
// share its poller, which begins with the first of them and ends after the last. A page is told the newest
// state of a topic, never a list of changes: a slow page skips states and no memory grows for it.
//
// Invariants:
//   - No request of a page makes work for each task in a loop of the controller. Tasks are read page by
//     page from its store, at most wholeTasks of a job, and reading takes at most one part in fifty of the time.
//     Of a larger job none are read before it has run for largeAfter, and then for one part in 200.
//   - Counts are exact. A list that does not have all says how many it has of how many.
//   - Every path needs a Host of the list; every path of the API needs the token; nothing is changed by GET.
//   - Text of others is data: it is encoded as JSON here, and made a text node there.
package ui
