// The page of a tenant: what happens to its VMs, whether it must act, and until when. All of
// it is what the tenant's token reads; nothing of others is known here.

import { html, nothing } from "../lit.js";
import { all, resource, state } from "../store.js";
import { feed } from "../feed.js";
import { address, empty, loaded, loading, mayOrder, moment } from "../parts.js";
import { downVms } from "../needs.js";
import * as orders from "../own_orders.js";
import { count } from "../text.js";
import * as time from "../time.js";
import { main } from "./latest.js";
import { availability, scopes } from "./availability.js";
import { banner, cards, waiting } from "./tenant_cards.js";
import { ownVms, past, vms } from "./tenant_vms.js";
import { windows, windowsCard } from "./tenant_windows.js";

const SCOPES_MAX = 8;
const LINES = 10;
const deferrals = resource("/v1/tenant/deferrals", { topics: ["history"], pause: 5000 });

function quiet() {
  const known = vms.value ? `${count(vms.value.items.length, "VM")}. ` : "";
  return html`<div class="card">
    ${empty(
      "Nothing is planned for your VMs",
      `${known}A notice appears here at once, with a countdown and what you can do.`,
    )}
  </div>`;
}

function choices() {
  const found = (deferrals.value?.deferrals ?? []).filter((/** @type {any} */ each) => !each.over);
  if (!found.length) return nothing;
  return html`<section class="card" aria-labelledby="chosen">
    <header><h2 id="chosen">Your choices</h2></header>
    ${found.map(
      (/** @type {any} */ each) =>
        html`<div class="in choice">
          <div>
            <b>${each.vm ?? each.scope}</b>
            ${
              each.expedited
                ? "is expedited"
                : html`is deferred until ${moment(time.at(each.until))}`
            }
            <span class="soft">${each.by}</span> <q class="soft">${each.reason}</q>
          </div>
          ${
            mayOrder("defer") && !each.expedited
              ? html`<button class="small" @click=${() => orders.clear(each.vm ?? each.scope)}>
                  Clear…
                </button>`
              : nothing
          }
        </div>`,
    )}
  </section>`;
}

function activity() {
  const found = main.entries();
  return html`<section class="card" aria-labelledby="h">
    <header>
      <h2 id="h">Recent activity</h2>
      <span class="grow"></span><a href=${address("history", ["since", "60d"])}>all</a>
    </header>
    ${
      main.list.value === undefined && !main.list.error
        ? loading
        : found.length
          ? feed(found, LINES)
          : empty("Nothing has happened", "Changes appear here at once.")
    }
  </section>`;
}

function view() {
  const isCalm =
    state.isReady && !all("events").length && !all("upcoming").length && !downVms().length;
  return html`<h1 class="vh">VMs of tenant ${state.session?.tenant}</h1>
    ${banner()}
    <div class="cols ${downVms().length ? "gap" : ""}">
      <div class="stack">
        ${
          state.isReady ? (isCalm ? quiet() : cards()) : html`<div class="card">${loading}</div>`
        }${ownVms()}
      </div>
      <div class="stack">
        ${choices()}${windowsCard()}
        <section class="card" aria-labelledby="a">
          <header>
            <h2 id="a">Availability, 7 days</h2>
            <span class="grow"></span><a href=${address("availability")}>by VM</a>
          </header>
          ${loaded(availability("7d"), (value) => scopes(value, "7d", SCOPES_MAX))}
        </section>
        ${activity()}
      </div>
    </div>`;
}

/** @param {string[]} _ */
function title(_) {
  const open = waiting();
  const down = downVms();
  const affected = new Set(open.flatMap((each) => each.vms)).size;
  const tenant = state.session?.tenant ?? "";
  if (down.length)
    return `(${down.length + open.length}) ${tenant}: ${count(down.length, "VM")} down`;
  if (affected)
    return (
      `(${open.length}) ${tenant}: ${count(affected, "VM")} ` +
      `${affected === 1 ? "needs" : "need"} an approval`
    );
  return `${tenant}: VMs`;
}

/** @type {import("../pages.js").Page} */
export const page = {
  title,
  view,
  uses: () => [vms, past(), availability("7d"), deferrals, windows, main.list],
};
