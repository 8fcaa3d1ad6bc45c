// Small parts that all pages are made of.
import { html, useState, useRef, useEffect } from "./vendor/ui.js";
import { states, shown, time, utc, command, count, number } from "./words.js";
import { about, act } from "./data.js";

// Name shows text of others: it has no effect on what is around it.
export const Name = ({ children, of }) => html`<bdi class="name">${shown(of ?? children)}</bdi>`;

export function State({ is }) {
  const key = String(is || "").split(",")[0];
  const [sign, word] = states[key] || ["·", key];
  return html`<span class=${"state " + (states[key] ? key : "")}><i aria-hidden="true">${sign}</i>${word}${String(is).slice(key.length)}</span>`;
}

export const Time = ({ at }) => html`<time datetime=${at} title=${utc(at)}>${time(at)}</time>`;

// Bar shows how many of a number of tasks stand how.
const order = ["done", "failed", "skipped", "cancelled", "running", "ready"];
export function Bar({ of }) {
  const label = order.filter((k) => of[k]).map((k) => number(of[k]) + " " + k).join(", ") || "none has begun";
  return html`<div class="bar" role="img" aria-label=${label + ", of " + number(of.total)} title=${label}>
    ${order.map((k) => of[k] > 0 && html`<span class=${k} style=${{ flexGrow: of[k] }}></span>`)}
    <span class="rest" style=${{ flexGrow: Math.max(0, of.total - order.reduce((sum, k) => sum + (of[k] || 0), 0)) }}></span>
  </div>`;
}

// Command is a line for a shell, and a button that copies it.
export function Command({ words }) {
  const line = command(...words);
  const [said, say] = useState("Copy");
  const copy = async () => {
    try { await navigator.clipboard.writeText(line); say("Copied"); } catch { say("Select and copy it"); }
    setTimeout(() => say("Copy"), 2000);
  };
  return html`<span class="command"><code>${shown(line)}</code><button class="small" onClick=${copy} aria-label=${"Copy: " + line}>${said}</button></span>`;
}

export const Empty = ({ title, children }) => html`<div class="empty"><h2>${title}</h2>${children}</div>`;
export const Trouble = ({ children }) => html`<p class="trouble" role="alert"><i aria-hidden="true">▲</i> ${shown(children)}</p>`;
export const Loading = () => html`<p class="quiet" aria-busy="true">Asking the cluster…</p>`;

export function Tile({ label, children, title }) {
  return html`<div class="tile" title=${title}><span>${label}</span><b>${children}</b></div>`;
}

// roles: what each may do.
const rank = { observe: 0, submit: 1, admin: 2 };
export const may = (role) => about.value && (rank[about.value.role] ?? 2) >= rank[role];

// Action is a button that changes something: it asks first, says the command that does the same, and says
// what became of it.
export function Action({ label, title, text, path, words, needs = "submit", tasks, danger, keep = "Leave it" }) {
  const dialog = useRef(null);
  const [reason, setReason] = useState("");
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState("");
  const allowed = may(needs);
  const open = () => { setWrong(""); dialog.current.showModal(); dialog.current.querySelector(".buttons button").focus(); };
  const go = async () => {
    setBusy(true);
    setWrong("");
    try {
      await act(path, { reason, ...(tasks && { tasks }) });
      dialog.current.close();
    } catch (e) { setWrong(e.message); } finally { setBusy(false); }
  };
  return html`<button disabled=${!allowed} title=${allowed ? title : `This needs the role ${needs}; yours is ${about.value ? about.value.role : "not known"}. An admin can change that.`} onClick=${open}>${label}</button>
  <dialog ref=${dialog} aria-label=${title}>
    <h2>${title}</h2>
    <p>${text}</p>
    <label>Reason, for the audit log (optional)<input maxlength="500" value=${reason} onInput=${(e) => setReason(e.target.value)} /></label>
    <p class="quiet">The same in a shell:</p>
    <p><${Command} words=${words} /></p>
    ${wrong && html`<${Trouble}>${wrong}<//>`}
    <div class="buttons"><button onClick=${() => dialog.current.close()}>${keep}</button>
    <button class=${danger ? "danger" : "primary"} disabled=${busy} onClick=${go}>${title}</button></div>
  </dialog>`;
}

// More says how much of a list is shown.
export const More = ({ shown: n, of, what, next }) => html`<p class="quiet more">${of != null ? html`${number(n)} of ${count(of, what)} shown.` : html`${count(n, what)} shown${next ? "; there are more" : ""}.`}</p>`;

// useAsked asks once, and again when what it depends on changes.
export function useAsked(ask, on) {
  const [state, set] = useState({});
  useEffect(() => {
    let over = false;
    if (!state.data) set({});
    ask().then((data) => over || set({ data }), (e) => over || set((old) => ({ data: old.data, wrong: e.message })));
    return () => { over = true; };
  }, on);
  return state;
}
