// Search with its ranking explained as a picture.

import { html, useState } from "../vendor/preact.js";
import { Badge, Bars, Choice, ErrorBox, Field, Loading, Table, seconds, useLoaded } from "../parts.js";
import { short } from "../words.js";
import { MemoryLink } from "./memories.js";

const MODES = ["HYBRID", "SEMANTIC", "KEYWORD"];
const MOST_DAYS = 365;
const SCALE = "scale"; // The factor at the end of the sum, not a part of it.

export function SearchView({ t, api, scope }) {
  const [typed, setTyped] = useState("");
  const [query, setQuery] = useState("");
  const [mode, setMode] = useState("HYBRID");
  const [days, setDays] = useState(0);
  const request = {
    scope,
    query,
    mode: `SEARCH_MODE_${mode}`,
    explain: true,
    judgeCurrency: true,
    limit: 20,
    ...(days ? { asOf: { knownTime: new Date(Date.now() - days * 86_400_000).toISOString() } } : {}),
  };
  const [found, error, , isLoading] = useLoaded(
    async (signal) => (query ? api.call("Search", "Search", request, signal) : null),
    [api, scope, query, mode, days],
  );
  return html`
    <form
      class="filters"
      role="search"
      onSubmit=${(event) => {
        event.preventDefault();
        setQuery(typed.trim());
      }}
    >
      <${Field} label=${t("query")}>
        <input type="search" value=${typed} onInput=${(event) => setTyped(event.target.value)} />
      <//>
      <${Choice} label=${t("mode")} value=${mode} onChange=${setMode} options=${MODES.map((one) => [one, one.toLowerCase()])} />
      <${Field} label=${`${t("as_of")}: ${days ? `${days} ${t("days_ago")}` : t("now")}`}>
        <input type="range" min="0" max=${MOST_DAYS} value=${days} onChange=${(event) => setDays(Number(event.target.value))} />
      <//>
      <button type="submit">${t("search")}</button>
    </form>
    <${ErrorBox} error=${error} t=${t} />
    ${isLoading && query ? html`<${Loading} t=${t} />` : null}
    ${found ? html`<${Results} t=${t} found=${found} />` : null}
  `;
}

function Results({ t, found }) {
  const hits = found.hits || [];
  return html`
    <p role="status" class="muted">
      ${found.nothingRelevant ? t("nothing_relevant") : null} ${hits.length} / ${found.candidateCount || 0} ${t("candidates")}
      ${(found.degraded || []).map((one) => html` <span class="badge conflicted">${t("degraded")}: ${short(one.retriever, "RETRIEVER_")} ${one.message || ""}</span>`)}
    </p>
    ${hits.length ? null : html`<p class="muted">${t("none")}</p>`}
    <ol class="hits">${hits.map((hit, place) => html`<li key=${hit.memory.id}><${Hit} t=${t} hit=${hit} isOpen=${!place} /></li>`)}</ol>
    ${found.archivedHits?.length
      ? html`<section>
          <h2>${t("archived_hits")}</h2>
          <ol class="hits">${found.archivedHits.map((hit) => html`<li key=${hit.memory.id}><${Hit} t=${t} hit=${hit} isOpen=${false} /></li>`)}</ol>
        </section>`
      : null}
    ${found.timings?.length
      ? html`<section>
          <h2>${t("timings")}</h2>
          <${Bars} label=${t("timings")} items=${found.timings.map((one) => [one.stage, seconds(one.duration) * 1000])} format=${(value) => `${value.toFixed(2)} ms`} />
        </section>`
      : null}
  `;
}

function Hit({ t, hit, isOpen }) {
  return html`
    <p class="content"><${MemoryLink} memory=${hit.memory} /></p>
    <p>
      ${hit.relevance === undefined
        ? null
        : html`<meter min="0" max="1" value=${hit.relevance} aria-label=${t("relevance")}></meter> ${t("relevance")} ${hit.relevance.toFixed(2)} · `}
      ${t("score")} ${(hit.score || 0).toFixed(3)}
      ${hit.currency && hit.currency !== "CURRENCY_CURRENT"
        ? html` <${Badge} value=${hit.currency} prefix="CURRENCY_" /> ${hit.newerMemoryId ? html`<${MemoryLink} id=${hit.newerMemoryId} />` : null}`
        : null}
      ${hit.memory.status !== "MEMORY_STATUS_ACTIVE" ? html` <${Badge} value=${hit.memory.status} prefix="MEMORY_STATUS_" />` : null}
    </p>
    ${hit.explanation ? html`<${Explanation} t=${t} told=${hit.explanation} score=${hit.score || 0} isOpen=${isOpen} />` : null}
  `;
}

/** Where the score comes from: the share of each retriever, then each cue that added or took away. */
function Explanation({ t, told, score, isOpen }) {
  const boosts = told.boosts || [];
  const parts = [
    ...(told.retrievers || []).map((one) => [short(one.retriever, "RETRIEVER_"), one.share || 0]),
    ...boosts.filter((one) => one.name !== SCALE).map((one) => [one.name.replaceAll("_", " "), one.value || 0]),
  ];
  const scale = boosts.find((one) => one.name === SCALE)?.value;
  const most = Math.max(1e-9, ...parts.map(([, value]) => Math.abs(value)));
  return html`<details open=${isOpen}>
    <summary>${t("ranks")}</summary>
    <dl class="bars signed" aria-label=${t("ranks")}>
      ${parts.map(
        ([name, value]) => html`<div>
          <dt>${name}</dt>
          <dd>
            <svg viewBox="-100 0 200 8" preserveAspectRatio="none" aria-hidden="true">
              <rect class=${value < 0 ? "bar minus" : "bar"} x=${value < 0 ? (100 * value) / most : 0} width=${(100 * Math.abs(value)) / most} height="8" />
            </svg>
            <span>${value.toFixed(3)}</span>
          </dd>
        </div>`,
      )}
    </dl>
    <${Table}
      caption=${t("ranks")}
      empty=${t("none")}
      columns=${[t("retriever"), t("rank"), t("raw"), t("share")]}
      rows=${(told.retrievers || []).map((one) => [short(one.retriever, "RETRIEVER_"), one.rank, (one.rawScore || 0).toFixed(3), (one.share || 0).toFixed(3)])}
    />
    <p class="muted">${t("fused")} ${(told.fusedScore || 0).toFixed(3)} → ${t("score")} ${score.toFixed(3)}${scale ? ` (× ${scale.toFixed(3)})` : ""}</p>
  </details>`;
}

