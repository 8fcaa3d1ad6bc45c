// One job: the verdict, why, what to do, and then what shows it.
import { html, useState } from "./vendor/ui.js";
import { useTopic, ask, now } from "./data.js";
import { link, number, seconds, bytes, time, count, shown } from "./words.js";
import { Name, State, Time, Bar, Command, Empty, Trouble, Loading, More, Tile, Action, useAsked } from "./parts.js";
import { Timeline } from "./timeline.js";
import { Graph } from "./graph.js";
import { Task } from "./task.js";
import { Log } from "./log.js";
import { Called } from "./sessions.js";

const tabs = [["", "Overview"], ["graph", "Graph"], ["time", "Timeline"], ["tasks", "Tasks"], ["errors", "Errors"], ["log", "Log"], ["calls", "Calls"]];

export function Job({ id, part, query }) {
  const state = useTopic("job:" + id), picture = useTopic("picture:" + id);
  if (!state) return html`<${Loading} />`;
  if (state.error) return html`<${Empty} title="This job cannot be shown"><p>${shown(state.error)}.</p><p><a href="#/">All jobs</a></p><//>`;
  const at = part[0] || "";
  const errors = state.total.failed;
  return html`<${Head} s=${state} p=${picture} id=${id} />
    <nav class="tabs" aria-label="Parts of the job">${tabs.map(([path, label]) => html`<a href=${path ? link("jobs", id, path) : link("jobs", id)} aria-current=${at === path ? "page" : undefined}>${label}${path === "errors" && errors > 0 ? html` <b class="badge">${number(errors)}</b>` : ""}</a>`)}</nav>
    ${at === "" ? html`<${Overview} s=${state} p=${picture} id=${id} />`
    : at === "graph" ? html`<${Graph} s=${state} p=${picture} id=${id} />`
    : at === "time" ? html`<${Timeline} id=${id} made=${picture && picture.at} />`
    : at === "tasks" && part[1] ? html`<${Task} id=${id} name=${part[1]} made=${picture && picture.at} />`
    : at === "tasks" ? html`<${Tasks} id=${id} query=${query} s=${state} />`
    : at === "errors" ? html`<${Errors} p=${picture} s=${state} id=${id} />`
    : at === "log" ? html`<${LogPart} id=${id} query=${query} p=${picture} />`
    : at === "calls" ? html`<${Called} id=${id} />`
    : html`<${Empty} title="There is no such part of a job" />`}`;
}

const slow = (s, usual) => usual > 0 && s > 1.5 * usual && s - usual > 1;
const took = (s) => s.took + (s.final || !s.started ? 0 : Math.max(0, (now.value - Date.parse(s.started)) / 1000));

function Head({ s, p, id }) {
  const late = p && p.verdict && p.verdict.kind === "late";
  const held = s.phase === "held", name = s.row.name || id;
  return html`<div class="title job"><h1><a class="up" href="#/">Jobs</a><span aria-hidden="true"> › </span><${Name} of=${name} /></h1><${State} is=${late ? "late" : s.phase} />
    <span class="quiet">${s.started ? html`started <${Time} at=${s.started} />, ${s.final ? "took" : "for"} ${seconds(took(s))}` : html`submitted <${Time} at=${s.row.submitted} />`}${s.row.priority ? `, priority ${s.row.priority}` : ""}</span>
    <span class="grow"></span><span class="buttons">
    ${!s.final && (held
      ? html`<${Action} label="Release…" title="Release the job" text="Its tasks start again as soon as there is a place." path=${"jobs/" + id + "/release"} words=${["release", id]} />`
      : html`<${Action} label="Hold…" title="Hold the job" text="Nothing more of it starts until it is released. What runs goes on." path=${"jobs/" + id + "/hold"} words=${["hold", id]} />`)}
    ${!s.final && html`<${Action} label="Cancel…" title="Cancel the job" danger keep="Keep it running" text=${`${count(s.total.running, "running task")} will be stopped, and no more starts. Outputs that are there stay until the job is removed.`} path=${"jobs/" + id + "/cancel"} words=${["cancel", id]} />`}
    ${s.final && (s.total.failed > 0 || s.total.cancelled > 0) && html`<${Action} label="Rerun failed…" title="Run what failed again" text=${`${count(s.total.failed + s.total.cancelled, "task")} that failed or were cancelled, and what was skipped for them, run again. Results that are there stay.`} path=${"jobs/" + id + "/rerun"} words=${["rerun", id]} />`}
    ${s.final && html`<${Action} label="Remove…" title="Remove the job" danger keep="Keep it" text="Its outputs, logs and history go. Copies of outputs stay. This cannot be undone." path=${"jobs/" + id + "/remove"} words=${["rm", "jobs", id]} />`}
    </span></div>`;
}

