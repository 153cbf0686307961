// Maintenance, export, import and erasure of the user.

import { html, useState } from "../vendor/preact.js";
import { ErrorBox, Field, Sure, Table, fromBase64, milliseconds, save, useAction } from "../parts.js";
import { short } from "../words.js";

const BATCH = 200;
const MOST_REFUSED = 100;

export function MaintenanceView(given) {
  return html`<${Steps} ...${given} /><${Export} ...${given} /><${Import} ...${given} /><${Erase} ...${given} />`;
}

function Steps({ t, api, scope }) {
  const [told, setTold] = useState(null);
  const [run, error, isBusy] = useAction(async (dryRun) => {
    const found = { changes: 0, tallies: [], dryRun };
    await api.stream("Lifecycle", "RunMaintenance", { scope, dryRun }, (message) => {
      found.changes += (message.changes || []).length;
      if (message.tallies?.length) found.tallies = message.tallies;
      setTold({ ...found });
    });
    setTold({ ...found });
  });
  return html`<section>
    <h2>${t("maintenance")}</h2>
    <div class="actions">
      <button type="button" disabled=${isBusy} onClick=${() => run(true)}>${t("dry_run")}</button>
      <${Sure} label=${t("run")} question=${t("run")} isBusy=${isBusy} onSure=${() => run(false)} />
    </div>
    <${ErrorBox} error=${error} t=${t} />
    ${told
      ? html`<p role="status">${told.dryRun ? t("dry_run") : t("done")} ${t("changes")}: ${told.changes}</p>
          <${Table}
            caption=${t("maintenance")}
            empty=${t("none")}
            columns=${[t("step"), t("due"), t("changed"), t("time"), t("errors")]}
            rows=${told.tallies.map((one) => [
              short(one.step, "MAINTENANCE_STEP_"),
              one.dueCount || 0,
              one.changedCount || 0,
              milliseconds(one.duration),
              one.failure || "",
            ])}
          />`
      : null}
  </section>`;
}

function Export({ t, api, scope }) {
  const [count, setCount] = useState(null);
  const [run, error, isBusy] = useAction(async () => {
    const parts = [];
    let records = 0;
    await api.stream("Lifecycle", "ExportUser", { scope: { userId: scope.userId } }, (message) => {
      if (message.data) parts.push(fromBase64(message.data));
      records = message.recordCount || records;
      setCount(records);
    });
    save(parts, `memsvc-${scope.userId}.jsonl`);
  });
  return html`<section>
    <h2>${t("export")}</h2>
    <button type="button" disabled=${isBusy} onClick=${run}>${t("export")}</button>
    <p role="status">${count === null ? null : t("exported", count)}</p>
    <${ErrorBox} error=${error} t=${t} />
  </section>`;
}

/** Stores memories. A whole batch is refused for a field that does not exist: it is sent again without that line. */
async function store(api, scope, batch, found, refuse) {
  let rest = batch;
  while (rest.length) {
    try {
      const answer = await api.call("Memory", "BatchCreateMemories", { scope, memories: rest.map(({ memory }) => ({ memory })) });
      for (const [place, one] of (answer.results || []).entries()) {
        if (one.status?.code) refuse(rest[place].line, one.status.message);
        else found.stored += 1;
      }
      return;
    } catch (error) {
      const named = (error.violations || []).map((one) => [Number(/^memories\[(\d+)\]/.exec(one.field)?.[1] ?? -1), one]);
      const wrong = new Map(named.filter(([place]) => place >= 0 && place < rest.length));
      if (!wrong.size) throw error;
      for (const [place, one] of wrong) refuse(rest[place].line, `${one.field.replace(/^memories\[\d+\]\.memory\./, "")}: ${one.description}`);
      rest = rest.filter((_, place) => !wrong.has(place));
    }
  }
}

function Import({ t, api, scope }) {
  const [told, setTold] = useState(null);
  const [run, error, isBusy] = useAction(async (file) => {
    const found = { stored: 0, refused: [] };
    const refuse = (line, reason) => found.refused.push([line, reason]);
    const lines = [];
    for (const [place, text] of (await file.text()).split(/\r?\n/).entries()) {
      if (!text.trim()) continue;
      try {
        const memory = JSON.parse(text);
        if (memory === null || typeof memory !== "object" || Array.isArray(memory)) refuse(place + 1, t("no_object"));
        else lines.push({ line: place + 1, memory });
      } catch (problem) {
        refuse(place + 1, problem.message);
      }
    }
    if (lines[0]?.memory.record === "header") throw new Error(t("is_export"));
    for (let start = 0; start < lines.length; start += BATCH) {
      await store(api, scope, lines.slice(start, start + BATCH), found, refuse);
      setTold({ ...found });
    }
    found.refused.sort((a, b) => a[0] - b[0]);
    setTold({ ...found });
  });
  return html`<section>
    <h2>${t("import")}</h2>
    <${Field} label=${t("import_hint")}>
      <input type="file" accept=".jsonl,.json" disabled=${isBusy} onChange=${(event) => event.target.files[0] && run(event.target.files[0])} />
    <//>
    <${ErrorBox} error=${error} t=${t} />
    ${told
      ? html`<p role="status">${t("imported", told.stored, told.refused.length)}</p>
          <ul class="warnings">${told.refused.slice(0, MOST_REFUSED).map(([line, reason]) => html`<li>${t("line", line)}: ${reason}</li>`)}</ul>
          ${told.refused.length > MOST_REFUSED ? html`<p class="muted">${t("more_lines", told.refused.length - MOST_REFUSED)}</p>` : null}`
      : null}
  </section>`;
}

function Erase({ t, api, scope }) {
  const [typed, setTyped] = useState("");
  const [receipt, setReceipt] = useState(null);
  const [run, error, isBusy] = useAction(async (confirm) => {
    const told = await api.call("Lifecycle", "EraseUser", { scope: { userId: scope.userId }, confirm });
    setReceipt(told.receipt);
    setTyped("");
  });
  return html`<section>
    <h2>${t("erase")}</h2>
    <button type="button" disabled=${isBusy} onClick=${() => run(false)}>${t("erase_preview")}</button>
    <form
      class="filters"
      onSubmit=${(event) => {
        event.preventDefault();
        run(true);
      }}
    >
      <${Field} label=${t("erase_confirm")}><input value=${typed} onInput=${(event) => setTyped(event.target.value)} autocomplete="off" /><//>
      <button type="submit" class="danger" disabled=${isBusy || typed !== scope.userId}>${t("erase")}</button>
    </form>
    <${ErrorBox} error=${error} t=${t} />
    ${receipt
      ? html`<h3>${receipt.dryRun ? t("erase_preview") : t("receipt")}</h3>
          <p role="status">${receipt.dryRun ? t("dry_run") : receipt.clean ? t("clean") : t("not_clean")}</p>
          <${Table}
            caption=${t("receipt")}
            empty=${t("none")}
            columns=${[t("store"), t("removed"), t("remaining")]}
            rows=${(receipt.stores || []).map((one) => [
              one.store,
              Object.entries(one.removedCounts || {}).map(([name, value]) => html`<div>${name}: ${value}</div>`),
              one.remainingCount || 0,
            ])}
          />`
      : null}
  </section>`;
}
