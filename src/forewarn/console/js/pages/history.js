// The history: who did what, when and why. The filters are in the address.

import { html, nothing } from "../lit.js";
import { about, changes } from "../changes.js";
import { state } from "../store.js";
import { wholeFeed } from "../feed.js";
import { empty, loaded, moment } from "../parts.js";
import { addressOf, askedAt, atField } from "../at.js";
import { hold, newer } from "../hold.js";
import { asked, look } from "../query.js";
import * as time from "../time.js";

/** Changes that are read at once. */
const STEP = 400;
/** @type {[string, string][]} */
const SPANS = [
  ["1h", "1 hour"],
  ["1d", "1 day"],
  ["7d", "7 days"],
  ["60d", "60 days"],
];
const HOUR = 3_600_000;
/** Their lengths in ms. @type {Record<string, number>} */
const LENGTHS = { "1h": HOUR, "1d": 24 * HOUR, "7d": 168 * HOUR, "60d": 1440 * HOUR };
/** Changes soon after the time that one looks at are shown too, in ms. */
const AFTER = HOUR / 4;
/** What the service filters by. */
const FILTERS = [
  "host",
  "vm",
  "tenant",
  "scope",
  "operation",
  "event",
  "actor",
  "what",
  "rack",
  "cluster",
];

/** Places of hosts, which the entries do not have. */
const PLACES = ["rack", "cluster"];

let found = changes({}, STEP);
let path = "";

const isAll = () => asked("all") === "yes" || Boolean(asked("what"));

/** Whether an entry of the stream matches the filters. @param {any} entry */
const isMine = (entry) =>
  !(time.at(entry.at) > askedAt() + AFTER) &&
  ["host", "vm", "tenant", "scope"].every((kind) => isAbout(entry, kind, asked(kind))) &&
  isAbout(entry, "event", asked("event").toUpperCase()) &&
  ["operation", "request"].some((kind) => isAbout(entry, kind, asked("operation"))) &&
  (!asked("actor") || asked("actor") === entry.actor) &&
  entry.what.startsWith(asked("what"));

const isAbout = (
  /** @type {any} */ entry,
  /** @type {string} */ kind,
  /** @type {string} */ name,
) => !name || about(kind, name)(entry);

function list() {
  /** @type {Record<string, string>} */
  const query = { since: asked("since") || "1d" };
  const at = askedAt();
  if (!Number.isNaN(at)) {
    query["since"] = addressOf(at - (LENGTHS[query["since"] ?? ""] ?? HOUR));
    query["until"] = addressOf(at + AFTER);
  }
  for (const name of FILTERS) if (asked(name)) query[name] = asked(name);
  if (!isAll()) query["main"] = "true";
  const next = new URLSearchParams(query).toString();
  if (next !== path) {
    path = next;
    found = changes(query, STEP, PLACES.some((name) => asked(name)) ? null : isMine);
  }
  return found;
}

/** @param {Event} event */
function submit(event) {
  event.preventDefault();
  const data = new FormData(/** @type {HTMLFormElement} */ (event.target));
  look(
    Object.fromEntries(
      ["host", "vm", "tenant", "actor"].map((name) => [name, String(data.get(name) ?? "").trim()]),
    ),
  );
}

const field = (/** @type {string} */ name, /** @type {string} */ label) =>
  html`<label class="field"
    >${label} <input name=${name} .value=${asked(name)} spellcheck="false" autocomplete="off"
  /></label>`;

/** What is shown of the list, and how far it has been searched. */
function lines() {
  const { rows } = hold("history-lines", list().entries(), (each) => each.id, path);
  const { next } = list().list.value;
  return html`${newer("history-lines")}${
    rows.length
      ? html`<div class="wide-feed" id="history-lines">${wholeFeed(rows)}</div>`
      : next
        ? nothing
        : noMatch()
  }${next ? further() : nothing}`;
}

const noMatch = () =>
  empty(
    "No change matches",
    html`${
        isAll()
          ? nothing
          : html`<button @click=${() => look({ all: "yes" })}>Show all changes</button> `
      }<button
        @click=${() =>
          look({ ...Object.fromEntries(FILTERS.map((name) => [name, ""])), since: "60d" })}
      >
        Clear the filters
      </button>`,
  );

/** Where the search of the service has ended, and how it goes on. */
function further() {
  const { list: read } = list();
  return html`<div class="in acts">
    <span role="status"
      >${read.value.items.length ? "Searched" : "No change matches so far. Searched"} back to
      ${moment(time.at(read.value.answer.searched_to))}.</span
    >
    <button ?disabled=${read.isBusy()} @click=${read.more}>
      ${read.isBusy() ? "Searching…" : "Search further"}
    </button>
  </div>`;
}

function view() {
  const others = FILTERS.filter(
    (name) => !["host", "vm", "tenant", "actor"].includes(name) && asked(name),
  );
  return html`<h1 class="vh">History</h1>
    <section class="card" aria-labelledby="hist">
      <header>
        <h2 id="hist">History</h2>
        <div class="seg" role="group" aria-label="Since">
          ${SPANS.map(
            ([since, word]) =>
              html`<button
                aria-pressed=${(asked("since") || "1d") === since ? "true" : "false"}
                @click=${() => look({ since })}
              >
                ${word}
              </button>`,
          )}
        </div>
        ${atField()}
        <div class="seg" role="group" aria-label="Changes">
          <button aria-pressed=${asked("all") ? "false" : "true"} @click=${() => look({ all: "" })}>
            main</button
          ><button
            aria-pressed=${asked("all") ? "true" : "false"}
            @click=${() => look({ all: "yes" })}
          >
            all
          </button>
        </div>
      </header>
      <form class="in fields" role="search" aria-label="Changes" @submit=${submit}>
        ${state.session?.tenant ? nothing : field("host", "Host")}${field("vm", "VM")}${
          state.session?.tenant ? nothing : field("tenant", "Tenant")
        }${field("actor", "Who")}<button>Find</button>
        ${others.map(
          (name) =>
            html`<button
              type="button"
              class="small"
              title="Remove this filter"
              @click=${() => look({ [name]: "" })}
            >
              ${name}: ${asked(name)} ✕
            </button>`,
        )}
      </form>
      ${loaded(list().list, lines)}
    </section>`;
}

/** @type {import("../pages.js").Page} */
export const page = { title: () => "History", view, uses: () => [list().list] };