const verdicts = { done: "It is done.", failed: "It failed.", cancelled: "It was cancelled.", held: "It is on hold.", waiting: "It waits to start.", running: "It runs.", late: "It is late." };

function Verdict({ s, p, id }) {
  const v = p.verdict, d = p.deadlines[0], e = p.end;
  const span = (at, low, high) => html`<b><${Time} at=${at} /></b> (${time(low)} to ${time(high)})`;
  return html`<section class=${"verdict " + v.kind} aria-label="How the job stands" aria-live="polite">
    <h2><${State} is=${v.kind === "waiting" ? "queued" : v.kind} /> ${verdicts[v.kind]}
      ${d ? html` <span class="plain">Deadline of <${Name} of=${d.family} />: <b><${Time} at=${d.at} /></b>${d.missed ? ", which is over" : ""}${d.expected ? html`; expected ${span(d.expected, d.low, d.high)}, <b>${d.over > 0 ? seconds(d.over) + " too late" : seconds(-d.over) + " in time"}</b>` : ""}.</span>`
      : e ? html` <span class="plain">Expected end ${span(e.at, e.low_at, e.high_at)}.</span>` : ""}
      ${s.final ? html` <span class="plain">${s.ended ? html`It ended <${Time} at=${s.ended} /> after ${seconds(s.took)}.` : ""}</span>` : ""}</h2>
    ${s.late && html`<p><${Name} of=${s.late} /></p>`}
    ${v.because.map((text) => html`<p class="because"><${Name} of=${text} /></p>`)}
    ${p.next.length > 1 && html`<p>Next on the way to the end: ${p.next.map((n, i) => html`${i > 0 && html`<span aria-hidden="true"> → </span>`}<a href=${link("jobs", id, "tasks", n.task)}><${Name} of=${n.task} /></a>${n.takes > 0 ? html` <span class="quiet">(${n.state === "running" ? "runs, usually " : ""}${seconds(n.takes)})</span>` : ""}`)}</p>`}
    ${v.do.length > 0 && html`<ul class="do">${v.do.map((a) => html`<li>${a.text}${a.words ? html`: <${Command} words=${a.words} />` : ""}</li>`)}</ul>`}
    ${e && html`<p class="quiet">Of 200 draws of what is left, 8 in 10 end in that span. The plan was ${seconds(e.plan)} in all.${e.unknown > 0 ? ` Of ${count(e.unknown, "kind")} of task none has ended, so the plan's time is taken.` : ""}</p>`}
  </section>`;
}

