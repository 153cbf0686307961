// Counts, growth, health, slow operations and warnings.

import { html } from "../vendor/preact.js";
import { Bars, Columns, ErrorBox, Loading, Table, bytes, milliseconds, seconds, useLoaded, when } from "../parts.js";
import { short } from "../words.js";

const DAYS = 30;
const SHOWN_METHODS = 12;
const PAGE = 1000;
const MOST_PAGES = 5;

export function OverviewView({ t, api, scope }) {
  return html`
    ${scope.userId ? html`<${Counts} t=${t} api=${api} scope=${scope} />` : html`<p>${t("choose_user")}</p>`}
    <${Health} t=${t} api=${api} />
    <${Latency} t=${t} api=${api} />
  `;
}

function Counts({ t, api, scope }) {
  const [stats, error] = useLoaded((signal) => api.call("Admin", "GetStats", { scope }, signal), [api, scope]);
  const [growth, failure] = useLoaded((signal) => newByDay(api, scope, signal), [api, scope]);
  if (error) return html`<${ErrorBox} error=${error} t=${t} />`;
  if (!stats) return html`<${Loading} t=${t} />`;
  const counts = (map, prefix) =>
    Object.entries(map || {}).map(([name, value]) => [short(name, prefix), value]).sort((a, b) => b[1] - a[1]);
  return html`
    <section class="tiles" aria-label=${t("overview")}>
      <${Tile} name=${t("total")} value=${stats.memoryCount || 0} />
      <${Tile} name=${t("pending")} value=${stats.pendingChangeCount || 0} />
      <${Tile} name=${t("storage")} value=${bytes(stats.storageBytes)} />
    </section>
    <${Warnings} t=${t} warnings=${stats.warnings} />
    <section class="grid">
      <div><h2>${t("counts")}</h2><${Bars} label=${t("counts")} items=${counts(stats.countByStatus, "MEMORY_STATUS_")} /></div>
      <div><h2>${t("by_layer")}</h2><${Bars} label=${t("by_layer")} items=${counts(stats.countByLayer, "MEMORY_LAYER_")} /></div>
      <div><h2>${t("by_kind")}</h2><${Bars} label=${t("by_kind")} items=${counts(stats.countByKind, "MEMORY_KIND_")} /></div>
      <div><h2>${t("growth")}</h2>${growth ? html`<${Columns} label=${t("growth")} items=${growth.days} />` : failure ? html`<${ErrorBox} error=${failure} t=${t} />` : html`<${Loading} t=${t} />`}
        ${growth?.isCut ? html`<p class="muted">${t("growth_cut", PAGE * MOST_PAGES)}</p>` : null}
      </div>
    </section>
  `;
}

/** The numbers of memories by the day on which they were created, for the last days: `days`, and whether some are missing. */
async function newByDay(api, scope, signal) {
  const start = new Date();
  start.setHours(0, 0, 0, 0);
  start.setDate(start.getDate() - DAYS + 1);
  const days = Array.from({ length: DAYS }, (_, place) => {
    const day = new Date(start);
    day.setDate(day.getDate() + place);
    return [day.toLocaleDateString(), 0];
  });
  const request = {
    scope,
    filter: { createTime: { start: start.toISOString() }, statuses: ["MEMORY_STATUS_ACTIVE"] },
    readMask: "createTime",
    pageSize: PAGE,
  };
  let pageToken = "";
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const found = await api.call("Memory", "ListMemories", { ...request, pageToken }, signal);
    for (const memory of found.memories || []) {
      const day = new Date(memory.createTime);
      day.setHours(0, 0, 0, 0);
      const place = Math.round((day - start) / 86_400_000);
      if (days[place]) days[place][1] += 1;
    }
    pageToken = found.nextPageToken || "";
    if (!pageToken) break;
  }
  return { days, isCut: Boolean(pageToken) };
}

function Tile({ name, value }) {
  return html`<div class="tile"><strong>${value}</strong><span>${name}</span></div>`;
}

function Warnings({ t, warnings = [] }) {
  if (!warnings.length) return null;
  return html`<section aria-label=${t("warnings")}>
    <h2>${t("warnings")}</h2>
    <ul class="warnings">
      ${warnings.map((one) => html`<li class=${short(one.severity, "SEVERITY_")}>${one.message || one.code}</li>`)}
    </ul>
  </section>`;
}

function Health({ t, api }) {
  const [found, error] = useLoaded((signal) => api.call("Admin", "Diagnose", {}, signal), [api]);
  if (error?.code === "permission_denied") return html`<p class="muted">${t("no_admin")}</p>`;
  if (error) return html`<${ErrorBox} error=${error} t=${t} />`;
  if (!found) return html`<${Loading} t=${t} />`;
  return html`<section>
    <h2>${t("health")} <span class=${`badge ${found.healthy ? "active" : "conflicted"}`}>${found.healthy ? t("healthy") : t("unhealthy")}</span></h2>
    <p class="muted">${t("version")} ${found.version}</p>
    <${Warnings} t=${t} warnings=${found.warnings} />
    <${Table}
      caption=${t("backends")}
      empty=${t("none")}
      columns=${[t("backends"), t("name"), t("health"), "ping"]}
      rows=${(found.backends || []).map((one) => [one.port, one.name, one.healthy ? t("healthy") : one.message || t("unhealthy"), milliseconds(one.ping)])}
    />
    <h3>${t("slow")}</h3>
    <${Table}
      caption=${t("slow")}
      empty=${t("none")}
      columns=${[t("operation"), t("point"), t("duration"), t("time")]}
      rows=${(found.slowest || []).slice(0, 10).map((one) => [one.operation, short(one.point, "MEASUREMENT_POINT_"), milliseconds(one.duration), when(one.time)])}
    />
  </section>`;
}

function Latency({ t, api }) {
  const [found, error] = useLoaded((signal) => api.call("Admin", "GetPerformance", {}, signal), [api]);
  if (error || !found) return null;
  const methods = (found.operations || [])
    .filter((one) => one.point === "MEASUREMENT_POINT_EDGE" && one.callCount)
    .sort((a, b) => b.callCount - a.callCount)
    .slice(0, SHOWN_METHODS);
  if (!methods.length) return null;
  return html`<section>
    <h2>${t("latency")}</h2>
    <${Bars} label=${`${t("latency")}: p95`} items=${methods.map((one) => [one.operation, seconds(one.p95) * 1000])} format=${(value) => `${value.toFixed(1)} ms`} />
    <${Table}
      caption=${t("latency")}
      empty=${t("none")}
      columns=${[t("method"), t("calls"), t("errors"), "p50", "p95", "p99"]}
      rows=${methods.map((one) => [one.operation, one.callCount, one.errorCount || 0, milliseconds(one.p50), milliseconds(one.p95), milliseconds(one.p99)])}
    />
  </section>`;
}
