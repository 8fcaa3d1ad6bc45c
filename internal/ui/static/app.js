// The frame of the page: address, head, keys, and the page that is shown.
import { html, render, signal, useEffect, useRef } from "./vendor/ui.js";
import { about, refused, lost, now, begin } from "./data.js";
import { seconds, shown, time } from "./words.js";
import { Empty } from "./parts.js";
import { Jobs } from "./jobs.js";
import { Job } from "./job.js";
import { Sessions, Session } from "./sessions.js";
import { Hosts } from "./hosts.js";

// The address behind #: path and what is chosen there. So a link shows the same to others.
export const route = signal(read());
function read() {
  const [path, query] = location.hash.replace(/^#/, "").split("?");
  const decode = (text) => { try { return decodeURIComponent(text); } catch { return text; } };
  return { path: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(query || "") };
}
window.addEventListener("hashchange", () => {
  route.value = read();
  document.getElementById("main")?.focus({ preventScroll: true });
  window.scrollTo(0, 0);
});

const theme = signal(localStorage.getItem("cascade-theme") || "auto");
function useTheme() {
  useEffect(() => {
    document.documentElement.dataset.theme = theme.value;
    localStorage.setItem("cascade-theme", theme.value);
    window.dispatchEvent(new Event("cascade-theme"));
  }, [theme.value]);
}

const keys = [["g j", "jobs"], ["g s", "sessions"], ["g h", "hosts"], ["1 to 7", "parts of a job or session"], ["j, k", "next, previous row"], ["Enter", "open the row"], ["/", "search"], ["Esc", "back"], ["?", "this list"]];

function Keys({ dialog }) {
  return html`<dialog ref=${dialog} aria-label="Keys"><h2>Keys</h2>
    <dl class="keys">${keys.map(([k, what]) => html`<div><dt><kbd>${k}</kbd></dt><dd>${what}</dd></div>`)}</dl>
    <div class="buttons"><button onClick=${() => dialog.current.close()}>Close</button></div></dialog>`;
}

function useKeys(dialog) {
  useEffect(() => {
    let before = "";
    const rows = () => [...document.querySelectorAll("main tbody a.row")];
    const press = (e) => {
      if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return;
      if (e.target.closest("input, select, textarea")) { if (e.key === "Escape") e.target.blur(); return; }
      const two = before + e.key;
      before = e.key === "g" ? "g" : "";
      const all = rows(), at = all.indexOf(document.activeElement);
      if (two === "gj") location.hash = "#/";
      else if (two === "gs") location.hash = "#/sessions";
      else if (two === "gh") location.hash = "#/hosts";
      else if (/^[1-7]$/.test(e.key)) document.querySelectorAll("nav.tabs a")[e.key - 1]?.click();
      else if (e.key === "j") all[Math.min(all.length - 1, at + 1)]?.focus();
      else if (e.key === "k") all[Math.max(0, at - 1)]?.focus();
      else if (e.key === "/") document.querySelector("main input[type=search]")?.focus();
      else if (e.key === "Escape") history.back();
      else if (e.key === "?") dialog.current.showModal();
      else return;
      e.preventDefault();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
}

function Lost() {
  const l = lost.value;
  if (!l) return null;
  return html`<div class="lost" role="status">Not connected since ${time(new Date(l.since).toISOString())} (${seconds((now.value - l.since) / 1000)}): ${shown(l.why)}. Figures are as they were then. Trying again…</div>`;
}

function Page() {
  const { path, query } = route.value;
  if (path.length === 0 || path[0] === "jobs" && path.length === 1) return html`<${Jobs} query=${query} />`;
  if (path[0] === "jobs") return html`<${Job} key=${path[1]} id=${path[1]} part=${path.slice(2)} query=${query} />`;
  if (path[0] === "sessions") return path.length === 1 ? html`<${Sessions} />` : html`<${Session} key=${path[1]} id=${path[1]} part=${path.slice(2)} />`;
  if (path[0] === "hosts") return html`<${Hosts} host=${path[1]} />`;
  return html`<${Empty} title="There is no such page"><p><a href="#/">All jobs</a></p><//>`;
}

function App() {
  const dialog = useRef(null);
  useTheme();
  useKeys(dialog);
  const me = about.value, at = route.value.path[0] || "jobs";
  return html`
    <a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); document.getElementById("main").focus(); }}>To the content</a>
    <header class="head">
      <a class="brand" href="#/"><img src="icon.svg" alt="" width="22" height="22" />Cascade</a>
      <nav aria-label="Pages"><a href="#/" aria-current=${at === "jobs" ? "page" : undefined}>Jobs</a><a href="#/sessions" aria-current=${at === "sessions" ? "page" : undefined}>Sessions</a><a href="#/hosts" aria-current=${at === "hosts" ? "page" : undefined}>Hosts</a></nav>
      <span class="grow"></span>
      ${me && html`<span class="me" title=${"role " + me.role + ", Cascade " + me.version}><bdi>${shown(me.user)}</bdi> · <bdi>${shown(me.cluster)}</bdi> · ${me.role}</span>`}
      <label class="theme"><span class="hidden">Theme</span><select value=${theme.value} onChange=${(e) => { theme.value = e.target.value; }}>
        <option value="auto">Auto</option><option value="light">Light</option><option value="dark">Dark</option></select></label>
      <button class="small" aria-label="Keys" title="Keys (?)" onClick=${() => dialog.current.showModal()}>?</button>
    </header>
    <${Lost} />
    <main id="main" tabindex="-1">${refused.value
      ? html`<${Empty} title="The page is locked"><p>${shown(refused.value)}.</p><p><code>cascade ui</code> prints the address with its token.</p><//>`
      : html`<${Page} />`}</main>
    <${Keys} dialog=${dialog} />`;
}

render(html`<${App} />`, document.getElementById("app"));
begin();
