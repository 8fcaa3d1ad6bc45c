// All jobs: those that have not ended first, then the newest.
import { html, useState } from "./vendor/ui.js";
import { useTopic, ask, now } from "./data.js";
import { link, number, seconds, count } from "./words.js";
import { Name, State, Time, Bar, Command, Empty, Trouble, Loading, More, useAsked } from "./parts.js";

const running = (j) => ["running", "queued", "held"].includes(j.phase);

function Row({ j }) {
  const until = j.ended ? Date.parse(j.ended) : now.value;
  return html`<tr>
    <td><a class="row" href=${link("jobs", j.id)}><${Name} of=${j.name} /></a><small class="sub narrow-hide">${j.id}</small></td>
    <td><${State} is=${j.phase} /></td>
    <td class="wide"><${Bar} of=${{ total: j.tasks, done: j.done, failed: j.failed }} /><small class="sub">${number(j.done)} of ${number(j.tasks)} done${j.failed ? html`, <b class="bad">${number(j.failed)} failed</b>` : ""}</small></td>
    <td class="why narrow-hide">${j.waits ? html`<${Name} of=${j.waits} />` : j.error ? html`<span class="bad"><${Name} of=${j.error.split("\n")[0].slice(0, 200)} /></span>` : ""}</td>
    <td class="narrow-hide"><${Name} of=${j.tenant || ""} /></td>
    <td class="nowrap"><${Time} at=${j.submitted} /></td>
    <td class="number">${seconds(Math.max(0, (until - Date.parse(j.submitted)) / 1000))}</td>
  </tr>`;
}

function Table({ rows, caption }) {
  return html`<div class="scroll"><table><caption>${caption}</caption>
    <thead><tr><th>Job</th><th>State</th><th>Tasks</th><th class="narrow-hide">Why</th><th class="narrow-hide">Tenant</th><th>Submitted</th><th class="number">Age or length</th></tr></thead>
    <tbody>${rows.map((j) => html`<${Row} key=${j.id} j=${j} />`)}</tbody></table></div>`;
}

// Found are jobs of a name or phase, which the cluster looks for.
function Found({ filter, cursor }) {
  const { data, wrong } = useAsked(() => ask("jobs?filter=" + encodeURIComponent(filter) + "&cursor=" + cursor), [filter, cursor]);
  if (wrong) return html`<${Trouble}>${wrong}<//>`;
  if (!data) return html`<${Loading} />`;
  if (data.rows.length === 0) return html`<${Empty} title="No such job"><p>No job has this name or state. <a href="#/">Show all jobs</a></p><//>`;
  return html`<${Table} rows=${data.rows} caption=${filter ? "Jobs: " + filter : "Older jobs"} />
    <${More} shown=${data.rows.length} what="job" next=${data.next} />
    ${data.next && html`<p><a class="button" href=${"#/?filter=" + encodeURIComponent(filter) + "&cursor=" + data.next}>Older jobs</a></p>`}`;
}

export function Jobs({ query }) {
  const state = useTopic("jobs");
  const filter = query.get("filter") || "", cursor = query.get("cursor") || "";
  const [text, type] = useState(filter);
  const search = (e) => { e.preventDefault(); location.hash = text ? "#/?filter=" + encodeURIComponent(text) : "#/"; };
  const form = html`<form class="search" role="search" onSubmit=${search}><input type="search" aria-label="Name or state of jobs" placeholder="Name or state, such as failed" value=${text} onInput=${(e) => type(e.target.value)} /><button>Find</button></form>`;
  if (filter || cursor) return html`<div class="title"><h1>Jobs</h1><span class="grow"></span>${form}</div><${Found} filter=${filter} cursor=${cursor} />`;
  if (!state) return html`<h1>Jobs</h1><${Loading} />`;
  if (state.error) return html`<h1>Jobs</h1><${Trouble}>${state.error}<//>`;
  const open = state.open.rows, ended = state.newest.rows.filter((j) => !running(j));
  if (open.length + ended.length === 0) return html`<h1>Jobs</h1><${Empty} title="No job has run here yet"><p>This writes a first job, and this runs it:</p><p><${Command} words=${["init"]} /></p><p><${Command} words=${["run", "job.yaml"]} /></p><//>`;
  return html`<div class="title"><h1>Jobs</h1><span class="quiet">${open.length}${state.open.next ? " or more" : ""} not ended</span><span class="grow"></span>${form}</div>
    ${open.length > 0 ? html`<${Table} rows=${open} caption="Not ended" />` : html`<p class="calm">Nothing runs now.</p>`}
    ${state.open.next && html`<${More} shown=${open.length} what="job" next="more" />`}
    ${ended.length > 0 && html`<${Table} rows=${ended} caption="Ended, the newest first" />`}
    <p class="quiet more">${count(ended.length, "ended job")} of the newest ${state.newest.rows.length} jobs shown. ${state.newest.next && html`<a href=${"#/?cursor=" + state.newest.next}>Older jobs</a>`}</p>`;
}
