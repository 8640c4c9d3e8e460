// Now: what needs a person, the worst first, and what runs.

import { html, nothing } from "../lit.js";
import { all, changed, heardAt, resource, state } from "../store.js";
import {
  address,
  bar,
  campaignAddress,
  campaignPill,
  empty,
  errorNote,
  loaded,
  loading,
  mayOrder,
} from "../parts.js";
import { feed } from "../feed.js";
import { hold, newer } from "../hold.js";
import { isShort, needs } from "../room.js";
import { count, number } from "../text.js";
import * as time from "../time.js";
import { etaOf, etas, runningOf } from "./campaign_etas.js";
import { down, lookups } from "./now_down.js";
import { every, main } from "./latest.js";
import { failed, held, unknown, waiting } from "./now_lists.js";

const waits = resource("/v1/waits?limit=200", { topics: ["history", "problems"] });
const capacity = resource("/v1/capacity", { topics: ["history", "problems"], pause: 5000 });

const overview = resource("/v1/fleet/overview", { topics: ["history", "problems"], pause: 5000 });
/** Clusters that are shown; the page of hosts has all. */
const CLUSTERS_MAX = 20;

/** Lines of activity. */
const LINES = 14;
const filters = { who: "", which: "main" };
/** The kinds of actors that each choice shows. @type {Record<string, string[]>} */
const KINDS_OF = {
  operators: ["operator"],
  tenants: ["tenant", "vm"],
  driver: ["driver"],
  clock: ["clock"],
};

/** @param {any} entry */
const isWanted = (entry) => !filters.who || KINDS_OF[filters.who]?.includes(entry.actor_kind);

const latest = () => (filters.which === "all" ? every : main);

function activity() {
  const { rows: shown } = hold(
    "act-lines",
    latest().entries().filter(isWanted),
    (each) => each.id,
    `${filters.who}/${filters.which}`,
  );
  const set = (/** @type {"who" | "which"} */ name) => (/** @type {any} */ event) => {
    filters[name] = event.target.value;
    changed({ now: true });
  };
  return html`<section class="card" aria-labelledby="act">
    <header>
      <h2 id="act">Activity</h2>
      ${newer("act-lines")}<span class="grow"></span>
      <select class="small" aria-label="Who" @change=${set("who")}>
        <option value="">everybody</option>
        <option>operators</option>
        <option>tenants</option>
        <option>driver</option>
        <option>clock</option>
      </select>
      <select class="small" aria-label="What" @change=${set("which")}>
        <option value="main">main changes</option>
        <option value="all">all changes</option>
      </select>
    </header>
    ${
      latest().list.value === undefined && !latest().list.error
        ? loading
        : shown.length
          ? html`<div id="act-lines">${feed(shown, LINES)}</div>`
          : latest().entries().length
            ? empty("None of the latest changes", "The whole history may have earlier ones.")
            : empty("Nothing has happened", "Changes appear here at once.")
    }
    <div class="in"><a href=${address("history")}>Whole history</a></div>
  </section>`;
}

/** @param {any} each */
export function campaignCard(each) {
  const failed = each.failed.length;
  const running = Math.min(each.in_flight, runningOf(each.campaign));
  const announced = each.in_flight - running;
  const held = each.pauses[0];
  const stage = each.stages.length > 1 ? `stage ${each.stage} of ${each.stages.length} · ` : "";
  const note = each.halted
    ? each.halted.message || each.halted.cause
    : held
      ? html`${held.by}, ${time.when(time.at(held.at))}
        ${held.reason ? html`<q>${held.reason}</q>` : nothing}`
      : [
          `${stage}${running} in work`,
          ...(announced ? [`${announced} announced`] : []),
          ...(failed ? [`${failed} failed`] : []),
          ...(each.skipped ? [`${each.skipped} skipped`] : []),
        ].join(" · ");
  const eta = etaOf(each.campaign);
  const right = each.ended
    ? `ended ${time.when(time.at(each.ended))}`
    : each.halted
      ? `halted ${time.when(time.at(each.halted.at))}`
      : eta
        ? `ETA ${time.when(time.at(eta))}`
        : `since ${time.when(time.at(each.created))}`;
  return html`<div class="camp">
    <div class="r">
      <a class="b" href=${campaignAddress(each.campaign)}>${each.name}</a>${campaignPill(each)}<span
        class="grow"
      ></span
      ><span><b>${number(each.done)}</b> of ${number(each.hosts)}</span>
    </div>
    ${bar(
      [
        ["s-done", each.done, "done"],
        ["s-impact", running, "in work"],
        ["s-failed", failed, "failed"],
        ["s-noticed", announced, "announced"],
      ],
      each.hosts,
    )}
    <div class="r soft">
      <span>${note}</span><span class="grow"></span><span class="nw">${right}</span>
    </div>
  </div>`;
}

function campaigns() {
  const open = all("campaigns").filter((each) => !each.ended);
  return html`<section class="card" aria-labelledby="camps">
    <header>
      <h2 id="camps">Campaigns</h2>
      <span class="grow"></span><a href=${address("campaigns")}>all</a>
    </header>
    ${
      open.length
        ? open.map(campaignCard)
        : state.isReady
          ? empty(
              "No campaign runs",
              html`A campaign says what is done to which hosts, and when:
                <p><code>forewarn campaign plan bios.toml</code></p>`,
            )
          : loading
    }
  </section>`;
}

