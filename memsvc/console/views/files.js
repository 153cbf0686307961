// The files of the user.

import { html } from "../vendor/preact.js";
import { ErrorBox, Loading, More, Sure, Table, bytes, fromBase64, save, useAction, usePages, when } from "../parts.js";
import { short } from "../words.js";

export function FilesView({ t, api, scope }) {
  const [found, error, reload, more] = usePages(api, "File", "ListFiles", "files", { scope });
  const [remove, failure, isBusy] = useAction(async (id) => {
    await api.call("File", "DeleteFile", { scope, id });
    reload();
  });
  const [download, problem, isLoading] = useAction(async (file) => {
    const parts = [];
    await api.stream("File", "DownloadFile", { scope, id: file.id }, (message) => {
      if (message.data) parts.push(fromBase64(message.data));
    });
    save(parts, file.name);
  });
  if (error) return html`<${ErrorBox} error=${error} t=${t} />`;
  if (!found) return html`<${Loading} t=${t} />`;
  return html`<${ErrorBox} error=${failure || problem} t=${t} />
    <${Table}
      caption=${t("files")}
      empty=${t("none")}
      columns=${[t("name"), t("category"), t("media_type"), t("size"), t("created"), t("action")]}
      rows=${found.map((one) => [
        html`${one.name} ${one.contentMissing ? html`<span class="badge conflicted">${t("missing")}</span>` : null}`,
        short(one.category, "FILE_CATEGORY_"),
        one.mediaType,
        bytes(one.sizeBytes),
        when(one.createTime),
        html`<button type="button" disabled=${isLoading || one.contentMissing} aria-label=${`${t("download")} ${one.name}`} onClick=${() => download(one)}>${t("download")}</button>${" "}
          <${Sure} label=${t("remove")} question=${t("remove")} isBusy=${isBusy} onSure=${() => remove(one.id)} />`,
      ])}
    />
    <${More} t=${t} more=${more} />`;
}
