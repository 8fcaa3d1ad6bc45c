// Sessions: programs that call functions, their called tasks, and which values are kept.
import { html } from "./vendor/ui.js";
import { useTopic, now } from "./data.js";
import { link, number, seconds, bytes, count, shown } from "./words.js";
import { Name, State, Time, Command, Empty, Trouble, Loading, Tile, Action } from "./parts.js";

const program = (j) => j.name.replace(/^session /, "") || j.id;
const first = (text) => (text || "").split("\n")[0];
const age = (j) => Math.max(0, ((j.ended ? Date.parse(j.ended) : now.value) - Date.parse(j.submitted)) / 1000);

// Absent names the hosts whose part is not in the figures.
const Absent = ({ hosts }) => hosts.length > 0 && html`<p class="quiet more">Not in these figures: <${Name} of=${hosts.slice(0, 3).map((h) => h.slice(0, 200)).join("; ")} />${hosts.length > 3 ? ` and ${hosts.length - 3} more hosts` : ""}.</p>`;

function Rows({ rows, caption, open }) {
  return html`<div class="scroll" tabindex="0"><table><caption>${caption}</caption>
    <thead><tr><th>Program</th><th>State</th>${open && html`<th class="number">Running calls</th><th class="number">Waiting calls</th>`}<th class="narrow-hide">Why</th><th class="narrow-hide">Tenant</th><th>Since</th><th class="number">Age or length</th></tr></thead>
    <tbody>${rows.map((j) => html`<tr key=${j.id}>
      <td><a class="row" href=${link("sessions", j.id)}><${Name} of=${program(j)} /></a><small class="sub narrow-hide">${j.id}</small></td>
      <td><${State} is=${j.phase} /></td>
      ${open && html`<td class="number">${number(j.running)}</td><td class="number">${number(j.waiting)}</td>`}
      <td class="why narrow-hide">${j.waits ? html`<${Name} of=${j.waits} />` : j.error ? html`<span class="bad"><${Name} of=${first(j.error).slice(0, 200)} /></span>` : ""}</td>
      <td class="narrow-hide"><${Name} of=${j.tenant || ""} /></td><td class="nowrap"><${Time} at=${j.submitted} /></td><td class="number">${seconds(age(j))}</td></tr>`)}</tbody></table></div>`;
}

export function Sessions() {
  const state = useTopic("sessions");
  if (!state) return html`<h1>Sessions</h1><${Loading} />`;
  if (state.error) return html`<h1>Sessions</h1><${Trouble}>${state.error}<//>`;
  const open = state.open.rows, ended = state.newest.rows.filter((j) => j.ended);
  if (open.length + ended.length === 0) return html`<h1>Sessions</h1><${Empty} title="No session has run here yet"><p>A program opens one to call functions: <code>cascade.Session</code> in Python, <code>Client.Session</code> in Go.</p><//>`;
  return html`<div class="title"><h1>Sessions</h1><span class="quiet">${open.length}${state.open.next ? " or more" : ""} open</span></div>
    ${open.length > 0 ? html`<${Rows} rows=${open} caption="Open" open />` : html`<p class="calm">No session is open.</p>`}
    ${state.open.next && html`<p class="quiet more">${count(open.length, "open session")} shown; there are more.</p>`}
    <${Absent} hosts=${state.absent} />
    ${ended.length > 0 && html`<${Rows} rows=${ended} caption="Ended, the newest first" />`}
    <p class="quiet more">${count(ended.length, "ended session")} of the newest ${count(state.newest.rows.length, "session")} shown${state.newest.next ? "; there are more" : ""}.</p>`;
}

const parts = [["", "Calls"], ["values", "Values"]];

