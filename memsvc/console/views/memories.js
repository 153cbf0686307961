// The list of memories with filters, and one memory with everything about it.

import { html, useState } from "../vendor/preact.js";
import { Badge, Choice, Dialog, Difference, ErrorBox, Field, Loading, More, Sure, Table, useAction, useLoaded, usePages, when } from "../parts.js";
import { short } from "../words.js";

const STATUSES = ["ACTIVE", "ARCHIVED", "EXPIRED", "SUPERSEDED", "CONFLICTED", "QUARANTINED", "DELETED"];
const KINDS = ["FACT", "PREFERENCE", "EXPERIENCE", "OPINION", "KNOWLEDGE", "DECISION", "TASK", "NOTE", "SUMMARY", "DOCUMENT", "SKILL", "MESSAGE"];
const LAYERS = ["CORE", "SESSION", "SHORT_TERM", "LONG_TERM"];
const ORDERS = ["update_time desc", "update_time asc", "create_time desc", "create_time asc", "importance desc"];
const PAGE = 50;
const CHARACTERS = new Intl.Segmenter();

export function MemoriesView({ t, api, scope }) {
  const [filter, setFilter] = useState({ status: "ACTIVE", kind: "", layer: "", tag: "", order: ORDERS[0] });
  const [pages, setPages] = useState([""]);
  const [isCreating, setCreating] = useState(false);
  const change = (name) => (value) => {
    setFilter({ ...filter, [name]: value });
    setPages([""]);
  };
  const request = {
    scope,
    orderBy: filter.order,
    pageSize: PAGE,
    pageToken: pages.at(-1),
    filter: {
      // Without any the API lists the active ones alone.
      statuses: (filter.status ? [filter.status] : STATUSES).map((one) => `MEMORY_STATUS_${one}`),
      ...(filter.kind ? { kinds: [`MEMORY_KIND_${filter.kind}`] } : {}),
      ...(filter.layer ? { layers: [`MEMORY_LAYER_${filter.layer}`] } : {}),
      ...(filter.tag ? { tagsAll: [filter.tag] } : {}),
    },
  };
  const [found, error, reload, isLoading] = useLoaded((signal) => api.call("Memory", "ListMemories", request, signal), [api, scope, filter, pages]);
  const options = (values) => [["", t("any")], ...values.map((one) => [one, short(one, "")])];
  return html`
    <form class="filters" onSubmit=${(event) => event.preventDefault()}>
      <${Choice} label=${t("status")} value=${filter.status} onChange=${change("status")} options=${options(STATUSES)} />
      <${Choice} label=${t("kind")} value=${filter.kind} onChange=${change("kind")} options=${options(KINDS)} />
      <${Choice} label=${t("layer")} value=${filter.layer} onChange=${change("layer")} options=${options(LAYERS)} />
      <${Field} label=${t("tags")}>
        <input value=${filter.tag} onChange=${(event) => change("tag")(event.target.value.trim())} />
      <//>
      <${Choice} label=${t("sort")} value=${filter.order} onChange=${change("order")} options=${ORDERS.map((one) => [one, one.replaceAll("_", " ")])} />
      <button type="button" onClick=${() => setCreating(true)}>${t("create")}</button>
    </form>
    ${isCreating
      ? html`<${Editor}
          t=${t}
          api=${api}
          scope=${scope}
          title=${t("create")}
          memory=${{ content: "", importance: 3 }}
          save=${(memory) => api.call("Memory", "CreateMemory", { scope, memory, onDuplicate: "ON_DUPLICATE_REJECT" })}
          onClose=${() => setCreating(false)}
          onSaved=${reload}
        />`
      : null}
    <${ErrorBox} error=${error} t=${t} />
    ${found ? html`<${MemoryTable} t=${t} memories=${found.memories || []} />` : isLoading ? html`<${Loading} t=${t} />` : null}
    <div class="pager">
      <button type="button" disabled=${pages.length < 2} onClick=${() => setPages(pages.slice(0, -1))}>←</button>
      <span>${pages.length}</span>
      <button type="button" disabled=${!found?.nextPageToken} onClick=${() => setPages([...pages, found.nextPageToken])}>→</button>
    </div>
  `;
}

export function MemoryTable({ t, memories }) {
  return html`<${Table}
    caption=${t("memories")}
    empty=${t("none")}
    columns=${[t("content"), t("kind"), t("layer"), t("status"), t("importance"), t("updated")]}
    rows=${memories.map((one) => [
      html`<a href=${`#/memory/${one.id}`}>${one.title ? html`<strong>${one.title}</strong> ` : null}${cut(one.content)}</a>`,
      short(one.kind, "MEMORY_KIND_"),
      short(one.layer, "MEMORY_LAYER_"),
      html`<${Badge} value=${one.status} prefix="MEMORY_STATUS_" />`,
      one.importance,
      when(one.updateTime),
    ])}
  />`;
}

/** The beginning of a text, which ends between two characters as a reader sees them. */
export function cut(text = "", most = 160) {
  if (text.length <= most) return text;
  const { index } = CHARACTERS.segment(text.slice(0, 2 * most)).containing(most - 1);
  return `${text.slice(0, index || most - 1)}…`;
}

