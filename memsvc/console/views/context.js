// A context as an agent gets it: its text, its sections with their tokens, and what was left out and why.

import { html, useState } from "../vendor/preact.js";
import { Bars, ErrorBox, Field, Loading, Table, useAction } from "../parts.js";
import { short } from "../words.js";
import { MemoryLink } from "./memories.js";

export function ContextView({ t, api, scope, language }) {
  const [query, setQuery] = useState("");
  const [tokens, setTokens] = useState(1500);
  const [found, setFound] = useState(null);
  const [build, error, isBusy] = useAction(async () => {
    const request = {
      scope,
      query,
      options: { totalTokens: tokens, locale: language, timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone },
    };
    setFound(await api.call("Search", "RenderContext", request));
  });
  return html`
    <form
      class="filters"
      onSubmit=${(event) => {
        event.preventDefault();
        build();
      }}
    >
      <${Field} label=${t("query")}><input type="search" value=${query} onInput=${(event) => setQuery(event.target.value)} /><//>
      <${Field} label=${t("budget")}>
        <input type="number" min="50" max="1000000" value=${tokens} onChange=${(event) => setTokens(Number(event.target.value))} />
      <//>
      <button type="submit" disabled=${isBusy}>${t("build")}</button>
    </form>
    <${ErrorBox} error=${error} t=${t} />
    ${isBusy ? html`<${Loading} t=${t} />` : null}
    ${found ? html`<${Context} t=${t} found=${found} budget=${tokens} />` : null}
  `;
}

function Context({ t, found, budget }) {
  const summary = found.summary || {};
  const omissions = summary.omissions || [];
  return html`
    <p role="status">${t("tokens")}: ${found.tokenCount || 0} / ${budget}</p>
    <ul class="warnings">${(found.warnings || []).map((one) => html`<li>${one.message}</li>`)}</ul>
    <pre class="context" tabindex="0">${found.markdown}</pre>
    <section>
      <h2>${t("sections")}</h2>
      <${Bars}
        label=${t("sections")}
        items=${(summary.sections || []).map((one) => [`${short(one.section, "CONTEXT_SECTION_")} (${one.itemCount || 0})`, one.tokenCount || 0])}
      />
    </section>
    <section>
      <h2>${t("left_out")}</h2>
      <${Table}
        caption=${t("left_out")}
        empty=${t("none")}
        columns=${[t("reason"), t("sections"), t("items"), t("memories")]}
        rows=${omissions.map((one) => [
          short(one.reason, "OMISSION_REASON_"),
          short(one.section, "CONTEXT_SECTION_"),
          one.memoryCount,
          (one.memoryIds || []).slice(0, 5).map((id) => html`<div><${MemoryLink} id=${id} /></div>`),
        ])}
      />
    </section>
  `;
}
