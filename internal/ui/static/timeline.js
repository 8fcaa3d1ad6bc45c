// What ran where over time, on a canvas: single runs when they are few, else bins. Drag chooses a window.
import { html, useEffect, useRef, useState } from "./vendor/ui.js";
import { ask } from "./data.js";
import { link, seconds, number, count, shown } from "./words.js";
import { Empty, Loading, Trouble, Name, State, useAsked } from "./parts.js";

const left = 110, top = 8, axis = 24, rowHeight = 14, gap = 10, thin = 7;

const steps = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800];
// ticks are round times, at most as many as there is room for.
function ticks(from, to, room) {
  const step = steps.find((s) => (to - from) / s <= room) || 604800 * Math.ceil((to - from) / 604800 / room);
  const at = [];
  for (let k = Math.ceil(from / step - 1e-9); k * step <= to * (1 + 1e-9); k++) at.push(k * step);
  return at;
}

const heightOf = (t, h) => (t.runs ? Math.max(1, h.rows) * (h.rows > 8 ? thin : rowHeight) : 44);
const lanes = (t) => { let y = top; return t.hosts.map((h) => { const at = y, height = heightOf(t, h); y += height + gap; return { at, height, h }; }); };

function paint(canvas, t, drag) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, all = lanes(t);
  const bottom = all.length ? all[all.length - 1].at + all[all.length - 1].height + gap : top + 20, height = bottom + axis;
  canvas.style.height = height + "px";
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const c = canvas.getContext("2d"), css = getComputedStyle(canvas), colour = (name) => css.getPropertyValue(name).trim();
  c.scale(ratio, ratio);
  c.font = "12px " + css.fontFamily;
  const room = width - left - 8, x = (s) => left + ((s - t.from) / (t.to - t.from)) * room;
  c.textAlign = "center";
  for (const s of ticks(t.from, t.to, Math.max(2, Math.floor(room / 90)))) {
    c.fillStyle = colour("--line");
    c.fillRect(Math.round(x(s)), top, 1, bottom - top);
    c.fillStyle = colour("--quiet");
    c.fillText(seconds(s), Math.min(x(s), width - 24), bottom + 16);
  }
  for (const { at, height: high, h } of all) {
    c.fillStyle = colour("--lane");
    c.fillRect(left, at, room, high);
    c.fillStyle = colour("--text");
    c.textAlign = "right";
    let name = shown(h.name);
    while (name.length > 3 && c.measureText(name).width > left - 14) name = name.slice(0, -2) + "…";
    c.fillText(name, left - 8, at + Math.min(high / 2 + 4, 16));
  }
  c.save();
  c.beginPath();
  c.rect(left, 0, room, bottom);
  c.clip();
  const failed = colour("--failed");
  for (const r of t.runs || []) {
    const lane = all[r.h], one = lane.h.rows > 8 ? thin : rowHeight, x0 = x(r.s), wide = Math.max(1, x(r.s + r.d) - x0);
    c.fillStyle = r.x === "failed" ? failed : t.families[r.f].colour;
    c.globalAlpha = r.x === "running" ? 0.75 : 1;
    c.fillRect(x0, lane.at + r.r * one + 1, wide > 3 ? wide - 0.5 : wide, one - 2);
    if (r.x === "running") { c.globalAlpha = 1; c.fillStyle = colour("--text"); c.fillRect(x0 + wide - 2, lane.at + r.r * one + 1, 2, one - 2); }
    c.globalAlpha = 1;
  }
  for (const b of t.bins || []) {
    const lane = all[b.h], high = Math.max(1, (lane.height * b.n) / Math.max(1, lane.h.rows)), x0 = x(t.from + b.b * t.width);
    c.fillStyle = t.families[b.f].colour;
    c.fillRect(x0, lane.at + lane.height - high, Math.max(1, x(t.from + (b.b + 1) * t.width) - x0 + 0.3), high);
    if (b.x) { c.fillStyle = failed; c.fillRect(x0, lane.at, 2, 4); }
  }
  c.restore();
  if (drag) { c.fillStyle = colour("--choose"); c.fillRect(Math.min(drag.a, drag.b), top, Math.abs(drag.b - drag.a), bottom - top); }
}

function hit(t, px, py, width) {
  const s = t.from + ((px - left) / (width - left - 8)) * (t.to - t.from), lane = lanes(t).find((l) => py >= l.at && py < l.at + l.height);
  if (!lane || px < left) return null;
  const h = t.hosts.indexOf(lane.h);
  if (t.runs) {
    const one = lane.h.rows > 8 ? thin : rowHeight, row = Math.floor((py - lane.at) / one), slack = ((t.to - t.from) / (width - left)) * 2;
    return { run: t.runs.find((r) => r.h === h && r.r === row && r.s - slack <= s && s <= r.s + r.d + slack), s };
  }
  return { bin: (t.bins || []).find((b) => b.h === h && b.b === Math.floor((s - t.from) / t.width)), s };
}

