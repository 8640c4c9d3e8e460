// The history: who did what, when and why. The filters are in the address.

import { html, nothing } from "../lit.js";
import { newest } from "../api.js";
import { resource, state } from "../store.js";
import { empty, feed, isMain, loaded } from "../parts.js";
import { hold } from "../hold.js";
import { asked, look } from "../query.js";

const LINES = 400;
/** @type {[string, string][]} */
const SPANS = [
  ["1h", "1 hour"],
  ["1d", "1 day"],
  ["7d", "7 days"],
  ["60d", "60 days"],
];
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

/** @type {import("../store.js").Resource | null} */
let found = null;
let path = "";

function entries() {
  const query = new URLSearchParams();
  for (const name of FILTERS) if (asked(name)) query.set(name, asked(name));
  query.set("since", asked("since") || "1d");
  const isAll = asked("all") === "yes" || Boolean(asked("what"));
  const next = `${query}&all=${isAll}`;
  if (next !== path || !found) {
    path = next;
    found = resource(() => newest(query.toString(), LINES + 1, (each) => isAll || isMain(each)), {
      pause: 5000,
    });
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

function view() {
  const isAll = asked("all") === "yes";
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
        <div class="seg" role="group" aria-label="Changes">
          <button aria-pressed=${isAll ? "false" : "true"} @click=${() => look({ all: "" })}>
            main</button
          ><button aria-pressed=${isAll ? "true" : "false"} @click=${() => look({ all: "yes" })}>
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
      ${loaded(entries(), (all) => {
        const { rows: shown, newer } = hold(
          "history-lines",
          all.filter((/** @type {any} */ each) => isAll || asked("what") || isMain(each)),
          (each) => each.id,
          path,
        );
        return shown.length
          ? html`${newer ? html`<p class="in soft">${newer} new</p>` : nothing}
              <div class="wide-feed" id="history-lines">${feed(shown, LINES)}</div>
              ${
                shown.length > LINES
                  ? html`<p class="in soft">
                      The latest ${LINES} lines. Choose a shorter time, or filter, to see earlier
                      ones.
                    </p>`
                  : nothing
              }`
          : empty(
              "No change matches",
              html`${
                  isAll
                    ? nothing
                    : html`<button @click=${() => look({ all: "yes" })}>Show all changes</button> `
                }<button
                  @click=${() =>
                    look({
                      ...Object.fromEntries(FILTERS.map((name) => [name, ""])),
                      since: "60d",
                    })}
                >
                  Clear the filters
                </button>`,
            );
      })}
    </section>`;
}

/** @type {import("../pages.js").Page} */
export const page = { title: () => "History", view, uses: () => [entries()] };
