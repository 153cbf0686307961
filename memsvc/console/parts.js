// Parts that several views use: data that is loaded, tables, charts, dialogs, errors, differences.

import { html, useEffect, useRef, useState } from "./vendor/preact.js";
import { short } from "./words.js";

/** The size of a page of a list. */
const PAGE = 50;

/** Loads by `load(signal)`, again when one of `dependencies` changes. Returns [value, error, reload, isLoading]. */
export function useLoaded(load, dependencies) {
  const [state, setState] = useState({ value: null, error: null, isLoading: true });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const control = new AbortController();
    setState((old) => ({ ...old, isLoading: true }));
    load(control.signal).then(
      (value) => setState({ value, error: null, isLoading: false }),
      (error) => {
        if (!control.signal.aborted) setState({ value: null, error, isLoading: false });
      },
    );
    return () => control.abort();
  }, [...dependencies, turn]);
  return [state.value, state.error, () => setTurn((old) => old + 1), state.isLoading];
}

/** A list of the API page by page: [items, error, reload, more], `more` null at the end. */
export function usePages(api, service, method, name, request) {
  const [size, setSize] = useState(PAGE);
  const load = (signal) => pages(api, service, method, name, request, size, signal);
  const [found, error, reload] = useLoaded(load, [api, size, JSON.stringify(request)]);
  return [found?.items, error, reload, found?.isMore ? () => setSize(size + PAGE) : null];
}

async function pages(api, service, method, name, request, size, signal) {
  const items = [];
  let pageToken = "";
  do {
    const answer = await api.call(service, method, { ...request, pageSize: PAGE, pageToken }, signal);
    items.push(...(answer[name] || []));
    pageToken = answer.nextPageToken || "";
  } while (pageToken && items.length < size);
  return { items, isMore: Boolean(pageToken) };
}

export function More({ t, more }) {
  return more ? html`<button type="button" class="quiet" onClick=${more}>${t("more")}</button>` : null;
}

/** Runs an action: [run, error, isBusy]. */
export function useAction(action) {
  const [state, setState] = useState({ error: null, isBusy: false });
  async function run(...given) {
    setState({ error: null, isBusy: true });
    try {
      const result = await action(...given);
      setState({ error: null, isBusy: false });
      return result;
    } catch (error) {
      setState({ error, isBusy: false });
      return undefined;
    }
  }
  return [run, state.error, state.isBusy];
}

/** The words for errors of some codes. */
const TITLES = { unauthenticated: "key_needed", unreachable: "unreachable" };

export function ErrorBox({ error, t }) {
  if (!error) return null;
  const title = TITLES[error.code] ? t(TITLES[error.code]) : error.reason || error.code || "error";
  return html`<div class="error" role="alert">
    <strong>${title}</strong> ${error.message}
    ${error.violations?.length > 1
      ? html`<ul>
          ${error.violations.map((one) => html`<li><code>${one.field}</code> ${one.description}</li>`)}
        </ul>`
      : null}
  </div>`;
}

export function Loading({ t }) {
  return html`<p class="muted" role="status">${t("loading")}</p>`;
}

export function Table({ columns, rows, empty, caption }) {
  if (!rows.length) return html`<p class="muted">${empty}</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${caption}>
    <table>
      <thead>
        <tr>
          ${columns.map((one) => html`<th scope="col">${one}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map((row) => html`<tr>${row.map((cell) => html`<td>${cell}</td>`)}</tr>`)}
      </tbody>
    </table>
  </div>`;
}

/** Horizontal bars with their values. `items` are [label, number]. */
export function Bars({ items, label, format = String }) {
  const most = Math.max(1e-9, ...items.map(([, value]) => value));
  return html`<dl class="bars" aria-label=${label}>
    ${items.map(
      ([name, value]) => html`<div>
        <dt>${name}</dt>
        <dd>
          <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
            <rect class="bar" width=${Math.max(0, (100 * value) / most)} height="8" rx="1" />
          </svg>
          <span>${format(value)}</span>
        </dd>
      </div>`,
    )}
  </dl>`;
}

/** A chart of columns over days. `items` are [label, number]. */
export function Columns({ items, label }) {
  const most = Math.max(1, ...items.map(([, value]) => value));
  const width = 100 / Math.max(1, items.length);
  const total = items.reduce((sum, [, value]) => sum + value, 0);
  return html`<figure class="columns">
    <svg viewBox="0 0 100 40" preserveAspectRatio="none" role="img" aria-label=${`${label}: ${total}`}>
      ${items.map(
        ([name, value], place) => html`<rect
          class="bar"
          x=${place * width + width * 0.1}
          y=${40 - (38 * value) / most}
          width=${width * 0.8}
          height=${(38 * value) / most}
        >
          <title>${name}: ${value}</title>
        </rect>`,
      )}
    </svg>
    <figcaption><span>${items[0]?.[0]}</span><span>${most}</span><span>${items.at(-1)?.[0]}</span></figcaption>
  </figure>`;
}

export function Dialog({ title, children, onClose, t }) {
  const box = useRef(null);
  useEffect(() => {
    box.current.showModal();
  }, []);
  return html`<dialog ref=${box} aria-labelledby="dialog-title" onClose=${onClose}>
    <header>
      <h2 id="dialog-title">${title}</h2>
      <button type="button" class="quiet" onClick=${() => box.current.close()}>${t("close")}</button>
    </header>
    ${children}
  </dialog>`;
}

export function Field({ label, children }) {
  return html`<label class="field"><span>${label}</span>${children}</label>`;
}

export function Choice({ label, value, onChange, options }) {
  return html`<${Field} label=${label}>
    <select value=${value} onChange=${(event) => onChange(event.target.value)}>
      ${options.map(([one, text]) => html`<option value=${one} selected=${one === value}>${text}</option>`)}
    </select>
  <//>`;
}

