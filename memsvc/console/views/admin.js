// For administrators: API keys, quotas, and the dead letters of webhooks.

import { html, useState } from "../vendor/preact.js";
import { Badge, Choice, ErrorBox, Field, Loading, More, Sure, Table, bytes, useAction, usePages, when } from "../parts.js";
import { short } from "../words.js";

const SECONDS_OF_A_DAY = 86_400;

export function AdminView(given) {
  const { rights } = given;
  return html`
    ${rights.keys ? html`<${Keys} ...${given} /><${Quotas} ...${given} />` : null}
    ${rights.webhooks ? html`<${DeadLetters} ...${given} />` : null}
  `;
}

function names(text) {
  return text.split(/[,，]/).map((one) => one.trim()).filter(Boolean);
}

function Keys({ t, api }) {
  const [includeEnded, setIncludeEnded] = useState(false);
  const [secret, setSecret] = useState("");
  const [keys, error, reload, more] = usePages(api, "Admin", "ListApiKeys", "apiKeys", { includeEnded });
  const [revoke, failure, isBusy] = useAction(async (id) => {
    await api.call("Admin", "RevokeApiKey", { id });
    reload();
  });
  return html`<section>
    <h2>${t("keys")}</h2>
    ${keys && !keys.length && !includeEnded ? html`<p>${t("first_key")}</p>` : null}
    <label><input type="checkbox" checked=${includeEnded} onChange=${(event) => setIncludeEnded(event.target.checked)} /> ${t("ended_too")}</label>
    <${ErrorBox} error=${failure || error} t=${t} />
    ${keys
      ? html`<${Table}
          caption=${t("keys")}
          empty=${t("none")}
          columns=${[t("name"), "ID", t("role"), t("tenant"), t("users"), t("projects"), t("status"), t("created"), t("expires"), t("action")]}
          rows=${keys.map((one) => [
            one.name,
            html`<code>${one.id}</code>`,
            short(one.role, "API_KEY_ROLE_"),
            one.tenantId,
            (one.userIds || []).join(", ") || t("any"),
            (one.projectIds || []).join(", ") || t("any"),
            html`<${Badge} value=${one.state} prefix="API_KEY_STATE_" />`,
            when(one.createTime),
            when(one.expireTime),
            one.revokeTime ? when(one.revokeTime) : html`<${Sure} label=${t("revoke")} question=${t("revoke")} isBusy=${isBusy} onSure=${() => revoke(one.id)} />`,
          ])}
        />`
      : error
        ? null
        : html`<${Loading} t=${t} />`}
    <${More} t=${t} more=${more} />
    ${secret
      ? html`<div class="secret" role="status">
          <p>${t("secret_once")}</p>
          <code>${secret}</code>
          <p><button type="button" class="quiet" onClick=${() => setSecret("")}>${t("close")}</button></p>
        </div>`
      : null}
    <${NewKey}
      t=${t}
      api=${api}
      onCreated=${(created) => {
        setSecret(created);
        reload();
      }}
    />
  </section>`;
}

const EMPTY_KEY = { name: "", role: "API_KEY_ROLE_READ_WRITE", tenant: "", users: "", projects: "", days: "" };

function NewKey({ t, api, onCreated }) {
  const [typed, setTyped] = useState(EMPTY_KEY);
  const change = (name) => (event) => setTyped({ ...typed, [name]: event.target.value });
  const [create, error, isBusy] = useAction(async () => {
    const request = { name: typed.name, role: typed.role, tenantId: typed.tenant, userIds: names(typed.users), projectIds: names(typed.projects) };
    if (typed.days) request.ttl = `${Number(typed.days) * SECONDS_OF_A_DAY}s`;
    const told = await api.call("Admin", "CreateApiKey", request);
    setTyped(EMPTY_KEY);
    onCreated(told.secret || "");
  });
  return html`<h3>${t("new_key")}</h3>
    <form
      class="filters"
      aria-label=${t("new_key")}
      onSubmit=${(event) => {
        event.preventDefault();
        create();
      }}
    >
      <${Field} label=${t("name")}><input required maxlength="128" value=${typed.name} onInput=${change("name")} autocomplete="off" /><//>
      <${Choice}
        label=${t("role")}
        value=${typed.role}
        onChange=${(role) => setTyped({ ...typed, role })}
        options=${["READ_ONLY", "READ_WRITE", "ADMIN"].map((one) => [`API_KEY_ROLE_${one}`, short(one, "")])}
      />
      <${Field} label=${t("tenant")}><input value=${typed.tenant} onInput=${change("tenant")} autocomplete="off" /><//>
      <${Field} label=${`${t("users")} (${t("comma")})`}><input value=${typed.users} onInput=${change("users")} autocomplete="off" /><//>
      <${Field} label=${`${t("projects")} (${t("comma")})`}><input value=${typed.projects} onInput=${change("projects")} autocomplete="off" /><//>
      <${Field} label=${t("days_valid")}><input type="number" min="1" max="36500" value=${typed.days} onInput=${change("days")} /><//>
      <button type="submit" disabled=${isBusy}>${t("create")}</button>
    </form>
    <${ErrorBox} error=${error} t=${t} />`;
}

