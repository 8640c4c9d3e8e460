// Now: what needs a person, the worst first, and what runs.

import { html, nothing } from "../lit.js";
import { all, changed, resource, state } from "../store.js";
import {
  address,
  bar,
  campaignAddress,
  campaignPill,
  empty,
  errorNote,
  feed,
  loaded,
  loading,
  mayOrder,
} from "../parts.js";
import { hold } from "../hold.js";
import { count, number } from "../text.js";
import * as time from "../time.js";
import { etaOf, etas } from "./campaign_etas.js";
import { down, lookups } from "./now_down.js";
import { every, main } from "./latest.js";
import { held, unknown, waiting } from "./now_lists.js";

const waits = resource("/v1/waits?limit=200", { topics: ["history", "problems"] });
const capacity = resource("/v1/capacity", { topics: ["history", "problems"], pause: 5000 });

const overview = resource("/v1/fleet/overview", { topics: ["history", "problems"], pause: 5000 });
/** Clusters that are shown; the page of hosts has all. */
const CLUSTERS_MAX = 20;

/** Lines of activity. */
const LINES = 14;
const filters = { who: "", what: "main" };
const PARTS = ["driver", "clock", "policy"];

/** @param {any} entry */
function isWanted({ actor }) {
  const kind = PARTS.includes(actor)
    ? actor
    : actor.startsWith("vm ")
      ? "tenants"
      : actor.includes("/")
        ? "tenants"
        : "operators";
  return !filters.who || filters.who === kind;
}

const latest = () => (filters.what === "all" ? every : main);

function activity() {
  const { rows: shown, newer } = hold(
    "act-lines",
    latest().entries().filter(isWanted),
    (each) => each.id,
    `${filters.who}/${filters.what}`,
  );
  const set = (/** @type {"who" | "what"} */ name) => (/** @type {any} */ event) => {
    filters[name] = event.target.value;
    changed({ now: true });
  };
  return html`<section class="card" aria-labelledby="act">
    <header>
      <h2 id="act">Activity</h2>
      ${newer > 0 ? html`<span class="soft">${newer} new</span>` : nothing}<span
        class="grow"
      ></span>
      <select class="small" aria-label="Who" @change=${set("who")}>
        <option value="">everybody</option>
        <option>operators</option>
        <option>tenants</option>
        <option>driver</option>
        <option>clock</option>
      </select>
      <select class="small" aria-label="What" @change=${set("what")}>
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
  const held = each.pauses[0];
  const stage = each.stages.length > 1 ? `stage ${each.stage} of ${each.stages.length} · ` : "";
  const note = each.halted
    ? each.halted.message || each.halted.cause
    : held
      ? html`${held.by}, ${time.when(time.at(held.at))}
        ${held.reason ? html`<q>${held.reason}</q>` : nothing}`
      : [
          `${stage}${each.in_flight} in work`,
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
        ["s-impact", each.in_flight, "in work"],
        ["s-failed", failed, "failed"],
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
        capacity.value
          ? html`<span class="soft"
              >${count(sum("hosts"), "host")}, ${count(sum("used"), "VM")}</span
            >`
          : nothing
      }
    </header>
    ${loaded(capacity, (value) => (named.length ? clusterTable(named, value) : zoneTable(value)))}
  </section>`;
}

const sum = (/** @type {string} */ key) =>
  capacity.value.zones.reduce(
    (/** @type {number} */ all, /** @type {any} */ each) => all + each[key],
    0,
  );

