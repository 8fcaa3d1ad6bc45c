// What a task wrote: its end, followed while it runs.
import { html, useEffect, useRef, useState } from "./vendor/ui.js";
import { ask, useTopic } from "./data.js";
import { bytes, parts, count } from "./words.js";
import { Command, Trouble, Loading } from "./parts.js";

const mostLines = 5000, longest = 2000; // lines kept; characters of a line shown

const Line = ({ text }) => {
  const cut = text.length > longest;
  return html`<div>${parts(cut ? text.slice(0, longest) : text).map((p) => (p.name ? html`<span class=${p.name}>${p.text}</span>` : p.text))}${cut ? html`<i class="quiet"> … ${count(text.length - longest, "character")} more in this line</i>` : ""}</div>`;
};

export function Log({ id, task }) {
  const [log, set] = useState(null);
  const [wrong, setWrong] = useState("");
  const [follow, setFollow] = useState(true);
  const box = useRef(null);
  const state = useTopic("job:" + id);
  useEffect(() => {
    let over = false, at = null, timer = 0;
    const read = async () => {
      let more = false;
      try {
        const piece = await ask(`jobs/${id}/log?task=${encodeURIComponent(task)}` + (at === null ? "" : "&from=" + at));
        if (over) return;
        at = piece.next;
        more = piece.next < piece.total;
        setWrong("");
        set((old) => {
          const text = (old && old.from !== undefined ? old.text : "") + piece.text;
          const lines = text.split("\n");
          const gone = Math.max(0, lines.length - mostLines);
          return { from: old ? old.from : piece.from, total: piece.total, text: gone ? lines.slice(gone).join("\n") : text, cut: (old && old.cut) || gone > 0 };
        });
      } catch (e) { if (!over) setWrong(e.message); }
      if (!over) timer = setTimeout(read, more ? 50 : 2000);
    };
    read();
    return () => { over = true; clearTimeout(timer); };
  }, [id, task]);
  useEffect(() => { if (follow && box.current) box.current.scrollTop = box.current.scrollHeight; }, [log, follow]);
  const scrolled = (e) => setFollow(e.target.scrollHeight - e.target.scrollTop - e.target.clientHeight < 24);
  if (!log) return wrong ? html`<${Trouble}>${wrong}<//>` : html`<${Loading} />`;
  const lines = log.text.replace(/\n$/, "").split("\n");
  return html`${wrong && html`<${Trouble}>${wrong}<//>`}
    <p class="quiet">${log.total === 0 ? "It has written nothing." : html`${log.from > 0 || log.cut ? `The last ${count(lines.length, "line")} of ${bytes(log.total)}` : `${count(lines.length, "line")}, ${bytes(log.total)}`}. ${state && state.final ? "" : follow ? "New lines are shown as they come." : "Scroll to the end to follow."}`} <${Command} words=${["logs", id, task]} /></p>
    ${log.total > 0 && html`<pre class="log tall" ref=${box} onScroll=${scrolled} tabindex="0" role="region" aria-label=${"Log of " + task}>${lines.map((text, i) => html`<${Line} key=${i} text=${text} />`)}</pre>`}`;
}
