// Sessions and their messages.

import { html } from "../vendor/preact.js";
import { Badge, ErrorBox, Loading, More, Table, usePages, when } from "../parts.js";
import { short } from "../words.js";

export function SessionsView({ t, api, scope, id }) {
  if (id) return html`<${Messages} t=${t} api=${api} scope=${{ ...scope, sessionId: id }} />`;
  return html`<${Sessions} t=${t} api=${api} scope=${scope} />`;
}

function Sessions({ t, api, scope }) {
  const [found, error, , more] = usePages(api, "Session", "ListSessions", "sessions", { scope });
  if (error) return html`<${ErrorBox} error=${error} t=${t} />`;
  if (!found) return html`<${Loading} t=${t} />`;
  return html`<${Table}
    caption=${t("sessions")}
    empty=${t("none")}
    columns=${[t("name"), t("state"), t("messages"), t("tokens"), t("updated")]}
    rows=${found.map((one) => [
      html`<a href=${`#/sessions/${encodeURIComponent(one.scope.sessionId)}`}>${one.title || one.scope.sessionId}</a>`,
      html`<${Badge} value=${one.state} prefix="SESSION_STATE_" />`,
      `${one.messageCount || 0} + ${one.archivedMessageCount || 0}`,
      html`<meter min="0" max="1" value=${one.usageRatio || 0} aria-label=${t("tokens")}></meter> ${one.tokenCount || 0} / ${one.tokenLimit || 0}`,
      when(one.lastMessageTime || one.updateTime),
    ])}
  />
    <${More} t=${t} more=${more} />`;
}

function Messages({ t, api, scope }) {
  const [found, error, , more] = usePages(api, "Session", "ListMessages", "messages", { scope, includeArchived: true });
  if (error) return html`<${ErrorBox} error=${error} t=${t} />`;
  if (!found) return html`<${Loading} t=${t} />`;
  return html`<p><a href="#/sessions">← ${t("sessions")}</a></p>
    <h2>${scope.sessionId}</h2>
    ${found.length ? null : html`<p class="muted">${t("none")}</p>`}
    <ol class="talk">
      ${found.map(
        (one) => html`<li class=${short(one.role, "MESSAGE_ROLE_")}>
          <header>
            <strong>${one.speaker || short(one.role, "MESSAGE_ROLE_")}</strong> ${when(one.eventTime || one.createTime)}
            ${one.archived ? html` <span class="badge archived">${t("archive")}</span>` : null}
          </header>
          <p class="content">${one.content}</p>
          ${(one.toolCalls || []).map((call) => html`<code>${call.name}(${JSON.stringify(call.arguments || {})})</code>`)}
        </li>`,
      )}
    </ol>
    <${More} t=${t} more=${more} />`;
}
