//go:build linux

package chaos

// mix is a job with everything that a break can disturb: a generator, consumers
// of single elements, chains, and a reduction, of all sizes.
const mix = `job: mix
tasks:
  source: {run: chaos_source, with: {parts: 12, work: 300}, generates: {part: 12}}
  step:
    for: {i: "0..11"}
    run: chaos_step
    in: {part: "source.part[${i}]"}
    with: {work: 500}
    out: [part]
  next:
    for: {i: "0..11"}
    run: chaos_step
    in: {part: "step[${i}].part"}
    with: {work: 300}
    out: [part]
  total: {run: chaos_total, in: {parts: "next[*].part"}, out: [sum]}
outputs: [total.sum, "next[*].part"]
`

// mixLines is how many lines the tasks of mix write when nothing is broken.
const mixLines = 14 + 2*(12+12+1)