function Overview({ s, p, id }) {
  return html`${p && p.error && html`<${Trouble}>${p.error}<//>`}
    ${p && p.verdict ? html`<${Verdict} s=${s} p=${p} id=${id} />` : html`<${Loading} />`}
    <div class="tiles">
      <${Tile} label="Done">${number(s.total.done)} of ${number(s.total.total)}<//>
      <${Tile} label="Running">${number(s.total.running)}<//>
      <${Tile} label="Failed"><span class=${s.total.failed ? "bad" : ""}>${number(s.total.failed)}</span><//>
      <${Tile} label="Tries more">${number(s.total.retries)}<//>
      <${Tile} label="Time of tasks">${seconds(s.task_seconds)}<//>
      <${Tile} label="Published">${bytes(s.bytes_out)}<//>
      <${Tile} label="Spilled to disk">${bytes(s.spilled)}<//>
      <${Tile} label="Copied">${bytes(s.copied)}<//>
    </div>
    ${s.differs && html`<${Trouble}>${"A dataset that was recomputed differs from the one that was lost: " + s.differs}<//>`}
    <${Families} s=${s} p=${p} id=${id} />
    ${p && p.verdict && html`<div class="columns"><${Slow} p=${p} id=${id} /><${Path} p=${p} id=${id} s=${s} /></div>`}
    ${p && p.verdict && !p.whole && html`<p class="quiet">The job has ${count(p.tasks, "task")}. Counts are exact. Times of families, the expected end, the critical path and the timeline are shown of jobs of 20,000 tasks at most; what runs longest and what failed, when the job has run for a minute. <${Command} words=${["report", id, "-o", "report.html"]} /> writes them.</p>`}`;
}

const shownFamilies = 60;
function Families({ s, p, id }) {
  const [all, setAll] = useState(false);
  const facts = new Map(((p && p.families) || []).map((f) => [f.name, f]));
  const busy = (f) => (f.failed ? 4 : 0) + (f.running ? 2 : 0) + (f.done < f.total ? 1 : 0);
  const fold = s.families.length > shownFamilies && !all;
  const rows = fold ? [...s.families].sort((a, b) => busy(b) - busy(a)).slice(0, shownFamilies) : s.families;
  return html`<div class="scroll"><table><caption>Families of tasks</caption>
    <thead><tr><th>Family</th><th>Tasks</th><th class="number">Done</th><th class="number">Runs</th><th class="number">Ready</th><th class="number">Failed</th><th class="number">Skipped</th><th class="number">Median</th><th class="number">90 %</th><th class="number">Longest</th><th class="number">Planned</th></tr></thead>
    <tbody>${rows.map((f) => { const x = facts.get(f.name) || {}; return html`<tr key=${f.name}>
      <td><i class="swatch" style=${{ background: x.colour }} aria-hidden="true"></i><a class="row" href=${link("jobs", id, "tasks") + "?filter=" + encodeURIComponent(f.name)}><${Name} of=${f.name} /></a></td>
      <td class="wide"><${Bar} of=${f} /></td>
      <td class="number">${number(f.done)} of ${number(f.total)}</td><td class="number">${f.running || ""}</td><td class="number">${f.ready || ""}</td>
      <td class=${"number" + (f.failed ? " bad" : "")}>${f.failed || ""}</td><td class="number">${f.skipped + f.cancelled || ""}</td>
      <td class=${"number" + (x.ended && slow(x.median, x.planned) ? " slow" : "")}>${x.ended ? seconds(x.median) : ""}</td><td class="number">${x.ended ? seconds(x.p90) : ""}</td><td class="number">${x.ended ? seconds(x.most) : ""}</td><td class="number quiet">${x.planned ? seconds(x.planned) : ""}</td></tr>`; })}</tbody></table></div>
    ${s.families.length > shownFamilies && html`<p class="quiet more">${number(rows.length)} of ${count(s.families.length, "family").replace("familys", "families")} shown. <button class="small" onClick=${() => setAll(!all)}>${all ? "Show fewer" : "Show all"}</button></p>`}`;
}

function Slow({ p, id }) {
  if (p.slow.length === 0) return null;
  const age = (t) => (p.at && t.started ? t.seconds + Math.max(0, (now.value - p.heard) / 1000) : t.seconds);
  return html`<section><div class="scroll"><table><caption>Running longest for their family</caption>
    <thead><tr><th>Task</th><th>Host</th><th class="number">Runs for</th><th class="number">Usually</th></tr></thead>
    <tbody>${p.slow.map((t) => html`<tr key=${t.task}><td><a class="row" href=${link("jobs", id, "tasks", t.task)}><${Name} of=${t.task} /></a>${t.attempt > 1 ? html` <small class="quiet">attempt ${t.attempt}</small>` : ""}</td><td><${Name} of=${t.host} />${t.silent ? html` <small class="slow">not heard of</small>` : ""}</td>
      <td class=${"number" + (slow(t.seconds, t.usual) ? " slow" : "")}>${seconds(age(t))}</td><td class="number">${t.usual ? seconds(t.usual) : "not known"}</td></tr>`)}</tbody></table></div></section>`;
}

function Path({ p, id, s }) {
  if (!p.path) return null;
  const steps = [...p.path.list].reverse();
  return html`<section><div class="scroll"><table><caption>Critical path: what the ${s.final ? "end" : "newest task"} waited for, the last first</caption>
    <thead><tr><th>Task</th><th>State</th><th>Host</th><th class="number">Waited</th><th class="number">Ran</th><th class="number">Usually</th></tr></thead>
    <tbody>${steps.map((t) => html`<tr key=${t.task}><td><a class="row" href=${link("jobs", id, "tasks", t.task)}><${Name} of=${t.task} /></a></td><td><${State} is=${t.state} /></td><td><${Name} of=${t.host} /></td><td class="number">${seconds(t.waited)}</td><td class=${"number" + (slow(t.ran, t.usual) ? " slow" : "")}>${seconds(t.ran)}</td><td class="number quiet">${t.usual ? seconds(t.usual) : ""}</td></tr>`)}</tbody></table></div>
    <p class="quiet more">${number(steps.length)} of ${count(p.path.steps, "step")} shown. They ran for ${seconds(p.path.ran)}, and waited ${seconds(p.path.waited)} for a place.</p></section>`;
}

function Tasks({ id, query, s }) {
  const filter = query.get("filter") || "", cursor = query.get("cursor") || "";
  const [text, type] = useState(filter);
  const { data, wrong } = useAsked(() => ask(`jobs/${id}/tasks?filter=${encodeURIComponent(filter)}&cursor=${cursor}`), [filter, cursor, id, s.final || Math.floor(s.heard / 5000)]);
  const to = (f, c) => link("jobs", id, "tasks") + "?filter=" + encodeURIComponent(f) + (c ? "&cursor=" + c : "");
  const total = filter === "" ? s.total.total : s.total[filter] ?? (s.families.find((f) => f.name === filter) || {}).total;
  return html`<form class="search" role="search" onSubmit=${(e) => { e.preventDefault(); location.hash = to(text); }}><input type="search" aria-label="Task, family or state" placeholder="Task, family or state" value=${text} onInput=${(e) => type(e.target.value)} /><button>Find</button>
    ${["running", "failed", "ready", "skipped"].map((f) => html`<a class=${"chip" + (filter === f ? " on" : "")} href=${to(filter === f ? "" : f)}><${State} is=${f} /> ${number(s.total[f] || 0)}</a>`)}</form>
    ${wrong && html`<${Trouble}>${wrong}<//>`}
    ${!data ? !wrong && html`<${Loading} />` : data.rows.length === 0 ? html`<${Empty} title="No such task"><p>${filter ? html`No task stands so, or has this name. <a href=${to("")}>Show all tasks</a>` : "The job has no task yet."}</p><//>`
    : html`<div class="scroll"><table><caption class="hidden">Tasks</caption><thead><tr><th>Task</th><th>State</th><th>Host</th><th class="number">Attempt</th><th>Started</th><th class="number">Took</th><th class="number">Processor</th><th class="number">Memory</th><th class="number">Read</th><th class="number">Published</th></tr></thead>
      <tbody>${data.rows.map((t) => html`<tr key=${t.index}><td><a class="row" href=${link("jobs", id, "tasks", t.name)}><${Name} of=${t.name} /></a></td><td><${State} is=${t.state} /></td><td><${Name} of=${t.agent || ""} /></td><td class="number">${t.attempt || ""}</td><td class="nowrap">${t.started ? html`<${Time} at=${t.started} />` : ""}</td><td class="number">${t.started ? seconds(t.seconds) : ""}</td><td class="number">${t.cpu_seconds ? seconds(t.cpu_seconds) : ""}</td><td class="number">${t.peak_memory ? bytes(t.peak_memory) : ""}</td><td class="number">${t.bytes_in ? bytes(t.bytes_in) : ""}</td><td class="number">${t.bytes_out ? bytes(t.bytes_out) : ""}</td></tr>`)}</tbody></table></div>
      <${More} shown=${data.rows.length} of=${total} what="task" next=${data.next} />
      <p class="buttons">${cursor && html`<a class="button" href=${to(filter)}>First page</a>`} ${data.next && html`<a class="button" href=${to(filter, data.next)}>Next page</a>`}</p>`}`;
}

function Errors({ p, s, id }) {
  if (!p) return html`<${Loading} />`;
  if (p.error) return html`<${Trouble}>${p.error}<//>`;
  if (p.causes.length === 0) return html`<${Empty} title="Nothing has failed"><p>${s.error ? shown(s.error.message) : "No task of the job has failed."}</p><//>`;
  const sum = p.causes.reduce((n, c) => n + c.count, 0);
  return html`<p class="quiet">${count(p.causes.length, "cause")} of ${number(sum)} failed tasks shown, of ${number(s.total.failed)} in all. ${s.total.skipped > 0 ? number(s.total.skipped) + " tasks were skipped because of them." : ""}</p>
    ${p.causes.map((c) => html`<article class="card wide error" key=${c.task}>
      <header><h3><${Name} of=${c.family} />: ${c.count === 1 ? "one task" : number(c.count) + " tasks"}</h3><span class="quiet">${c.first && html`<${Time} at=${c.first} />`}${c.count > 1 ? html` to <${Time} at=${c.last} />` : ""}</span></header>
      <pre class="log" tabindex="0" role="region" aria-label="Error">${shown(c.message)}</pre>
      ${c.tail && html`<details><summary>The last lines of its log</summary><pre class="log">${shown(c.tail)}</pre></details>`}
      <p>Such as <a href=${link("jobs", id, "tasks", c.task)}><${Name} of=${c.task} /></a>, ${c.attempt ? `attempt ${c.attempt} ` : ""}on <${Name} of=${c.host} />. <a href=${link("jobs", id, "log") + "?task=" + encodeURIComponent(c.task)}>Its log</a></p>
      <ul class="do"><li>Run it again alone, with its own inputs: <${Command} words=${["replay", id, "--task", c.task, "--debug"]} /></li><li>Run it again in the job: <${Command} words=${["rerun", id, c.task]} /></li></ul>
    </article>`)}`;
}

function LogPart({ id, query, p }) {
  const named = query.get("task");
  const choice = named || (p && p.causes && p.causes[0] && p.causes[0].task) || (p && p.slow && p.slow[0] && p.slow[0].task) || "";
  const [text, type] = useState("");
  return html`<form class="search" role="search" onSubmit=${(e) => { e.preventDefault(); location.hash = link("jobs", id, "log") + "?task=" + encodeURIComponent(text || choice); }}><input type="search" aria-label="Task whose log is shown" placeholder="Task, such as spread[2]" value=${text || choice} onInput=${(e) => type(e.target.value)} /><button>Show</button></form>
    ${choice ? html`<${Log} key=${choice} id=${id} task=${choice} />` : html`<${Empty} title="Whose log?"><p>Name a task. None failed, and none runs now.</p><//>`}`;
}
