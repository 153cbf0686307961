// Changes as they are committed.

import { html, useEffect, useState } from "../vendor/preact.js";
import { ErrorBox, when } from "../parts.js";
import { short } from "../words.js";
import { MemoryLink } from "./memories.js";

const MOST = 200;

export function LiveView({ t, api, scope }) {
  const [changes, setChanges] = useState([]);
  const [error, setError] = useState(null);
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    const control = new AbortController();
    const request = { scope, start: "WATCH_START_NOW", heartbeatInterval: "10s" };
    api
      .stream(
        "Memory",
        "WatchMemories",
        request,
        (told) => {
          setOpen(true);
          if (told.change) setChanges((old) => [told.change, ...old].slice(0, MOST));
        },
        control.signal,
      )
      .catch((failure) => {
        if (!control.signal.aborted) setError(failure);
      });
    return () => control.abort();
  }, [api, scope]);
  return html`
    <p role="status">${isOpen && !error ? t("watching") : null}</p>
    <${ErrorBox} error=${error} t=${t} />
    <ol class="feed" aria-live="polite">
      ${changes.map(
        (one) => html`<li>
          ${when(one.time)} <span class="badge">${short(one.action, "MEMORY_CHANGE_ACTION_")}</span> <${MemoryLink} memory=${one.memory} id=${one.memoryId} />
        </li>`,
      )}
    </ol>
  `;
}
