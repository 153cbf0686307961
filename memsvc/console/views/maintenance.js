// Maintenance, export, import and erasure of the user.

import { html, useState } from "../vendor/preact.js";
import { ErrorBox, Field, Table, milliseconds, useAction } from "../parts.js";
import { short } from "../words.js";

const BATCH = 200;

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
      <button type="button" disabled=${isBusy} onClick=${() => run(false)}>${t("run")}</button>
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
      if (message.data) parts.push(Uint8Array.from(atob(message.data), (one) => one.charCodeAt(0)));
      records = message.recordCount || records;
      setCount(records);
    });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(parts));
    link.download = `memsvc-${scope.userId}.jsonl`;
    link.click();
    URL.revokeObjectURL(link.href);
  });
  return html`<section>
    <h2>${t("export")}</h2>
    <button type="button" disabled=${isBusy} onClick=${run}>${t("export")}</button>
    <p role="status">${count === null ? null : t("exported", count)}</p>
    <${ErrorBox} error=${error} t=${t} />
  </section>`;
}

function Import({ t, api, scope }) {
  const [told, setTold] = useState(null);
  const [run, error, isBusy] = useAction(async (file) => {
    const lines = (await file.text()).split(/\r?\n/).filter((one) => one.trim());
    const found = { stored: 0, refused: [] };
    for (let start = 0; start < lines.length; start += BATCH) {
      const memories = lines.slice(start, start + BATCH).map((line) => ({ memory: JSON.parse(line) }));
      const answer = await api.call("Memory", "BatchCreateMemories", { scope, memories });
      for (const [place, one] of (answer.results || []).entries()) {
        if (one.status?.code) found.refused.push(`${start + place + 1}: ${one.status.message}`);
        else found.stored += 1;
      }
      setTold({ ...found });
    }
  });
  return html`<section>
    <h2>${t("import")}</h2>
    <${Field} label=${t("import_hint")}>
      <input type="file" accept=".jsonl,.json" disabled=${isBusy} onChange=${(event) => event.target.files[0] && run(event.target.files[0])} />
    <//>
    <${ErrorBox} error=${error} t=${t} />
    ${told
      ? html`<p role="status">${t("imported", told.stored, told.refused.length)}</p>
          <ul class="warnings">${told.refused.slice(0, 20).map((one) => html`<li>${one}</li>`)}</ul>`
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