export function Timeline({ id, made }) {
  const [w, setWindow] = useState([0, 0]);
  const { data: t, wrong } = useAsked(() => ask(`jobs/${id}/timeline?from=${w[0]}&to=${w[1]}`), [id, made, w[0], w[1]]);
  const canvas = useRef(null), drag = useRef(null);
  const [tip, setTip] = useState("");
  useEffect(() => {
    if (!t || t.absent || !canvas.current) return undefined;
    const draw = () => { if (canvas.current) paint(canvas.current, t, drag.current); };
    draw();
    const watch = new ResizeObserver(draw);
    watch.observe(canvas.current.parentElement);
    window.addEventListener("cascade-theme", draw);
    return () => { watch.disconnect(); window.removeEventListener("cascade-theme", draw); };
  }, [t]);
  if (!t) return wrong ? html`<${Trouble}>${wrong}<//>` : html`<${Loading} />`;
  if (t.absent) return html`<${Empty} title="No timeline"><p>${t.absent}</p><//>`;
  const at = (e) => { const box = canvas.current.getBoundingClientRect(); return [e.clientX - box.left, e.clientY - box.top]; };
  const time = (px) => t.from + ((Math.max(left, px) - left) / (canvas.current.clientWidth - left - 8)) * (t.to - t.from);
  const move = (e) => {
    const [px, py] = at(e);
    if (drag.current) { drag.current.b = Math.max(left, px); paint(canvas.current, t, drag.current); return; }
    const found = hit(t, px, py, canvas.current.clientWidth), r = found && found.run, b = found && found.bin;
    canvas.current.style.cursor = r ? "pointer" : "crosshair";
    setTip(r ? `${shown(r.t)}: ${r.x || "done"}, at ${seconds(r.s)} for ${seconds(r.d)}` : b ? `${b.n.toFixed(1)} tasks ran on average at ${seconds(t.from + b.b * t.width)}, most of ${shown(t.families[b.f].name)}` : "");
  };
  const up = (e) => {
    const d = drag.current;
    drag.current = null;
    if (!d) return;
    if (Math.abs(d.b - d.a) > 6) { const a = time(Math.min(d.a, d.b)), z = time(Math.max(d.a, d.b)); setWindow([a, Math.max(z, a + 1e-3)]); return; }
    paint(canvas.current, t, null);
    const found = hit(t, ...at(e), canvas.current.clientWidth);
    if (found && found.run) location.hash = link("jobs", id, "tasks", found.run.t);
  };
  const zoom = (by) => { const mid = (t.from + t.to) / 2, half = ((t.to - t.from) / 2) * by; setWindow(by > 1 && half * 2 >= t.end ? [0, 0] : [Math.max(0, mid - half), mid + half]); };
  const shift = (by) => { const d = (t.to - t.from) * by; setWindow([Math.max(0, t.from + d), Math.max(0, t.from + d) + (t.to - t.from)]); };
  const drawn = new Set([...(t.runs || []), ...(t.bins || [])].map((r) => r.f)), anyFailed = (t.runs || []).some((r) => r.x === "failed") || (t.bins || []).some((b) => b.x);
  return html`${wrong && html`<${Trouble}>${wrong}<//>`}
    <div class="bar-tools"><span class="quiet">${count(t.tasks, "run")} from ${seconds(t.from)} to ${seconds(t.to)}${t.runs ? "" : ", added up in steps of " + seconds(t.width)}. Drag to look closer.</span><span class="grow"></span>
      <button class="small" onClick=${() => shift(-0.5)} aria-label="Earlier">←</button><button class="small" onClick=${() => shift(0.5)} aria-label="Later">→</button><button class="small" onClick=${() => zoom(0.5)} aria-label="Closer">+</button><button class="small" onClick=${() => zoom(2)} aria-label="Further">−</button><button class="small" disabled=${w[1] === 0} onClick=${() => setWindow([0, 0])}>All</button></div>
    <figure class="timeline"><canvas ref=${canvas} aria-hidden="true" onPointerDown=${(e) => { const [px] = at(e); drag.current = { a: Math.max(left, px), b: Math.max(left, px) }; e.target.setPointerCapture(e.pointerId); }} onPointerMove=${move} onPointerUp=${up} onPointerLeave=${() => setTip("")}></canvas>
      <figcaption><span class="tip" aria-live="off">${tip || " "}</span>
      <ul class="legend">${anyFailed ? html`<li><i class="swatch failed"></i>failed</li>` : ""}${t.families.map((f, i) => drawn.has(i) && html`<li><i class="swatch" style=${{ background: f.colour }}></i><${Name} of=${f.name} /></li>`)}</ul></figcaption></figure>
    <details><summary>The same as a table</summary>${t.runs ? html`<div class="scroll"><table><caption>The first ${number(Math.min(200, t.runs.length))} of ${count(t.runs.length, "run")}</caption><thead><tr><th>Task</th><th>Host</th><th>State</th><th class="number">From</th><th class="number">For</th></tr></thead><tbody>${t.runs.slice(0, 200).map((r) => html`<tr><td><a class="row" href=${link("jobs", id, "tasks", r.t)}><${Name} of=${r.t} /></a></td><td><${Name} of=${t.hosts[r.h].name} /></td><td><${State} is=${r.x || "done"} /></td><td class="number">${seconds(r.s)}</td><td class="number">${seconds(r.d)}</td></tr>`)}</tbody></table></div>`
      : html`<div class="scroll" tabindex="0"><table><caption>Tasks that ran on average</caption><thead><tr><th>Host</th><th class="number">On average</th><th class="number">At most</th></tr></thead><tbody>${t.hosts.map((h, i) => { const of = t.bins.filter((b) => b.h === i); return html`<tr><td><${Name} of=${h.name} /></td><td class="number">${((of.reduce((n, b) => n + b.n, 0) * t.width) / (t.to - t.from)).toFixed(1)}</td><td class="number">${Math.max(0, ...of.map((b) => b.n)).toFixed(1)}</td></tr>`; })}</tbody></table></div>`}</details>`;
}
