// What waits for a decision: conflicts, quarantined memories, reminders.

import { html, useState } from "../vendor/preact.js";
import { Badge, Difference, ErrorBox, Field, Loading, More, useAction, usePages, when } from "../parts.js";
import { short } from "../words.js";
import { MemoryLink } from "./memories.js";

export function ReviewView(given) {
  return html`<${Conflicts} ...${given} /><${Quarantine} ...${given} /><${Reminders} ...${given} />`;
}

function Conflicts({ t, api, scope }) {
  const [found, error, reload, more] = usePages(api, "Memory", "ListConflicts", "conflicts", { scope });
  const [said, setSaid] = useState("");
  const [resolve, failure, isBusy] = useAction(async (id, resolution) => {
    const told = await api.call("Memory", "ResolveConflict", { scope, id, resolution: `CONFLICT_RESOLUTION_${resolution}` });
    setSaid(`${t("done")} ${short(told.conflict.state, "CONFLICT_STATE_")}`);
    reload();
  });
  return html`<section>
    <h2>${t("conflicts")}</h2>
    <p role="status" class="said">${said}</p>
    <${ErrorBox} error=${error || failure} t=${t} />
    ${found ? null : error ? null : html`<${Loading} t=${t} />`}
    ${found && !found.length ? html`<p class="muted">${t("none")}</p>` : null}
    <ul class="cards">
      ${(found || []).map(
        (one) => html`<li>
          <p><strong>${one.question || one.topic}</strong></p>
          <${Difference} before=${one.olderMemory?.content} after=${one.newerMemory?.content} />
          <p class="muted">
            ${t("older")}: <${MemoryLink} memory=${one.olderMemory} id=${one.olderMemoryId} /> ${when(one.olderMemory?.createTime)}<br />
            ${t("newer")}: <${MemoryLink} memory=${one.newerMemory} id=${one.newerMemoryId} /> ${when(one.newerMemory?.createTime)}
          </p>
          <div class="actions">
            <button type="button" disabled=${isBusy} onClick=${() => resolve(one.id, "CONFIRM")}>${t("confirm_newer")}</button>
            <button type="button" disabled=${isBusy} onClick=${() => resolve(one.id, "REJECT")}>${t("reject_newer")}</button>
            <button type="button" disabled=${isBusy} onClick=${() => resolve(one.id, "KEEP_BOTH")}>${t("keep_both")}</button>
          </div>
        </li>`,
      )}
    </ul>
    <${More} t=${t} more=${more} />
  </section>`;
}

function Quarantine({ t, api, scope }) {
  const [found, error, reload, more] = usePages(api, "Memory", "ListQuarantined", "memories", { scope });
  const [review, failure, isBusy] = useAction(async (id, verdict) => {
    await api.call("Memory", "ReviewMemory", { scope, id, verdict: `REVIEW_VERDICT_${verdict}` });
    reload();
  });
  return html`<section>
    <h2>${t("quarantine")}</h2>
    <${ErrorBox} error=${error || failure} t=${t} />
    ${found && !found.length ? html`<p class="muted">${t("none")}</p>` : null}
    <ul class="cards">
      ${(found || []).map(
        (one) => html`<li>
          <p class="content"><${MemoryLink} memory=${one} /></p>
          <p class="muted"><${Badge} value=${one.origin} prefix="MEMORY_ORIGIN_" /> ${one.source} ${when(one.createTime)}</p>
          <div class="actions">
            <button type="button" disabled=${isBusy} onClick=${() => review(one.id, "APPROVE")}>${t("approve")}</button>
            <button type="button" disabled=${isBusy} onClick=${() => review(one.id, "REJECT")}>${t("reject")}</button>
          </div>
        </li>`,
      )}
    </ul>
    <${More} t=${t} more=${more} />
  </section>`;
}

function Reminders({ t, api, scope }) {
  const [days, setDays] = useState(7);
  const timeZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const request = { scope, timeZone, daysAhead: days };
  const [found, error, reload, more] = usePages(api, "Lifecycle", "ListDueReminders", "reminders", request);
  const [acknowledge, failure, isBusy] = useAction(async (occurrence) => {
    await api.call("Lifecycle", "AcknowledgeReminder", { scope, id: occurrence.memoryId, date: occurrence.date });
    reload();
  });
  return html`<section>
    <h2>${t("reminders")}</h2>
    <${Field} label=${t("days_ahead")}>
      <input type="number" min="0" max="366" value=${days} onChange=${(event) => setDays(Number(event.target.value))} />
    <//>
    <${ErrorBox} error=${error || failure} t=${t} />
    ${found && !found.length ? html`<p class="muted">${t("none")}</p>` : null}
    <ul class="cards">
      ${(found || []).map(({ memory, occurrence }) => {
        const { year, month, day } = occurrence.date;
        return html`<li>
          <p>
            <strong>${year}-${String(month).padStart(2, "0")}-${String(day).padStart(2, "0")}</strong>
            ${occurrence.overdue ? html` <span class="badge conflicted">${t("overdue")}</span>` : null}
          </p>
          <p class="content"><${MemoryLink} memory=${memory} /></p>
          <button type="button" disabled=${isBusy} onClick=${() => acknowledge(occurrence)}>${t("acknowledge")}</button>
        </li>`;
      })}
    </ul>
    <${More} t=${t} more=${more} />
  </section>`;
}
