// All that is known of one host: why it waits, its open work, its VMs, and what happened to it.

import { html, nothing } from "../lit.js";
import { about as isAbout, changes } from "../changes.js";
import { all, latest, resource } from "../store.js";
import { feed } from "../feed.js";
import {
  address,
  campaignAddress,
  errorNote,
  loading,
  marked,
  mayOrder,
  moment,
  pill,
} from "../parts.js";
import { look } from "../query.js";
import * as hostOrders from "../host_orders.js";
import * as orders from "../orders.js";
import * as remedies from "../remedies.js";
import { capital, count } from "../text.js";
import * as time from "../time.js";
import { problemRow } from "./problem_row.js";

const HISTORY_LINES = 25;
/** Main changes that are read: several can be one line. */
const HISTORY_READ = 100;

/** What is read of the host that one looks at. */
const readOf = latest((/** @type {string} */ name) => {
  const host = encodeURIComponent(name);
  const past = changes({ host: name, main: "true" }, HISTORY_READ, isAbout("host", name));
  const lists = [
    resource(`/v1/explain/${host}?kind=host`, { pause: 2000 }),
    resource(`/v1/operations?host=${host}&limit=50`, { pause: 2000 }),
    resource(`/v1/fleet?host=${host}`, { topics: ["problems", "history"], pause: 3000 }),
    past.list,
  ];
  return { lists, past };
});

/** @param {string} name Explanation, open work, VMs and history of a host. */
export const about = (name) => readOf(name).lists;

/** @param {any} operation @param {any[]} explained What the service says about open work. */
const work = (operation, explained) =>
  html`<div class="in head case">
    <div class="tell">
      <b>${capital(operation.kind)}</b> (${operation.impact}) of ${operation.target}:
      ${pill(operation.state === "Ready" ? "wait" : "run", operation.state)}
      <span class="soft"
        >${
          operation.started
            ? html`since ${moment(time.at(operation.started))}`
            : html`from ${moment(time.at(operation.not_before))},
              ${time.until(time.at(operation.not_before))}`
        }
        · <span class="mono">${operation.operation}</span></span
      >
      ${explained
        .filter((each) => each.operation === operation.operation)
        .map((each) => html`<p>${marked(each.status)}</p>`)}
    </div>
    <span class="grow"></span>
    ${
      mayOrder("cancel") && !operation.started
        ? html`<div class="acts">
            <button @click=${() => orders.cancel(operation.operation, operation.target)}>
              Cancel…
            </button>
          </div>`
        : nothing
    }
  </div>`;

/** Between the sentences of an explanation. */
const JOINT = "; ";

/** What holds of a host, a sentence a line. @param {string} text */
function sentences(text) {
  const [first = "", ...others] = text.split(JOINT);
  return html`<p>${marked(first)}</p>
    ${
      others.length
        ? html`<ul class="why">
            ${others.map((each) => html`<li>${marked(each)}</li>`)}
          </ul>`
        : nothing
    }`;
}

/**
 * A problem that the host is part of, and what can end it for this host.
 * @param {any} problem
 * @param {string} host
 */
const trouble = (problem, host) =>
  problemRow({ ...problem, hosts: [host] }, (campaign) =>
    campaign
      ? html`<a class="btn" href=${campaignAddress(campaign.campaign, host)}>Show in campaign</a>`
      : nothing,
  );

/** @param {string} name */
export function side(name) {
  const { lists, past } = readOf(name);
  const [explained, operations, fleet] = lists;
  const found = explained?.value;
  const host = fleet?.value?.hosts[0];
  const vms = fleet?.value?.vms ?? [];
  const open = operations?.value?.operations ?? [];
  const campaign = open.find((/** @type {any} */ each) => each.rollout)?.rollout;
  const isCordoned = Boolean(host?.cordons.length);
  const isTold = all("problems").some(
    (each) => each.kind === "vm-down" && each.hosts.includes(name),
  );
  return html`<aside class="card drawer" aria-labelledby="hh" tabindex="-1">
    <header>
      <div>
        <h2 id="hh">${name}</h2>
        <span class="soft"
          >${found ? found.state : ""}${
            host ? ` · zone ${host.zone}${host.rack ? ` · rack ${host.rack}` : ""}` : ""
          }
          · ${count(vms.length, "VM")}</span
        >
      </div>
      <span class="grow"></span
      ><button class="quiet" aria-label="Close" @click=${() => look({ host: "" })}>✕</button>
    </header>
    ${
      explained?.error
        ? html`<div class="in">${errorNote(explained.error)}</div>`
        : found
          ? html`<div class="in">
              ${sentences(found.status || found.what)}
              ${
                found.blockers.length
                  ? html`<h3>Why it is waiting</h3>
                      <ul class="why">
                        ${found.blockers.map(
                          (/** @type {any} */ each) => html`<li>${marked(each.text)}</li>`,
                        )}
                      </ul>`
                  : nothing
              }
            </div>`
          : loading
    }
    ${all("problems")
      .filter((each) => each.hosts.includes(name))
      .map((each) => trouble(each, name))}
    ${open.map((/** @type {any} */ each) => work(each, found?.operations ?? []))}${
      campaign
        ? html`<div class="in">
            <a href=${campaignAddress(campaign, name)}>Show it in the timeline</a>
          </div>`
        : nothing
    }
    ${
      vms.length
        ? html`<div class="in">
            <h3>VMs</h3>
            <table class="tight">
              <tbody>
                ${vms.map(
                  (/** @type {any} */ each) =>
                    html`<tr>
                      <th class="mono" scope="row">${each.name}</th>
                      <td class="soft">${each.tenant ?? ""}</td>
                      <td class="soft">${each.scope}</td>
                      <td>
                        ${each.state === "down" ? html`<b class="bad">✕ down</b>` : each.state}
                      </td>
                    </tr>`,
                )}
              </tbody>
            </table>
          </div>`
        : nothing
    }
    <div class="in">
      <h3>Lately</h3>
      ${past.list.value ? feed(past.entries(), HISTORY_LINES) : nothing}<a
        href=${address("history", ["host", name], ["since", "60d"])}
        >All of its history</a
      >
    </div>
    ${
      host
        ? html`<div class="in acts">
            ${
              !mayOrder(isCordoned ? "host-open" : "host-cordon")
                ? nothing
                : isCordoned
                  ? html`<button @click=${() => hostOrders.open([name])}>Open…</button>`
                  : html`<button @click=${() => hostOrders.cordon([name])}>Cordon…</button>`
            }
            ${
              host.state === "down" && mayOrder("restore") && !isTold
                ? html`<button @click=${() => remedies.restore([name])}>Mark restored…</button>`
                : nothing
            }
          </div>`
        : nothing
    }
  </aside>`;
}
