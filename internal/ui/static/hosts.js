// Hosts: what each has, what runs there, and what moves between them.
import { html } from "./vendor/ui.js";
import { useTopic, now } from "./data.js";
import { bytes, seconds, link, number, count } from "./words.js";
import { Name, State, Command, Empty, Trouble, Loading, Action, Tile } from "./parts.js";

const rate = (bits) => (bits >= 1e9 ? Number((bits / 1e9).toPrecision(3)) + " Gbit/s" : Number((bits / 1e6).toPrecision(3)) + " Mbit/s");

// Spark draws what part of something was in use; a gap is where nothing was told.
function Spark({ at, part, label }) {
  const to = at[at.length - 1], x = (s) => 200 - (to - s) / 3, y = (p) => 31 - 30 * Math.max(0, Math.min(1, p));
  const d = at.map((s, i) => (i > 0 && s - at[i - 1] < 35 ? "L" : "M") + x(s).toFixed(1) + " " + y(part[i]).toFixed(1)).join("");
  return html`<svg class="spark" viewBox="0 0 200 32" preserveAspectRatio="none" role="img" aria-label=${label}><path class="floor" d="M0 31H200" /><path d=${d} /></svg>`;
}

const percent = (part) => Math.round(100 * Math.max(0, Math.min(1, part))) + " %";

// Use says how much of a host is in use, by whatever runs there, and how that went in the last minutes.
function Use({ u, past }) {
  const busy = u.busy_cores / Math.max(1, u.cores), memory = u.memory_used / Math.max(1, u.memory_total);
  const line = (name, part, text, values) => html`<div class="use"><span>${name}</span><b>${percent(part)}</b><span class="quiet">${text}</span>
    ${past && past.at.length > 1 && html`<${Spark} at=${past.at} part=${values} label=${`${name} from ${seconds(past.at[past.at.length - 1] - past.at[0])} before: ${percent(Math.min(...values))} to ${percent(Math.max(...values))}`} />`}</div>`;
  return html`${line("Processors", busy, `${u.busy_cores.toFixed(1)} of ${u.cores} work`, past && past.busy_cores.map((n) => n / Math.max(1, past.cores)))}
    ${line("Memory", memory, `${bytes(u.memory_used)} of ${bytes(u.memory_total)}`, past && past.memory_used.map((n) => n / Math.max(1, past.memory_total)))}`;
}

function Host({ h, past }) {
  const share = h.cpu > 0 ? Math.min(1, h.running / h.cpu) : 0;
  const resources = Object.entries(h.resources || {}).filter(([name]) => !/^(agent|host)-/.test(name)); // those tie tasks to a host
  return html`<article class="card">
    <header><h3><${Name} of=${h.name} /></h3><${State} is=${h.state} /></header>
    <div class="meter" role="img" aria-label=${`${h.running} tasks run on ${h.cpu} cores`}><span style=${{ width: share * 100 + "%" }}></span></div>
    <p><b>${number(h.running)}</b> running on <b>${h.cpu}</b> cores</p>
    ${h.use && html`<${Use} u=${h.use} past=${past} />`}
    <dl>
      <div><dt>Memory for tasks</dt><dd>${bytes(h.memory)}</dd></div>
      ${h.gpu > 0 && html`<div><dt>Devices</dt><dd>${(h.devices || []).map((d) => d.name + (d.memory ? " (" + bytes(d.memory) + ")" : "")).join(", ") || h.gpu}</dd></div>`}
      ${resources.length > 0 && html`<div><dt>Resources</dt><dd>${resources.map(([k, v]) => k + ": " + v).join(", ")}</dd></div>`}
      <div><dt>Jobs</dt><dd>${number(h.jobs)}</dd></div>
      <div><dt>Platform</dt><dd>${h.platform || "not known"}</dd></div>
      <div><dt>Heard</dt><dd>${h.seen ? seconds(Math.max(0, (now.value - Date.parse(h.seen)) / 1000)) + " ago" : "not since this page began"}</dd></div>
    </dl>
    ${h.state === "ready" && html`<p class="buttons"><${Action} label="Drain…" title=${"Drain " + h.name} needs="admin" danger keep="Keep it" text="The host takes no more tasks. What has not begun goes to others, what runs there has its grace to end, and then the agent ends." path=${"hosts/" + encodeURIComponent(h.name) + "/drain"} words=${["cluster", "drain", h.name]} /></p>`}
  </article>`;
}

export function Hosts() {
  const state = useTopic("hosts"), use = useTopic("use");
  if (!state) return html`<h1>Hosts</h1><${Loading} />`;
  if (state.error) return html`<h1>Hosts</h1><${Trouble}>${state.error}<//>`;
  const { hosts, links } = state;
  if (hosts.length === 0) return html`<h1>Hosts</h1><${Empty} title="No host is there"><p>Jobs wait until an agent joins. This starts one, on the host that is to run tasks:</p><p><code>cascade-agent --join ADDRESS --token TOKEN</code></p><//>`;
  const ready = hosts.filter((h) => h.state === "ready");
  const sum = (f) => ready.reduce((n, h) => n + f(h), 0);
  return html`<div class="title"><h1>Hosts</h1><span class="quiet">${count(hosts.length, "host")}, ${ready.length} ready</span></div>
    <div class="tiles"><${Tile} label="Running tasks">${number(sum((h) => h.running))}<//><${Tile} label="Cores">${sum((h) => h.cpu)}<//><${Tile} label="Memory">${bytes(sum((h) => h.memory))}<//><${Tile} label="Devices">${sum((h) => h.gpu)}<//></div>
    <div class="cards">${hosts.map((h) => html`<${Host} key=${h.name} h=${h} past=${use && use.hosts && use.hosts.find((u) => u.agent === h.name)} />`)}</div>
    ${links.length > 0 && html`<h2>Links between hosts</h2><div class="scroll" tabindex="0"><table><caption class="hidden">Links</caption>
      <thead><tr><th>From</th><th>To</th><th class="number">Bandwidth</th><th class="number">Latency</th><th class="number">Transfers</th><th class="number">Moved</th></tr></thead>
      <tbody>${links.map((l) => html`<tr><td><${Name} of=${l.from || "several"} /></td><td><${Name} of=${l.to} /></td><td class="number">${l.bandwidth ? rate(l.bandwidth) : "–"}</td><td class="number">${l.latency ? seconds(l.latency) : "–"}</td><td class="number">${number(l.flows || 0)}</td><td class="number">${bytes(l.bytes || 0)}</td></tr>`)}</tbody></table></div>
      <p class="quiet more">${count(links.length, "link")} shown${state.more > 0 ? "; there are more: " : "."} ${state.more > 0 && html`<${Command} words=${["profile", "show"]} />`}</p>`}`;
}
