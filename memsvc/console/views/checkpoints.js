// Checkpoints: what has changed since, and rolling back to one.

import { html, useState } from "../vendor/preact.js";
import { Difference, ErrorBox, Field, Loading, More, Sure, useAction, usePages, when } from "../parts.js";
import { short } from "../words.js";
import { MemoryLink } from "./memories.js";

export function CheckpointsView({ t, api, scope }) {
  const [found, error, reload, more] = usePages(api, "Lifecycle", "ListCheckpoints", "checkpoints", { scope });
  const [name, setName] = useState("");
  const [note, setNote] = useState("");
  const [shown, setShown] = useState("");
  const [create, failure, isBusy] = useAction(async () => {
    await api.call("Lifecycle", "CreateCheckpoint", { scope, name, note });
    setName("");
    setNote("");
    reload();
  });
  return html`
    <form
      class="filters"
      onSubmit=${(event) => {
        event.preventDefault();
        create();
      }}
    >
      <${Field} label=${t("name")}><input required value=${name} onInput=${(event) => setName(event.target.value)} /><//>
      <${Field} label=${t("note")}><input value=${note} onInput=${(event) => setNote(event.target.value)} /><//>
      <button type="submit" disabled=${isBusy}>${t("create")}</button>
    </form>
    <${ErrorBox} error=${error || failure} t=${t} />
    ${found ? null : error ? null : html`<${Loading} t=${t} />`}
    ${found && !found.length ? html`<p class="muted">${t("none")}</p>` : null}
    <ul class="cards">
      ${(found || []).map(
        (one) => html`<li key=${one.name}>
          <p><strong>${one.name}</strong> ${when(one.knownTime)} <span class="muted">${one.note}</span></p>
          <button type="button" aria-expanded=${shown === one.name} onClick=${() => setShown(shown === one.name ? "" : one.name)}>${t("differences")}</button>
          ${shown === one.name ? html`<${Since} t=${t} api=${api} scope=${scope} checkpoint=${one.name} onRolledBack=${reload} />` : null}
        </li>`,
      )}
    </ul>
    <${More} t=${t} more=${more} />
  `;
}

function Since({ t, api, scope, checkpoint, onRolledBack }) {
  const [found, error, reload, more] = usePages(api, "Lifecycle", "DiffCheckpoint", "differences", { scope, checkpoint });
  const [said, setSaid] = useState("");
  const [rollback, failure, isBusy] = useAction(async (dryRun) => {
    const told = await api.call("Lifecycle", "RollbackToCheckpoint", { scope, checkpoint, dryRun });
    const counts = [told.changedCount || 0, told.deletedCount || 0, told.restoredCount || 0];
    setSaid(dryRun ? t("would_change", ...counts) : t("rolled_back", ...counts, told.undoCheckpoint));
    if (!dryRun) {
      reload();
      onRolledBack();
    }
    return t("sure_rollback", ...counts);
  });
  if (error) return html`<${ErrorBox} error=${error} t=${t} />`;
  if (!found) return html`<${Loading} t=${t} />`;
  return html`<div>
    ${found.length ? null : html`<p class="muted">${t("none")}</p>`}
    <ul>
      ${found.map(
        (one) => html`<li>
          ${short(one.kind, "DIFFERENCE_KIND_")} <${MemoryLink} memory=${one.after || one.before} id=${one.memoryId} />
          ${one.before && one.after ? html`<${Difference} before=${one.before.content} after=${one.after.content} />` : null}
        </li>`,
      )}
    </ul>
    <${More} t=${t} more=${more} />
    <div class="actions">
      <button type="button" disabled=${isBusy} onClick=${() => rollback(true)}>${t("preview_rollback")}</button>
      <${Sure} label=${t("rollback")} question=${() => rollback(true)} isBusy=${isBusy} onSure=${() => rollback(false)} />
    </div>
    <p role="status" class="said">${said}</p>
    <${ErrorBox} error=${failure} t=${t} />
  </div>`;
}