export function Session({ id, part }) {
  const at = part[0] || "";
  return html`<${at === "values" ? Values : Called} id=${id} key=${at}>${(row) => html`<div class="title"><h1><a class="up" href="#/sessions">Sessions</a><span aria-hidden="true"> › </span><${Name} of=${program(row)} /></h1><${State} is=${row.phase} />
    <span class="quiet">since <${Time} at=${row.submitted} />, ${row.ended ? "took" : "for"} ${seconds(age(row))}</span><span class="grow"></span>
    <span class="buttons"><a class="button" href=${link("jobs", id)}>Its job</a>${!row.ended && html`<${Action} label="Cancel…" title="Cancel the session" danger keep="Keep it running" text="Its calls that have not ended are stopped, and its program can call nothing more." path=${"jobs/" + id + "/cancel"} words=${["cancel", id]} />`}</span></div>
    <nav class="tabs" aria-label="Parts of the session">${parts.map(([path, label]) => html`<a href=${path ? link("sessions", id, path) : link("sessions", id)} aria-current=${at === path ? "page" : undefined}>${label}</a>`)}</nav>`}<//>`;
}

// Called shows the called tasks of a job or session; head, if there is one, makes what is above them.
export function Called({ id, children: head }) {
  const c = useTopic("calls:" + id);
  if (!c) return html`<${Loading} />`;
  if (c.error) return html`<${Trouble}>${c.error}<//>`;
  const failed = c.functions.reduce((n, f) => n + f.failed, 0);
  const n = (v, name) => html`<td class=${"number" + (v && name === "failed" ? " bad" : "")}>${v ? number(v) : ""}</td>`;
  if (c.ended + c.running + c.waiting === 0) return html`${head && head(c.row)}<${Empty} title="Nothing has been called yet"><p>Calls are shown as soon as they are made.</p><${Absent} hosts=${c.absent} /><//>`;
  return html`${head && head(c.row)}
    <div class="tiles"><${Tile} label="Running">${number(c.running)}<//><${Tile} label="Waiting">${number(c.waiting)}<//><${Tile} label="Ended">${number(c.ended)}<//><${Tile} label="Failed">${html`<span class=${failed ? "bad" : ""}>${number(failed)}</span>`}<//></div>
    ${!c.whole && html`<p class="quiet" role="status">There are more that ended; they are being read.</p>`}
    <${Absent} hosts=${c.absent} />
    <div class="scroll" tabindex="0"><table><caption>By function</caption><thead><tr><th>Function</th><th class="number">Running</th><th class="number">Waiting</th><th class="number">Done</th><th class="number">Failed</th><th class="number narrow-hide">Cancelled</th><th class="number narrow-hide">Tries more</th><th class="number">Median</th><th class="number narrow-hide">95 %</th><th class="number narrow-hide">Median wait</th><th class="number narrow-hide">Together</th><th class="narrow-hide">Where</th></tr></thead>
    <tbody>${c.functions.map((f) => html`<tr key=${f.function}><td>${f.function ? html`<${Name} of=${f.function} />` : "all others"}</td>${n(f.running)}${n(f.waiting)}${n(f.done)}${n(f.failed, "failed")}
      <td class="number narrow-hide">${f.cancelled ? number(f.cancelled) : ""}</td><td class="number narrow-hide">${f.more_tries ? number(f.more_tries) : ""}</td><td class="number">${seconds(f.median_seconds)}</td><td class="number narrow-hide">${seconds(f.p95_seconds)}</td><td class="number narrow-hide">${seconds(f.median_wait_seconds)}</td><td class="number narrow-hide">${seconds(f.total_seconds)}</td><td class="narrow-hide"><${Name} of=${f.where || ""} /></td></tr>`)}</tbody></table></div>
    <p class="quiet more">${count(c.functions.length, "function")} shown. Times are of the newest 1,000 calls of each. Where the time went: <${Command} words=${["explain", id]} /></p>
    ${c.causes.length > 0 && html`<h2>Errors</h2>${c.causes.map((e) => html`<article class="card wide error" key=${e.family + e.task}><header><h3><${Name} of=${e.family || "several functions"} /></h3><span class="quiet">${number(e.count)} of ${number(failed)} that failed</span></header>
      <pre class="log" tabindex="0" role="region" aria-label=${"Error of " + shown(e.family)}><${Name} of=${e.message} /></pre><p class="quiet">Such as <${Name} of=${e.task} /> on <${Name} of=${e.host || "no host"} />; the last at <${Time} at=${e.last} />. <${Command} words=${["explain", id, e.task]} /></p></article>`)}`}
    ${c.newest.length > 0 && html`<div class="scroll" tabindex="0"><table><caption>Calls that ended, the newest first</caption><thead><tr><th>Call</th><th>Function</th><th>State</th><th>Host</th><th class="narrow-hide">Called by</th><th>Ended</th><th class="number">Took</th><th>Error</th></tr></thead>
    <tbody>${c.newest.map((r) => html`<tr key=${r.name}><td><${Name} of=${r.name} /></td><td><${Name} of=${r.function} /></td><td><${State} is=${r.state} /></td><td><${Name} of=${r.agent || ""} /></td><td class="narrow-hide"><${Name} of=${r.parent || r.task} /></td><td class="nowrap"><${Time} at=${r.ended} /></td><td class="number">${seconds(r.seconds)}</td><td class="why"><${Name} of=${first(r.error)} /></td></tr>`)}</tbody></table></div>
    <p class="quiet more">${number(c.newest.length)} of ${count(c.ended, "call")} shown. All: <${Command} words=${["ls", "calls", id]} /></p>`}`;
}