function clusters() {
  const named = (overview.value?.clusters ?? []).filter((/** @type {any} */ each) => each.cluster);
  return html`<section class="card" aria-labelledby="clus">
    <header>
      <h2 id="clus">${named.length ? "Clusters" : "Zones"}</h2>
      <span class="grow"></span>${
        overview.value ? html`<span class="soft">${hostsAndVms(", ")}</span>` : nothing
      }
    </header>
    ${loaded(capacity, (value) =>
      named.length
        ? siteTable("Cluster", clusterSites(named, value), value)
        : siteTable("Zone", zoneSites(value), value),
    )}
  </section>`;
}

/** The hosts and VMs of the fleet. @param {string} and What is between them. */
const hostsAndVms = (and) =>
  count(overview.value.hosts, "host") + and + count(overview.value.vms, "VM");

/**
 * A cluster or zone with its hosts by state.
 * @typedef {object} Site
 * @property {string} name
 * @property {[string, string]} query What its page of hosts asks for.
 * @property {number} up
 * @property {number} working
 * @property {number} cordoned
 * @property {number} [failed] Undefined: the service does not count them by zone.
 * @property {number} down
 * @property {any} room Its capacity; undefined: unknown.
 */

/** @param {any[]} named @param {any} value @returns {Site[]} */
function clusterSites(named, value) {
  const rooms = new Map(value.clusters.map((/** @type {any} */ each) => [each.cluster, each]));
  return named.slice(0, CLUSTERS_MAX).map(({ cluster, hosts, counts }) => {
    const { working = 0, cordoned = 0, failed = 0, down = 0 } = counts;
    const room = rooms.get(cluster);
    const up = hosts - down;
    return { name: cluster, query: ["q", cluster], up, working, cordoned, failed, down, room };
  });
}

/** @param {any} value @returns {Site[]} */
const zoneSites = (value) =>
  value.zones.map((/** @type {any} */ each) => ({
    name: each.zone || "–",
    query: ["zone", each.zone],
    up: each.hosts - each.down,
    working: each.in_work,
    cordoned: each.cordoned,
    down: each.down,
    room: each,
  }));

/** @param {string} title @param {Site[]} sites @param {any} value */
function siteTable(title, sites, value) {
  const hasFailed = sites.some((each) => each.failed !== undefined);
  const bad = (/** @type {number} */ hosts) =>
    html`<td class="num ${hosts ? "bad b" : ""}">${number(hosts)}</td>`;
  return html`<table class="clus">
    <thead>
      <tr>
        <th>${title}</th>
        <th class="num">Up</th>
        <th class="num">Working</th>
        <th class="num hide-n">Cordoned</th>
        ${hasFailed ? html`<th class="num">Failed</th>` : nothing}
        <th class="num">Down</th>
        <th class="num">Free slots</th>
        <th class="num hide-n">Next needs</th>
      </tr>
    </thead>
    <tbody>
      ${sites.map(
        ({ name, query, up, working, cordoned, failed, down, room }) =>
          html`<tr>
            <th scope="row"><a href=${address("hosts", query)}>${name}</a></th>
            <td class="num">${number(up)}</td>
            <td class="num">${number(working)}</td>
            <td class="num hide-n">${number(cordoned)}</td>
            ${hasFailed ? bad(failed ?? 0) : nothing}${bad(down)}
            <td class="num ${room && isShort(value, room) ? "warn b" : ""}">
              ${!room || room.unlimited ? "–" : number(room.free)}
            </td>
            <td class="num hide-n">${(room && needs(value, room)) || "–"}</td>
          </tr>`,
      )}
    </tbody>
  </table>`;
}

function quiet() {
  const open = all("campaigns").filter((each) => !each.ended);
  const running = open.filter((each) => each.state === "Running").length;
  // Without a stream, nobody knows what has happened since.
  const isOld = state.link.mode === "stale";
  const hosts = overview.value ? `${hostsAndVms(" and ")} ${isOld ? "were" : "are"} up. ` : "";
  const campaigns = open.length
    ? `Of ${count(open.length, "open campaign")}, ${running} in progress.`
    : "No campaign runs.";
  const plan = mayOrder("campaigns/plan")
    ? html` <a href=${address("plan")}>Plan a campaign…</a>`
    : nothing;
  return html`<div class="card">
    ${empty(
      isOld ? `Nothing needed attention at ${time.second(heardAt())}` : "Nothing needs attention",
      html`${hosts}${campaigns}${plan}`,
    )}
  </div>`;
}

/** @param {string[]} _ */
function view(_) {
  const problems = all("problems");
  const lists = [
    down(problems, capacity.value),
    unknown(problems),
    failed(problems),
    waiting(waits),
    held(
      // The table of approvals has them.
      problems.filter((each) => each.kind !== "approval-late" || !waits.value?.waits.length),
      waits.value?.held ?? [],
    ),
  ].filter(Boolean);
  const isCalm = state.isReady && waits.value && !lists.length;
  return html`<h1 class="vh">Now</h1>
    <div class="cols">
      <div class="stack">
        ${state.isReady ? lists : html`<div class="card">${loading}</div>`}
        ${waits.error ? errorNote(waits.error) : nothing}${isCalm ? quiet() : nothing}
      </div>
      <div class="stack">${campaigns()}${clusters()}${activity()}</div>
    </div>`;
}

/** @type {import("../pages.js").Page} */
export const page = {
  title: () => "Now",
  view,
  uses: () => [waits, capacity, overview, latest().list, ...etas(all("campaigns")), ...lookups()],
};
