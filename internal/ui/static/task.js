// One task: where it runs or why not, what it reads and makes, what happened to it.
import { html } from "./vendor/ui.js";
import { ask } from "./data.js";
import { link, number, seconds, bytes, count } from "./words.js";
import { Name, State, Time, Command, Trouble, Loading, Tile, Action, useAsked } from "./parts.js";
import { Log } from "./log.js";

function Near({ id, of, title, none }) {
  const rows = of.rows;
  return html`<section><h3>${title}</h3>${rows.length === 0 ? html`<p class="quiet">${none}</p>` : html`<ul class="near">${rows.map((n) => html`<li><${State} is=${n.state} /> <a href=${link("jobs", id, "tasks", n.task)}><${Name} of=${n.task} /></a>${n.host ? html` <span class="quiet">on <${Name} of=${n.host} /></span>` : ""}</li>`)}</ul>`}${of.next ? html`<p class="quiet">${number(rows.length)} shown; there are more.</p>` : ""}</section>`;
}

export function Task({ id, name, made }) {
  const { data: t, wrong } = useAsked(() => ask(`jobs/${id}/task?name=${encodeURIComponent(name)}`), [id, name, made]);
  if (!t) return wrong ? html`<${Trouble}>${wrong}<//>` : html`<${Loading} />`;
  const r = t.row, ended = ["done", "failed", "skipped", "cancelled"].includes(r.state);
  const waits = t.inputs.rows.filter((n) => n.state !== "done");
  return html`${wrong && html`<${Trouble}>${wrong}<//>`}
    <div class="title"><h2><i class="swatch" style=${{ background: t.colour }} aria-hidden="true"></i><${Name} of=${r.name} /></h2><${State} is=${r.state} /><span class="grow"></span>
      <${Action} label="Rerun…" title="Run the task again" text="The task and everything that depends on it run again." path=${"jobs/" + id + "/rerun"} tasks=${[r.name]} words=${["rerun", id, r.name]} /></div>
    <p class="because">${r.started ? html`It ${r.state === "running" ? "runs" : "ran"} on <b><${Name} of=${r.agent} /></b>, attempt ${r.attempt}, from <${Time} at=${r.started} /> for <b>${seconds(r.seconds)}</b>${t.usual > 0 ? html`; its family usually takes ${seconds(t.usual)}` : ""}.`
      : ended ? "It did not run."
      : waits.length > 0 ? html`It waits for ${waits.slice(0, 3).map((n, i) => html`${i > 0 && ", "}<a href=${link("jobs", id, "tasks", n.task)}><${Name} of=${n.task} /></a> (${n.state})`)}${waits.length > 3 ? ` and ${waits.length - 3} more` : ""}.`
      : "Its inputs are there: it waits for a place on a host."}</p>
    ${t.plan && !ended && html`<p class="quiet">Planned on <${Name} of=${t.plan.host || "no host"} /> from ${seconds(t.plan.start_seconds)} to ${seconds(t.plan.finish_seconds)} after the start. <${Name} of=${t.plan.reason} /></p>`}
    ${r.error && html`<pre class="log bad-edge" tabindex="0" role="region" aria-label="Error"><${Name} of=${r.error} /></pre>`}
    <div class="tiles"><${Tile} label="Took">${r.started ? seconds(r.seconds) : "–"}<//><${Tile} label="Processor">${r.cpu_seconds ? seconds(r.cpu_seconds) : "–"}<//><${Tile} label="Memory, most">${r.peak_memory ? bytes(r.peak_memory) : "–"}<//><${Tile} label="Read">${bytes(r.bytes_in)}<//><${Tile} label="Published">${bytes(r.bytes_out)}<//><${Tile} label="Attempts">${r.attempt}<//>
      ${r.device && html`<${Tile} label="Device memory">${bytes(r.device.memory || 0)}<//>`}</div>
    <ul class="do"><li>Why it ran there and then: <${Command} words=${["explain", id, r.name]} /></li>${ended && r.started ? html`<li>Run it again alone, with its own inputs: <${Command} words=${["replay", id, "--task", r.name]} /></li>` : ""}${t.outputs.length > 0 ? html`<li>Fetch what it made: <${Command} words=${["get", id, t.outputs[0].name]} /></li>` : ""}</ul>
    <div class="columns"><${Near} id=${id} of=${t.inputs} title="Reads the outputs of" none="It reads the output of no task." /><${Near} id=${id} of=${t.readers} title="Is read by" none="No task reads its outputs." /></div>
    ${t.outputs.length > 0 && html`<div class="scroll" tabindex="0"><table><caption>Outputs</caption><thead><tr><th>Dataset</th><th>Type</th><th class="number">Size</th><th>Place</th><th>Host</th></tr></thead><tbody>${t.outputs.map((d) => html`<tr><td><${Name} of=${d.name} /></td><td><${Name} of=${d.codec + (d.dtype ? " " + d.dtype : "") + (d.shape ? " " + d.shape.join(" × ") : "")} /></td><td class="number">${bytes(d.size)}</td><td>${d.place}</td><td><${Name} of=${d.agent || ""} /></td></tr>`)}</tbody></table></div>`}
    ${t.story.length > 0 && html`<div class="scroll" tabindex="0"><table><caption>What happened</caption><thead><tr><th>When</th><th class="number">Attempt</th><th>What</th><th>Cause</th><th>Host</th><th>Detail</th></tr></thead><tbody>${t.story.map((s, i) => html`<tr key=${i}><td class="nowrap"><${Time} at=${s.at} /></td><td class="number">${s.attempt || ""}</td><td>${s.what}</td><td><${Name} of=${s.cause} /></td><td><${Name} of=${s.agent || ""} /></td><td class="why"><${Name} of=${(s.detail || "").slice(0, 300)} /></td></tr>`)}</tbody></table></div>${t.older ? html`<p class="quiet">The last ${count(t.story.length, "entry").replace("entrys", "entries")} shown; the story begins earlier.</p>` : ""}`}
    ${r.started && html`<h3>Log</h3><${Log} key=${r.name} id=${id} task=${r.name} />`}`;
}
