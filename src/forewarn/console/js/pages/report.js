// The report of a campaign, for those who were not there: a few figures, one picture, and
// what went wrong. It prints on two pages.

import { html, nothing } from "../lit.js";
import { get, list } from "../api.js";
import { all, changed, one, resource } from "../store.js";
import { address, campaignAddress, errorNote, loading } from "../parts.js";
import { csv } from "../csv.js";
import { paper } from "../paper.js";
import * as time from "../time.js";

let id = "";
/** @type {import("../store.js").Resource | null} */
let told = null;
let isBusy = false;
/** Why the last file could not be saved. @type {Error | null} */
let failure = null;

const path = () => `/v1/campaigns/${encodeURIComponent(id)}`;

function figures() {
  told ??= resource(
    async () => {
      const [campaign, sums] = await Promise.all([get(path()), get(`${path()}/sums`)]);
      return { campaign, sums, at: new Date(time.now()).toISOString() };
    },
    { topics: ["campaigns"], pause: 10_000 },
  );
  return told;
}

/** @param {string} name @param {string} kind @param {string} text Have the browser save a text. */
function save(name, kind, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: kind }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** @param {"csv" | "json"} form */
async function download(form) {
  if (isBusy) return;
  isBusy = true;
  failure = null;
  try {
    const { items } = await list(`${path()}/report?limit=1000`, "attempts", 200);
    const value = figures().value;
    const name = `${value.campaign.name}-report`;
    if (form === "json")
      save(
        `${name}.json`,
        "application/json",
        JSON.stringify({ ...value, attempts: items }, null, 2),
      );
    else save(`${name}.csv`, "text/csv", csv(items));
  } catch (error) {
    failure = /** @type {Error} */ (error);
    changed({ now: true });
  }
  isBusy = false;
}

function view() {
  const { value, error } = figures();
  const bar = html`<div class="acts noprint paperbar">
    <a href=${campaignAddress(id)}>‹ Campaign</a><span class="grow"></span>
    <button @click=${() => download("csv")}>CSV</button
    ><button @click=${() => download("json")}>JSON</button
    ><button class="prim" @click=${() => print()}>Print…</button>
  </div>`;
  // Of what a person has asked for, the failure is read aloud.
  const note = failure
    ? html`<div class="paperbar gap" role="alert">${errorNote(failure)}</div>`
    : nothing;
  const old = error ? html`<div class="paperbar gap">${errorNote(error)}</div>` : nothing;
  return html`${bar}${note}${old}${
    value ? paper(value, link) : error ? nothing : html`<div class="paper">${loading}</div>`
  }`;
}

/** Where the history tells more. @param {any} text @param {...[string, string]} query */
const link = (text, ...query) => html`<a href=${address("history", ...query)}>${text}</a>`;

const name = () =>
  figures().value?.campaign.name ??
  one("campaigns", id)?.name ??
  all("campaigns").find((each) => each.name === id)?.name ??
  id;

/** @type {import("../pages.js").Page} */
export const page = {
  title: () => `report: ${name()}`,
  view,
  uses: () => [figures()],
  enter([campaign]) {
    id = campaign ?? "";
    told = failure = null;
  },
};
