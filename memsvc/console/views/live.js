// Changes as they are committed.

import { html, useEffect, useState } from "../vendor/preact.js";
import { ErrorBox, when } from "../parts.js";
import { short } from "../words.js";
import { MemoryLink } from "./memories.js";

const MOST = 200;
const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 30_000;
/** Twice the interval of heartbeats and some time: the connection is lost then, even if the browser does not say so. */
const SILENCE = 25_000;
const FINAL = new Set(["unauthenticated", "permission_denied", "invalid_argument", "unimplemented", "not_found"]);

export function LiveView({ t, api, scope }) {
  const [changes, setChanges] = useState([]);
  // state: "connecting", "watching", "lost" (with the pause before the next attempt) or "ended" (with the error).
  const [at, setAt] = useState({ state: "connecting" });
  const [isCut, setCut] = useState(false);
  useEffect(() => {
    const control = new AbortController();
    const add = (change) => setChanges((old) => [change, ...old].slice(0, MOST));
    watch(api, scope, { add, setAt, onGap: () => setCut(true) }, control.signal);
    return () => control.abort();
  }, [api, scope]);
  const said = at.state === "lost" ? t("lost", Math.round(at.pause / 1000)) : at.state === "ended" ? "" : t(at.state);
  return html`
    <p role="status" data-state=${at.state}>${said}</p>
    ${isCut ? html`<p class="muted">${t("gap")}</p>` : null}
    <${ErrorBox} error=${at.state === "ended" ? at.error : null} t=${t} />
    <ol class="feed" aria-live="polite">
      ${changes.map(
        (one) => html`<li>
          ${when(one.time)} <span class="badge">${short(one.action, "MEMORY_CHANGE_ACTION_")}</span> <${MemoryLink} memory=${one.memory} id=${one.memoryId} />
        </li>`,
      )}
    </ol>
  `;
}

/** Watches until `signal`: after a lost connection again, from where it was, with pauses that double. */
async function watch(api, scope, { add, setAt, onGap }, signal) {
  let cursor = "";
  let pause = FIRST_PAUSE;
  while (!signal.aborted) {
    const attempt = new AbortController();
    const stop = () => attempt.abort();
    signal.addEventListener("abort", stop);
    let timer = setTimeout(stop, SILENCE);
    try {
      const request = { scope, start: "WATCH_START_NOW", cursor, heartbeatInterval: "10s" };
      const onMessage = (told) => {
        clearTimeout(timer);
        timer = setTimeout(stop, SILENCE);
        pause = FIRST_PAUSE;
        cursor = told.cursor || cursor;
        setAt({ state: "watching" });
        if (told.change) add(told.change);
      };
      await api.stream("Memory", "WatchMemories", request, onMessage, attempt.signal);
    } catch (error) {
      if (signal.aborted) return;
      if (cursor && error.reason === "CURSOR_EXPIRED") {
        cursor = "";
        onGap();
      } else if (FINAL.has(error.code)) {
        setAt({ state: "ended", error });
        return;
      }
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", stop);
    }
    if (signal.aborted) return;
    setAt({ state: "lost", pause });
    await waited(pause, signal);
    pause = Math.min(2 * pause, LONGEST_PAUSE);
  }
}

/** Returns after `pause`, or when the browser is online again, or at the abort of `signal`. */
function waited(pause, signal) {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      removeEventListener("online", done);
      resolve();
    };
    const timer = setTimeout(done, pause);
    signal.addEventListener("abort", done);
    addEventListener("online", done);
  });
}