const LIMITS = { callsPerSecond: "calls_per_second", memoryCount: "memories", contentBytes: "content_bytes", fileBytes: "file_bytes" };

function Quotas({ t, api }) {
  const [quotas, error, reload, more] = usePages(api, "Admin", "ListQuotas", "quotas", {});
  const used = (one, name, format = String) => t("of", format(one.use?.[name] || 0), Number(one[name] || 0) ? format(one[name]) : "∞");
  return html`<section>
    <h2>${t("quotas")}</h2>
    <${ErrorBox} error=${error} t=${t} />
    ${quotas
      ? html`<${Table}
          caption=${t("quotas")}
          empty=${t("none")}
          columns=${[t("subject"), t("calls_per_second"), t("memories"), t("content"), t("files"), t("updated")]}
          rows=${quotas.map((one) => [
            one.apiKeyId ? html`${t("key")} <code>${one.apiKeyId}</code>` : `${t("tenant")} ${one.tenantId || t("unnamed")}`,
            one.callsPerSecond || "∞",
            used(one, "memoryCount"),
            used(one, "contentBytes", bytes),
            used(one, "fileBytes", bytes),
            when(one.updateTime),
          ])}
        />`
      : error
        ? null
        : html`<${Loading} t=${t} />`}
    <${More} t=${t} more=${more} />
    <${NewQuota} t=${t} api=${api} onSet=${reload} />
  </section>`;
}

function NewQuota({ t, api, onSet }) {
  const [typed, setTyped] = useState({ subject: "tenantId", id: "" });
  const change = (name) => (event) => setTyped({ ...typed, [name]: event.target.value });
  const [set, error, isBusy] = useAction(async () => {
    const quota = { [typed.subject]: typed.id.trim() };
    for (const name of Object.keys(LIMITS)) if (typed[name]) quota[name] = Number(typed[name]);
    await api.call("Admin", "SetQuota", { quota });
    onSet();
  });
  return html`<form
      class="filters"
      aria-label=${t("quotas")}
      onSubmit=${(event) => {
        event.preventDefault();
        set();
      }}
    >
      <${Choice}
        label=${t("subject")}
        value=${typed.subject}
        onChange=${(subject) => setTyped({ ...typed, subject })}
        options=${[["tenantId", t("tenant")], ["apiKeyId", t("key")]]}
      />
      <${Field} label="ID"><input value=${typed.id} onInput=${change("id")} autocomplete="off" /><//>
      ${Object.entries(LIMITS).map(
        ([name, label]) => html`<${Field} label=${t(label)}>
          <input type="number" min="0" step=${name === "callsPerSecond" ? "any" : "1"} value=${typed[name] ?? ""} onInput=${change(name)} />
        <//>`,
      )}
      <button type="submit" disabled=${isBusy}>${t("set")}</button>
      <span class="muted">${t("quota_hint")}</span>
    </form>
    <${ErrorBox} error=${error} t=${t} />`;
}

function DeadLetters({ t, api }) {
  const [letters, error, reload, more] = usePages(api, "Admin", "ListDeadLetters", "deadLetters", {});
  const [said, setSaid] = useState("");
  const [run, failure, isBusy] = useAction(async (method, endpoint, eventIds) => {
    const told = await api.call("Admin", method, { endpoint, eventIds });
    setSaid(t(method === "RetryDeadLetters" ? "retried" : "dropped", told.count || 0));
    reload();
  });
  const endpoints = [...new Set((letters || []).map((one) => one.endpoint))];
  return html`<section>
    <h2>${t("dead_letters")}</h2>
    <p role="status" class="said">${said}</p>
    <${ErrorBox} error=${failure || error} t=${t} />
    ${endpoints.map(
      (name) => html`<p class="actions">
        <button type="button" disabled=${isBusy} onClick=${() => run("RetryDeadLetters", name, [])}>${t("retry_all", name)}</button>
        <${Sure} label=${t("drop_all", name)} question=${t("drop_all", name)} isBusy=${isBusy} onSure=${() => run("DropDeadLetters", name, [])} />
      </p>`,
    )}
    ${letters
      ? html`<${Table}
          caption=${t("dead_letters")}
          empty=${t("none")}
          columns=${[t("endpoint"), t("event"), t("tenant"), t("user"), t("project"), t("time"), t("attempts"), t("reason"), t("action")]}
          rows=${letters.map((one) => [
            one.endpoint,
            html`${one.type} <code>${one.eventId}</code>`,
            one.tenantId,
            one.userId,
            one.projectId,
            when(one.time),
            one.attemptCount,
            one.error,
            html`<button type="button" disabled=${isBusy} onClick=${() => run("RetryDeadLetters", one.endpoint, [one.eventId])}>${t("retry")}</button>${" "}
              <${Sure} label=${t("drop")} question=${t("drop")} isBusy=${isBusy} onSure=${() => run("DropDeadLetters", one.endpoint, [one.eventId])} />`,
          ])}
        />`
      : error
        ? null
        : html`<${Loading} t=${t} />`}
    <${More} t=${t} more=${more} />
  </section>`;
}
