// The console: its address, scope, language and theme, and the view that the address names.

import { html, render, useEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { createApi } from "./api.js";
import { ErrorBox, Field, Loading, useLoaded } from "./parts.js";
import { words } from "./words.js";

/** How each view is loaded: the one that is shown first, the others when there is time. */
const VIEWS = {
  overview: async () => (await import("./views/overview.js")).OverviewView,
  memories: async () => (await import("./views/memories.js")).MemoriesView,
  search: async () => (await import("./views/search.js")).SearchView,
  review: async () => (await import("./views/review.js")).ReviewView,
  sessions: async () => (await import("./views/sessions.js")).SessionsView,
  context: async () => (await import("./views/context.js")).ContextView,
  checkpoints: async () => (await import("./views/checkpoints.js")).CheckpointsView,
  files: async () => (await import("./views/files.js")).FilesView,
  maintenance: async () => (await import("./views/maintenance.js")).MaintenanceView,
  live: async () => (await import("./views/live.js")).LiveView,
  admin: async () => (await import("./views/admin.js")).AdminView,
};
const LOADERS = { ...VIEWS, memory: async () => (await import("./views/memories.js")).MemoryView };
/** Views that are not about a user. */
const WITHOUT_USER = new Set(["overview", "admin"]);
/** Methods whose success shows the rights of an administrator; without API keys the first is for this machine alone. */
const RIGHTS = { keys: "ListApiKeys", webhooks: "ListDeadLetters" };
const KEY = "memsvc-key";
/** Milliseconds until the views that are not shown are loaded. */
const OTHERS_MS = 1500;

function kept(name, otherwise) {
  return localStorage.getItem(`memsvc-${name}`) ?? otherwise;
}

function keep(name, value) {
  localStorage.setItem(`memsvc-${name}`, value);
}

/** The parts of the address after "#/": the view, and the id that it shows. */
function place() {
  const [view, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  return { view: Object.hasOwn(LOADERS, view) ? view : "overview", id: rest.map(decoded).join("/") };
}

/** A part of the address without its escapes; as it is, if a person typed a "%" that is none. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function App() {
  const [at, setAt] = useState(place());
  const [language, setLanguage] = useState(kept("language", navigator.language.startsWith("zh") ? "zh" : "en"));
  const [theme, setTheme] = useState(kept("theme", ""));
  const [user, setUser] = useState(kept("user", ""));
  const [project, setProject] = useState(kept("project", ""));
  // The key is forgotten with the tab, and never part of an address.
  const [key, setKey] = useState(sessionStorage.getItem(KEY) || "");
  const t = useMemo(() => words(language), [language]);
  /** Whether the field of the search is to have the focus, as soon as it is there. */
  const isSearchWanted = useRef(false);
  const api = useMemo(() => createApi(() => key), [key]);
  const scope = useMemo(() => ({ userId: user, ...(project ? { projectId: project } : {}) }), [user, project]);

  const [rights, refusal] = useLoaded(async (signal) => {
    const denied = (error) => {
      if (error.code === "unauthenticated" || error.code === "unreachable") throw error;
      return false;
    };
    const may = (method) => api.call("Admin", method, { pageSize: 1 }, signal).then(() => true, denied);
    return { keys: await may(RIGHTS.keys), webhooks: await may(RIGHTS.webhooks) };
  }, [api]);
  const isShown = (name) => name !== "admin" || Boolean(rights?.keys || rights?.webhooks);

  useEffect(() => {
    const moved = () => {
      setAt(place());
      document.getElementById("main")?.focus();
    };
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  useEffect(() => {
    document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
    keep("language", language);
  }, [language]);
  useEffect(() => {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    keep("theme", theme);
  }, [theme]);
  useEffect(() => {
    const typed = (event) => {
      if (event.key === "/" && !/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) {
        event.preventDefault();
        isSearchWanted.current = true;
        if (location.hash === "#/search") setAt(place());
        location.hash = "#/search";
      }
    };
    addEventListener("keydown", typed);
    return () => removeEventListener("keydown", typed);
  }, []);

  function applied(given) {
    setUser(given.user);
    setProject(given.project);
    setKey(given.key);
    keep("user", given.user);
    keep("project", given.project);
    sessionStorage.setItem(KEY, given.key);
  }

  const [View, failure] = useView(at.view);
  useEffect(() => {
    if (isSearchWanted.current && at.view === "search" && View) {
      isSearchWanted.current = false;
      document.querySelector("main input[type=search]")?.focus();
    }
  }, [at, View]);
  const title = at.view === "memory" ? t("memories") : t(at.view);
  useEffect(() => {
    document.title = `${title} – memsvc`;
  }, [title]);
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>${t("skip")}</a>
    <header class="top">
      <a class="brand" href="#/overview">memsvc</a>
      <${ScopeForm} t=${t} given=${{ user, project, key }} api=${api} onApply=${applied} />
      <div class="tools">
        <button type="button" class="quiet" onClick=${() => setLanguage(language === "zh" ? "en" : "zh")}>${t("language")}</button>
        <button
          type="button"
          class="quiet"
          aria-label=${t("theme")}
          onClick=${() => setTheme(theme === "dark" ? "light" : "dark")}
        >
          ◐
        </button>
      </div>
    </header>
    <div class="frame">
      <nav aria-label="memsvc">
        ${Object.keys(VIEWS).filter(isShown).map(
          (name) => html`<a href=${`#/${name}`} aria-current=${at.view === name || (name === "memories" && at.view === "memory") ? "page" : null}>
            ${t(name)}
          </a>`,
        )}
      </nav>
      <main id="main" tabindex="-1">
        <h1>${title}</h1>
        ${at.view === "admin" && !isShown("admin")
          ? refusal
            ? html`<${ErrorBox} error=${refusal} t=${t} />`
            : html`<p class="muted" role="status">${t(rights ? "admin_only" : "loading")}</p>`
          : failure
          ? html`<${ErrorBox} error=${failure} t=${t} />`
          : !View
          ? html`<${Loading} t=${t} />`
          : user || WITHOUT_USER.has(at.view)
          ? html`<${View} key=${`${user}/${project}/${key}/${at.view}/${at.id}`} t=${t} api=${api} scope=${scope} id=${at.id} language=${language} rights=${rights} />`
          : html`<p>${t("choose_user")}</p>`}
      </main>
    </div>
  `;
}

/** The view of a name, null until it is loaded, and why it could not be. */
function useView(name) {
  const [found, setFound] = useState({});
  const [failures, setFailures] = useState({});
  useEffect(() => {
    if (found[name]) return;
    LOADERS[name]().then(
      (View) => setFound((old) => ({ ...old, [name]: View })),
      (error) => setFailures((old) => ({ ...old, [name]: error })),
    );
  }, [name]);
  useEffect(() => {
    const others = setTimeout(() => Object.values(LOADERS).forEach((load) => load().catch(() => {})), OTHERS_MS);
    return () => clearTimeout(others);
  }, []);
  return [found[name] ?? null, found[name] ? null : failures[name]];
}

function ScopeForm({ t, given, api, onApply }) {
  const [typed, setTyped] = useState(given);
  const change = (name) => (event) => setTyped({ ...typed, [name]: event.target.value });
  // Known users, for keys that may list them; others get no suggestions.
  const [users] = useLoaded(
    (signal) => api.call("Admin", "ListUsers", { pageSize: 100 }, signal).catch(() => ({})),
    [api],
  );
  return html`<form
    class="scope"
    onSubmit=${(event) => {
      event.preventDefault();
      const trimmed = Object.fromEntries(Object.entries(typed).map(([name, value]) => [name, value.trim()]));
      setTyped(trimmed);
      onApply(trimmed);
    }}
  >
    <${Field} label=${t("user")}>
      <input name="user" list="users" value=${typed.user} onInput=${change("user")} autocomplete="off" spellcheck=${false} />
    <//>
    <datalist id="users">${(users?.users || []).map((one) => html`<option value=${one.userId || one.id} />`)}</datalist>
    <${Field} label=${t("project")}>
      <input name="project" value=${typed.project} onInput=${change("project")} autocomplete="off" spellcheck=${false} />
    <//>
    <${Field} label=${t("key")}>
      <input name="key" type="password" value=${typed.key} onInput=${change("key")} autocomplete="off" />
    <//>
    <button type="submit">${t("apply")}</button>
  </form>`;
}

render(html`<${App} />`, document.getElementById("app"));