export function MemoryLink({ memory, id }) {
  return html`<a href=${`#/memory/${memory?.id || id}`}>${memory ? cut(memory.content) : id}</a>`;
}

export function MemoryView({ t, api, scope, id }) {
  const [found, error, reload] = useLoaded((signal) => whole(api, scope, id, signal), [api, scope, id]);
  const [dialog, setDialog] = useState("");
  const [said, setSaid] = useState("");
  const [act, failure, isBusy] = useAction(async (service, method, more = {}) => {
    await api.call(service, method, { scope, id, expectedRevision: found.memory.revision, ...more });
    setSaid(t("done"));
    reload();
  });
  if (error) return html`<${ErrorBox} error=${error} t=${t} />`;
  if (!found) return html`<${Loading} t=${t} />`;
  const memory = found.memory;
  const isDeleted = memory.status === "MEMORY_STATUS_DELETED";
  const saved = () => {
    setSaid(t("done"));
    reload();
  };
  return html`
    <article>
      <p class="content">${memory.content}</p>
      <p>
        <${Badge} value=${memory.status} prefix="MEMORY_STATUS_" /> <${Badge} value=${memory.kind} prefix="MEMORY_KIND_" />
        <${Badge} value=${memory.layer} prefix="MEMORY_LAYER_" /> ${(memory.tags || []).map((tag) => html`<span class="badge">#${tag}</span> `)}
      </p>
      <div class="actions">
        <button type="button" disabled=${isDeleted} onClick=${() => setDialog("edit")}>${t("edit")}</button>
        <button type="button" disabled=${isDeleted} onClick=${() => setDialog("supersede")}>${t("supersede")}</button>
        <button type="button" disabled=${isBusy || isDeleted} onClick=${() => act("Lifecycle", "ArchiveMemory")}>${t("archive")}</button>
        ${isDeleted || memory.status === "MEMORY_STATUS_ARCHIVED"
          ? html`<button type="button" disabled=${isBusy} onClick=${() => act("Memory", "RestoreMemory")}>${t("restore")}</button>`
          : html`<${Sure} label=${t("remove")} question=${t("remove")} isBusy=${isBusy} onSure=${() => act("Memory", "DeleteMemory")} />`}
      </div>
      <p role="status" class="said">${said}</p>
      <${ErrorBox} error=${failure} t=${t} />
      ${dialog === "edit"
        ? html`<${Editor}
            t=${t}
            title=${t("edit")}
            memory=${memory}
            save=${(changed, names) =>
              api.call("Memory", "UpdateMemory", { scope, memory: { id, ...changed }, updateMask: names.join(","), expectedRevision: memory.revision })}
            onClose=${() => setDialog("")}
            onSaved=${saved}
          />`
        : null}
      ${dialog === "supersede"
        ? html`<${Editor}
            t=${t}
            title=${t("supersede")}
            memory=${{ content: memory.content, importance: memory.importance }}
            save=${(changed) => api.call("Memory", "SupersedeMemory", { scope, id, memory: changed, expectedRevision: memory.revision })}
            onClose=${() => setDialog("")}
            onSaved=${saved}
          />`
        : null}
    </article>
    <section>
      <h2>${t("revisions")}</h2>
      <${Revisions} key=${memory.revision} t=${t} api=${api} scope=${scope} memory=${memory} onChange=${saved} />
    </section>
    ${(found.chain || []).length > 1
      ? html`<section>
          <h2>${t("chain")}</h2>
          <ol>${found.chain.map((one) => html`<li aria-current=${one.id === id ? "true" : null}><${MemoryLink} memory=${one} /></li>`)}</ol>
        </section>`
      : null}
    <${Conflicts} t=${t} api=${api} scope=${scope} id=${id} />
    ${(memory.relatedIds || []).length || (memory.derivedFromIds || []).length
      ? html`<section>
          <h2>${t("related")}</h2>
          <ul>${[...(memory.relatedIds || []), ...(memory.derivedFromIds || [])].map((one) => html`<li><${MemoryLink} id=${one} /></li>`)}</ul>
        </section>`
      : null}
    ${(found.files || []).length
      ? html`<section>
          <h2>${t("files")}</h2>
          <ul>${found.files.map((one) => html`<li>${one.file?.name || one.ref?.id} ${one.file?.mediaType || ""} ${one.status?.message || ""}</li>`)}</ul>
        </section>`
      : null}
    <section>
      <h2>${t("fields")}</h2>
      <dl class="facts">
        ${Object.entries(memory)
          .filter(([name]) => name !== "content")
          .map(([name, value]) => html`<div><dt>${name}</dt><dd>${shown(name, value)}</dd></div>`)}
      </dl>
    </section>
  `;
}

/** A memory with its chain and files; a deleted one, which GetMemory does not return, as it is in the list. */
async function whole(api, scope, id, signal) {
  try {
    return await api.call("Memory", "GetMemory", { scope, id, includeChain: true, includeFiles: true }, signal);
  } catch (error) {
    if (error.code !== "not_found") throw error;
    const filter = { ids: [id], statuses: ["MEMORY_STATUS_DELETED"] };
    const listed = await api.call("Memory", "ListMemories", { scope, filter }, signal);
    if (!listed.memories?.length) throw error;
    return { memory: listed.memories[0] };
  }
}

function shown(name, value) {
  if (name.endsWith("Time")) return when(value);
  return typeof value === "object" ? html`<code>${JSON.stringify(value)}</code>` : String(value);
}

function Conflicts({ t, api, scope, id }) {
  const states = ["OPEN", "CONFIRMED", "REJECTED", "KEPT_BOTH", "CLOSED"].map((one) => `CONFLICT_STATE_${one}`);
  const [found, , , more] = usePages(api, "Memory", "ListConflicts", "conflicts", { scope, memoryId: id, states });
  if (!found?.length) return null;
  return html`<section>
    <h2>${t("conflicts")}</h2>
    <ul>
      ${found.map(
        (one) => html`<li>
          <${Badge} value=${one.state} prefix="CONFLICT_STATE_" /> ${one.topic}: <${MemoryLink} memory=${one.newerMemory} id=${one.newerMemoryId} />
          ${" / "}<${MemoryLink} memory=${one.olderMemory} id=${one.olderMemoryId} />
        </li>`,
      )}
    </ul>
    <${More} t=${t} more=${more} />
  </section>`;
}

function Revisions({ t, api, scope, memory, onChange }) {
  const [all, error, , more] = usePages(api, "Memory", "ListRevisions", "revisions", { scope, id: memory.id });
  const [rollback, failure, isBusy] = useAction(async (revision) => {
    await api.call("Memory", "RollbackMemory", { scope, id: memory.id, revision, expectedRevision: memory.revision });
    onChange();
  });
  if (error) return html`<${ErrorBox} error=${error} t=${t} />`;
  if (!all) return html`<${Loading} t=${t} />`;
  return html`<${ErrorBox} error=${failure} t=${t} />
    <ol class="revisions">
      ${all.map((one, place) => {
        const previous = all.find((other) => Number(other.revision) === Number(one.revision) - 1);
        return html`<li>
          <header>
            <strong>${t("revision")} ${one.revision}</strong> ${short(one.action, "REVISION_ACTION_")} ${when(one.knownFrom)}
            ${(one.changedFields || []).map((name) => html` <code>${name}</code>`)}
            ${place > 0 || Number(one.revision) !== Number(memory.revision)
              ? html`<${Sure} label=${t("rollback")} question=${t("rollback")} isBusy=${isBusy} onSure=${() => rollback(one.revision)} />`
              : null}
          </header>
          ${previous && previous.memory?.content !== one.memory?.content
            ? html`<${Difference} before=${previous.memory?.content} after=${one.memory?.content} />`
            : null}
        </li>`;
      })}
    </ol>
    <${More} t=${t} more=${more} />`;
}

/** A form for the fields of a memory. `save(changed, names)` gets those that differ, and their names. */
export function Editor({ t, title, memory, save, onClose, onSaved }) {
  const first = {
    content: memory.content || "",
    title: memory.title || "",
    kind: memory.kind || "MEMORY_KIND_FACT",
    importance: String(memory.importance || 3),
    tags: (memory.tags || []).join(", "),
  };
  const [typed, setTyped] = useState(first);
  const change = (name) => (event) => setTyped({ ...typed, [name]: event.target.value });
  const [run, error, isBusy] = useAction(async () => {
    const names = Object.keys(typed).filter((name) => typed[name] !== first[name]);
    const changed = Object.fromEntries(names.map((name) => [name, parsed(name, typed[name])]));
    if (!names.includes("content") && !memory.id) changed.content = typed.content;
    if (names.length || !memory.id) await save(changed, names);
    onSaved();
    onClose();
  });
  return html`<${Dialog} title=${title} t=${t} onClose=${onClose}>
    <form
      onSubmit=${(event) => {
        event.preventDefault();
        run();
      }}
    >
      <${Field} label=${t("content")}><textarea rows="6" required value=${typed.content} onInput=${change("content")}></textarea><//>
      <${Field} label=${t("title")}><input value=${typed.title} onInput=${change("title")} /><//>
      <${Choice}
        label=${t("kind")}
        value=${typed.kind}
        onChange=${(value) => setTyped({ ...typed, kind: value })}
        options=${KINDS.map((one) => [`MEMORY_KIND_${one}`, short(one, "")])}
      />
      <${Choice}
        label=${t("importance")}
        value=${typed.importance}
        onChange=${(value) => setTyped({ ...typed, importance: value })}
        options=${["1", "2", "3", "4", "5"].map((one) => [one, one])}
      />
      <${Field} label=${t("tags")}><input value=${typed.tags} onInput=${change("tags")} /><//>
      <${ErrorBox} error=${error} t=${t} />
      <button type="submit" disabled=${isBusy}>${t("save")}</button>
    </form>
  <//>`;
}

function parsed(name, text) {
  if (name === "importance") return Number(text);
  if (name === "tags") return text.split(/[,，]/).map((one) => one.trim()).filter(Boolean);
  return text;
}