/** @param {any[]} named @param {any} value */
function clusterTable(named, { zones }) {
  const of = (/** @type {any} */ each, /** @type {string} */ state) => each.counts[state] ?? 0;
  return html`<table class="clus">
      <thead>
        <tr>
          <th>Cluster</th>
          <th class="num">Up</th>
          <th class="num">Announced</th>
          <th class="num">Working</th>
          <th class="num hide-n">Cordoned</th>
          <th class="num">Failed</th>
          <th class="num">Down</th>
        </tr>
      </thead>
      <tbody>
        ${named.slice(0, CLUSTERS_MAX).map(
          (each) =>
            html`<tr>
              <th scope="row">
                <a href=${address("hosts", ["q", each.cluster])}>${each.cluster}</a>
              </th>
              <td class="num">${number(each.hosts - of(each, "down"))}</td>
              <td class="num">${of(each, "announced")}</td>
              <td class="num">${of(each, "working")}</td>
              <td class="num hide-n">${of(each, "cordoned")}</td>
              <td class="num ${of(each, "failed") ? "bad b" : ""}">${of(each, "failed")}</td>
              <td class="num ${of(each, "down") ? "bad b" : ""}">${of(each, "down")}</td>
            </tr>`,
        )}
      </tbody>
    </table>
    <p class="in soft free">
      Free slots:
      ${zones.map(
        (/** @type {any} */ each, /** @type {number} */ index) =>
          html`${index ? " · " : ""}zone ${each.zone || "–"}
            <b class=${isShort(each) ? "warn" : ""}
              >${each.unlimited ? "no limit" : number(each.free)}</b
            >${isShort(each) ? ` (next needs ${needs(each)})` : ""}`,
      )}
    </p>`;
}

/** What the next hosts of a zone need. @param {any} zone */
const needs = (zone) =>
  Math.max(
    0,
    ...capacity.value.next_hosts
      .filter((/** @type {any} */ each) => each.zone === zone.zone)
      .map((/** @type {any} */ each) => each.needs),
  );
/** Below twice of what the next host needs, the one after it may find no room. @param {any} zone */
const isShort = (zone) => !zone.unlimited && needs(zone) > 0 && zone.free < 2 * needs(zone);

/** @param {any} value */
const zoneTable = (value) =>
  html`<table class="clus">
    <thead>
      <tr>
        <th>Zone</th>
        <th class="num">Up</th>
        <th class="num">Working</th>
        <th class="num hide-n">Cordoned</th>
        <th class="num">Down</th>
        <th class="num">Free slots</th>
        <th class="num hide-n">Next needs</th>
      </tr>
    </thead>
    <tbody>
      ${value.zones.map(
        (/** @type {any} */ each) =>
          html`<tr>
            <th scope="row">
              <a href=${address("hosts", ["zone", each.zone])}>${each.zone || "–"}</a>
            </th>
            <td class="num">${number(each.hosts - each.down)}</td>
            <td class="num">${each.in_work}</td>
            <td class="num hide-n">${each.cordoned}</td>
            <td class="num ${each.down ? "bad b" : ""}">${each.down}</td>
            <td class="num ${isShort(each) ? "warn b" : ""}">
              ${each.unlimited ? "–" : number(each.free)}
            </td>
            <td class="num hide-n">${needs(each) || "–"}</td>
          </tr>`,
      )}
    </tbody>
  </table>`;

function quiet() {
  const open = all("campaigns").filter((each) => !each.ended);
  const running = open.filter((each) => each.state === "Running").length;
  const hosts = capacity.value
    ? `${count(sum("hosts"), "host")} and ${count(sum("used"), "VM")} are up. `
    : "";
  const campaigns = open.length
    ? `Of ${count(open.length, "open campaign")}, ${running} in progress.`
    : "No campaign runs.";
  const plan = mayOrder("campaigns/plan")
    ? html` <a href=${address("plan")}>Plan a campaign…</a>`
    : nothing;
  return html`<div class="card">
    ${empty("Nothing needs attention", html`${hosts}${campaigns}${plan}`)}
  </div>`;
}

/** @param {string[]} _ */
function view(_) {
  const problems = all("problems");
  const lists = [
    down(problems, capacity.value),
    unknown(problems),
    waiting(waits),
    held(problems, waits.value?.held ?? []),
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
