// The graph of families, laid out by the other side; how its tasks stand changes in place.
import { html } from "./vendor/ui.js";
import { link, number, shown, count, seconds } from "./words.js";
import { Empty, Loading, Trouble } from "./parts.js";

const order = ["done", "failed", "skipped", "cancelled", "running", "ready"];

function Node({ n, of, id, on }) {
  let at = n.x + 8;
  const wide = n.width - 16;
  const counts = of ? order.filter((k) => of[k]).map((k) => number(of[k]) + " " + k).join(", ") : "";
  return html`<a href=${link("jobs", id, "tasks") + "?filter=" + encodeURIComponent(n.name)} class=${"node" + (on ? " on" : "") + (of && of.failed ? " failed" : of && of.running ? " running" : of && of.done === of.total ? " done" : "")}>
    <title>${shown(n.name)}, ${shown(n.runs)}: ${counts || "none has begun"}${of ? " of " + number(of.total) : ""}</title>
    <rect x=${n.x} y=${n.y} width=${n.width} height=${n.height + 8} rx="7" class="box" />
    <rect x=${n.x} y=${n.y + 6} width="4" height=${n.height - 4} rx="2" fill=${n.colour} />
    <text x=${n.x + n.width / 2} y=${n.y + 17} class="label">${shown(n.name)}${of && of.total > 1 ? " × " + number(of.total) : ""}</text>
    <text x=${n.x + n.width / 2} y=${n.y + 31} class="sub">${shown(n.runs)}</text>
    <rect x=${n.x + 8} y=${n.y + n.height - 2} width=${wide} height="5" rx="2.5" class="rest" />
    ${of && of.total > 0 && order.map((k) => { const w = (wide * of[k]) / of.total, x = at; at += w; return w > 0 && html`<rect x=${x} y=${n.y + n.height - 2} width=${w} height="5" class=${k} />`; })}
  </a>`;
}

export function Graph({ s, p, id }) {
  if (!p) return html`<${Loading} />`;
  if (p.error) return html`<${Trouble}>${p.error}<//>`;
  const g = p.graph;
  if (p.session) return html`<${Empty} title="A session has no graph"><p>A program makes its tasks as it goes: <a href=${link("jobs", id, "calls")}>its calls</a>.</p><//>`;
  if (!g) return html`<${Empty} title="The graph is too large to be drawn"><p>It has more than 2,000 families.</p><//>`;
  const counts = new Map(s.families.map((f) => [f.name, f]));
  const family = (t) => t.split("[")[0];
  const next = new Set(p.next.map((n) => family(n.task)));
  const at = (e) => { const a = g.nodes[e.from], b = g.nodes[e.to]; return [a.x + a.width / 2, a.y + a.height + 8, b.x + b.width / 2, b.y]; };
  return html`<p class="quiet">${count(g.nodes.length, "family").replace("familys", "families")}, producers above those that read them. ${next.size > 0 ? "Outlined: what is next on the way to the end." : ""} A family opens its tasks.</p>
    <div class="scroll graph"><svg viewBox=${`0 0 ${g.width} ${g.height + 20}`} width=${g.width} height=${g.height + 20} role="group" aria-label="Graph of families">
      ${g.edges.map((e) => { const [x1, y1, x2, y2] = at(e); return html`<path class=${"edge" + (next.has(g.nodes[e.from].name) && next.has(g.nodes[e.to].name) ? " on" : "")} d=${`M${x1} ${y1}C${x1} ${y1 + 28} ${x2} ${y2 - 28} ${x2} ${y2}`}><title>${shown(e.label || "")}</title></path>`; })}
      ${g.nodes.map((n) => html`<${Node} key=${n.name} n=${n} of=${counts.get(n.name)} id=${id} on=${next.has(n.name)} />`)}
    </svg></div>
    <details><summary>The same as a table</summary><div class="scroll" tabindex="0"><table><thead><tr><th>Family</th><th>Runs</th><th>Feeds</th><th class="number">Tasks</th></tr></thead><tbody>${g.nodes.map((n, i) => html`<tr><td>${shown(n.name)}</td><td>${shown(n.runs)}</td><td>${g.edges.filter((e) => e.from === i).map((e) => shown(g.nodes[e.to].name)).join(", ")}</td><td class="number">${number((counts.get(n.name) || { total: 0 }).total)}</td></tr>`)}</tbody></table></div></details>`;
}
