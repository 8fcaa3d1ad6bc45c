// Words, numbers and times for people, and text of others made harmless.
import { about } from "./data.js";

// states: the sign, the word and the class of what a job or task is.
export const states = {
  queued: ["◌", "queued"], held: ["‖", "on hold"], waiting: ["◌", "waiting"], ready: ["○", "ready"], running: ["▶", "running"],
  done: ["✓", "done"], failed: ["✗", "failed"], skipped: ["↷", "skipped"], cancelled: ["⊘", "cancelled"], late: ["▲", "late"],
  away: ["◌", "away"], connecting: ["◌", "connecting"], leaving: ["↷", "leaving"], gone: ["⊘", "gone"], lost: ["✗", "lost"],
};

const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
// seconds says a duration: 3 min 12 s, 1.24 s, 250 ms.
export function seconds(s) {
  if (s == null || !isFinite(s)) return "–";
  const sign = s < 0 ? "−" : "";
  s = Math.abs(s);
  if (s === 0) return "0 s";
  if (s < 1e-3) return sign + Math.max(1, Math.round(s * 1e6)) + " µs";
  if (s < 1) return sign + Number((s * 1e3).toPrecision(3)) + " ms";
  if (s < 59.5) return sign + s.toFixed(s < 9.95 ? 1 : 0).replace(/\.0$/, "") + " s";
  s = Math.round(s);
  const k = units.findIndex(([, n]) => s >= n);
  const [unit, n] = units[k];
  const rest = Math.floor((s % n) / (units[k + 1] || [0, 1])[1]);
  return sign + Math.floor(s / n) + " " + unit + (units[k + 1] && rest ? " " + rest + " " + units[k + 1][0] : "");
}

export function bytes(n) {
  if (!n) return "0 B";
  const k = Math.min(5, Math.floor(Math.log2(n) / 10));
  return Number((n / 1024 ** k).toPrecision(3)) + " " + ["B", "KiB", "MiB", "GiB", "TiB", "PiB"][k];
}

export const number = (n) => Number(n).toLocaleString("en-GB");
export const count = (n, what) => number(n) + " " + what + (n === 1 ? "" : "s");

const date = (d) => d.getFullYear() + "-" + String(d.getMonth() + 1).padStart(2, "0") + "-" + String(d.getDate()).padStart(2, "0");
// time is a moment in local time, with the day when it is another than today.
export function time(text) {
  if (!text) return "–";
  const d = new Date(text);
  if (isNaN(d)) return text;
  const of = d.toLocaleTimeString("en-GB");
  return date(d) === date(new Date()) ? of : date(d) + " " + of;
}
export const utc = (text) => (text && !isNaN(new Date(text)) ? new Date(text).toISOString().slice(0, 19).replace("T", " ") + " UTC" : "");

// Characters that have an effect on what is around them, or none that one sees.
const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
export const shown = (text) => String(text ?? "").replace(hidden, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));

// parts of a log: text, and the colours that its escapes say. All other escapes go.
const escape = /\u001b(?:\[([0-9;]*)m|\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;
export function parts(line) {
  const out = [];
  let colour = "", bold = false, at = 0;
  const add = (text) => { if (text) out.push({ text: shown(text), name: (colour && "ansi-" + colour) + (bold ? " bold" : "") }); };
  for (const m of line.matchAll(escape)) {
    add(line.slice(at, m.index));
    at = m.index + m[0].length;
    if (m[1] === undefined) continue;
    for (const n of (m[1] || "0").split(";").map(Number)) {
      if (n === 0) { colour = ""; bold = false; }
      else if (n === 1) bold = true;
      else if (n === 22) bold = false;
      else if (n >= 30 && n <= 37) colour = String(n - 30);
      else if (n >= 90 && n <= 97) colour = String(n - 90);
      else if (n === 39) colour = "";
    }
  }
  add(line.slice(at));
  return out;
}

// command is what does the same in a shell.
const quoted = (w) => (/^[A-Za-z0-9_@%+=:,./-]+$/.test(w) ? w : "'" + w.replaceAll("'", "'\\''") + "'");
export const command = (...words) => ["cascade", ...words.map(quoted), ...((about.value && about.value.flags) || []).map(quoted)].join(" ");

export const link = (...path) => "#/" + path.map(encodeURIComponent).join("/");
