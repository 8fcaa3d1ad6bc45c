// What the page knows of the cluster: the token, questions, and one stream of the topics that are looked at.
import { signal, useEffect, batch } from "./vendor/ui.js";

const kept = "cascade-token";
const channel = "BroadcastChannel" in window ? new BroadcastChannel("cascade") : null;

let token = "";
// What of the address is the token is taken away at once: it stays out of history and bookmarks.
function takeToken() {
  const at = location.hash.match(/^#t=([^&]*)(?:&at=(.*))?$/);
  if (at) {
    sessionStorage.setItem(kept, at[1]);
    history.replaceState(null, "", "#" + (at[2] || "/"));
  }
  token = sessionStorage.getItem(kept) || "";
}
takeToken();
window.addEventListener("hashchange", () => { if (location.hash.startsWith("#t=")) { takeToken(); location.reload(); } });

// Another tab of this page gives its token to one that has none.
if (channel) channel.onmessage = (e) => {
  if (e.data === "ask" && token) channel.postMessage({ token });
  else if (e.data && e.data.token && !token) {
    token = e.data.token;
    sessionStorage.setItem(kept, token);
    refused.value = "";
    begin();
  }
};

export const refused = signal(""); // why the page may not ask
export const about = signal(null); // the cluster, the user and the role
export const lost = signal(null); // { since, why } while there is no connection
export const now = signal(Date.now());
setInterval(() => { if (!document.hidden) now.value = Date.now(); }, 1000);

export class Refusal extends Error {}

async function request(path, options = {}) {
  const bears = token;
  const answer = await fetch("api/v1/" + path, { ...options, headers: { ...options.headers, Authorization: "Bearer " + bears } });
  if (answer.ok) return answer;
  let why = answer.status + " " + answer.statusText;
  try { why = (await answer.json()).error || why; } catch { /* it is no JSON: a proxy's answer */ }
  if (answer.status === 401 && bears === token) refused.value = why; // another tab may have given one meanwhile
  throw new Refusal(why);
}

export const ask = async (path) => (await request(path)).json();
export const act = async (path, body) => (await request(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) })).json();

// topics: by name the newest state, and how many parts of the page look at it.
const topics = new Map();
const topic = (name) => {
  let t = topics.get(name);
  if (!t) topics.set(name, (t = { viewers: 0, state: signal(null) }));
  return t;
};

// useTopic is the newest state of a topic while a part of the page is shown; null before the first.
export function useTopic(name) {
  const t = name ? topic(name) : null;
  useEffect(() => {
    if (!t) return undefined;
    t.viewers++;
    restart();
    return () => { t.viewers--; restart(); };
  }, [name]);
  return t ? t.state.value : null;
}

let stopStream = null;
let asked = ""; // topics of the stream that runs
let pending = 0;
function restart() {
  clearTimeout(pending);
  pending = setTimeout(() => {
    const names = wanted();
    if (names === asked && stopStream) return;
    stop();
    if (names && about.value && !document.hidden) run(names);
  }, 30);
}
const wanted = () => [...topics].filter(([, t]) => t.viewers > 0).map(([name]) => name).sort().join(",");
function stop() {
  if (stopStream) stopStream.abort();
  stopStream = null;
  asked = "";
}

async function run(names) {
  const abort = new AbortController();
  stopStream = abort;
  asked = names;
  let pause = 500;
  while (!abort.signal.aborted) {
    try {
      await follow(names, abort, () => { pause = 500; });
      throw new Error("the connection ended");
    } catch (e) {
      if (abort.signal.aborted || refused.value) return;
      if (!lost.value) lost.value = { since: Date.now(), why: e instanceof Refusal ? e.message : "the page's program does not answer" };
    }
    await new Promise((next) => setTimeout(next, pause));
    pause = Math.min(pause * 2, 5000);
  }
}

const silence = 25000; // ms; the other side sends a sign of life each 10 s

async function follow(names, abort, heard) {
  const answer = await request("stream?topics=" + encodeURIComponent(names), { signal: abort.signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      let timer;
      const quiet = new Promise((_, no) => { timer = setTimeout(() => no(new Error("nothing heard for 25 s")), silence); });
      const { value, done } = await Promise.race([reader.read(), quiet]).finally(() => clearTimeout(timer));
      if (done) return;
      heard();
      if (lost.value) { lost.value = null; begin(); }
      text += value;
      const events = text.split("\n\n");
      text = events.pop();
      batch(() => events.forEach(take));
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function take(event) {
  const at = event.match(/^event: (.*)\ndata: (.*)$/s);
  if (!at) return;
  const t = topics.get(at[1]);
  if (t) t.state.value = { ...JSON.parse(at[2]), heard: Date.now() };
}

let hiding = 0;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  if (document.hidden) hiding = setTimeout(stop, 5000);
  else { now.value = Date.now(); restart(); }
});

export async function begin() {
  try {
    about.value = await ask("about");
    restart();
  } catch (e) {
    if (!(e instanceof Refusal) && !lost.value) lost.value = { since: Date.now(), why: "the page's program does not answer" };
    if (e instanceof Refusal && channel && !token) channel.postMessage("ask");
    if (!refused.value) setTimeout(begin, 2000);
  }
}