export function Badge({ value, prefix }) {
  const text = short(value, prefix);
  return text ? html`<span class=${`badge ${text.replaceAll(" ", "-")}`}>${text}</span>` : null;
}

export function when(text) {
  if (!text) return "";
  return html`<time datetime=${text}>${new Date(text).toLocaleString()}</time>`;
}

export function seconds(duration) {
  return Number.parseFloat(duration || "0");
}

export function milliseconds(duration) {
  const value = seconds(duration) * 1000;
  return `${value < 10 ? value.toFixed(2) : value.toFixed(0)} ms`;
}

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let rest = Number(value || 0);
  let unit = 0;
  while (rest >= 1024 && unit < units.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  return `${rest < 10 && unit ? rest.toFixed(1) : rest.toFixed(0)} ${units[unit]}`;
}

/** The words of `before` and `after` that differ, marked as deleted and inserted. */
export function Difference({ before = "", after = "" }) {
  return html`<p class="difference">
    ${differences(before, after).map(([kind, text]) =>
      kind === "=" ? text : kind === "-" ? html`<del>${text}</del>` : html`<ins>${text}</ins>`,
    )}
  </p>`;
}

/** The most words that are compared one by one. */
const MOST_WORDS = 2000;

export function differences(before, after) {
  const split = (text) => text.match(/\p{Script=Han}|[^\s\p{Script=Han}]+|\s+/gu) || [];
  const [old, now] = [split(before), split(after)];
  const shorter = Math.min(old.length, now.length);
  let start = 0;
  while (start < shorter && old[start] === now[start]) start += 1;
  let end = 0;
  while (end < shorter - start && old.at(-1 - end) === now.at(-1 - end)) end += 1;
  const [a, b] = [old.slice(start, old.length - end), now.slice(start, now.length - end)];
  const isLong = Math.max(a.length, b.length) > MOST_WORDS;
  const middle = isLong ? [["+", b.join("")], ["-", a.join("")]] : compared(a, b);
  const parts = [["=", old.slice(0, start).join("")], ...middle, ["=", old.slice(old.length - end).join("")]];
  return parts.filter(([, text]) => text);
}

/** What was deleted and inserted, by the longest common subsequence, found from the end. */
function compared(a, b) {
  const table = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      table[i][j] = a[i] === b[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
    }
  }
  const found = [];
  const add = (kind, text) => {
    if (found.at(-1)?.[0] === kind) found.at(-1)[1] += text;
    else found.push([kind, text]);
  };
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      add("=", a[i]);
      i += 1;
      j += 1;
    } else if (j < b.length && (i === a.length || table[i][j + 1] >= table[i + 1][j])) {
      add("+", b[j]);
      j += 1;
    } else {
      add("-", a[i]);
      i += 1;
    }
  }
  return found;
}

/** Saves `parts` (bytes) as a file. Nothing of it is shown, whatever its type is. */
export function save(parts, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(parts, { type: "application/octet-stream" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

export function fromBase64(text) {
  return Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
}

/** A button that asks once more before it does something. `question` may be a function that finds it, or nothing. */
export function Sure({ label, question: given, onSure, isBusy }) {
  const [question, setQuestion] = useState("");
  const ask = async () => setQuestion(typeof given === "function" ? (await given()) || "" : given);
  if (!question) return html`<button type="button" disabled=${isBusy} onClick=${ask}>${label}</button>`;
  return html`<span class="sure" role="group" aria-label=${question}>
    <button
      type="button"
      class="danger"
      onClick=${() => {
        setQuestion("");
        onSure();
      }}
    >
      ${question}
    </button>
    <button type="button" class="quiet" onClick=${() => setQuestion("")}>✕</button>
  </span>`;
}