// Values shows what is kept of a session, where, and by what.
function Values({ id, children: head }) {
  const m = useTopic("memory:" + id);
  if (!m) return html`<${Loading} />`;
  if (m.error) return html`<${Trouble}>${m.error}<//>`;
  const sum = (k) => m.hosts.reduce((n, h) => n + h[k], 0);
  if (m.references === 0) return html`${head(m.row)}<${Empty} title="Nothing is kept"><p>${m.row.ended ? "The session has ended: its values are freed." : "No host keeps a value or a call of it."}</p><${Absent} hosts=${m.absent} /><//>`;
  return html`${head(m.row)}
    <div class="tiles"><${Tile} label="References">${number(m.references)}<//><${Tile} label="Shared memory">${bytes(sum("shm"))}<//><${Tile} label="Disk">${bytes(sum("disk"))}<//><${Tile} label="Messages" title="Small values, in the memory of agents">${bytes(sum("message"))}<//><${Tile} label="Arguments">${bytes(sum("arguments"))}<//></div>
    <${Absent} hosts=${m.absent} />
    <div class="scroll" tabindex="0"><table><caption>By host</caption><thead><tr><th>Host</th><th class="number">References</th><th class="number">Shared memory</th><th class="number">Disk</th><th class="number narrow-hide">Messages</th><th class="number narrow-hide">Arguments</th></tr></thead>
    <tbody>${m.hosts.slice(0, 200).map((h) => html`<tr key=${h.host}><td><${Name} of=${h.host} /></td><td class="number">${number(h.references)}</td><td class="number">${bytes(h.shm)}</td><td class="number">${bytes(h.disk)}</td><td class="number narrow-hide">${bytes(h.message)}</td><td class="number narrow-hide">${bytes(h.arguments)}</td></tr>`)}</tbody></table></div>
    ${m.hosts.length > 200 && html`<p class="quiet more">200 of ${count(m.hosts.length, "host")} shown.</p>`}
    <div class="scroll" tabindex="0"><table><caption>The largest</caption><thead><tr><th>Name</th><th>Kind</th><th>Held by</th><th class="number">Size</th><th>Host</th><th class="narrow-hide">Place</th><th>State</th><th class="narrow-hide">Since</th></tr></thead>
    <tbody>${m.largest.map((r) => html`<tr key=${r.name + r.agent + r.kind}><td><${Name} of=${r.name} />${r.function ? html`<small class="sub"><${Name} of=${r.function} /></small>` : ""}</td><td>${r.kind}</td><td>${r.holders || "nothing"}<small class="sub">of <${Name} of=${r.owner} /></small></td><td class="number">${bytes(r.size + (r.arguments || 0))}</td><td><${Name} of=${r.agent} /></td><td class="narrow-hide">${r.place || ""}</td><td><${State} is=${r.state} /></td><td class="nowrap narrow-hide"><${Time} at=${new Date(m.heard - r.age_seconds * 1000).toISOString()} /></td></tr>`)}</tbody></table></div>
    <p class="quiet more">${number(m.largest.length)} of ${count(m.references, "reference")} shown. All: <${Command} words=${["memory", id]} /></p>`;
}
