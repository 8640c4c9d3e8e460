// The hosts, found by the beginning of a name.

import { html, nothing, repeat } from "../lit.js";
import { Refused, get } from "../api.js";
import { search as findAll } from "../search.js";
import { latest, resource } from "../store.js";
import { downNames } from "../needs.js";
import { empty, hostLink, loaded } from "../parts.js";
import { foundTable, moreNote } from "./found.js";
import { about, side } from "./host_side.js";
import { asked, look } from "../query.js";
import { count, some } from "../text.js";

/** Rows that are shown, and hosts that one request reads. */
const ROWS_MAX = 300;
/** VMs that the row of a host names. */
const VMS_NAMED = 5;
/** The sums of the fleet, and the names of its clusters and racks. */
const overview = resource("/v1/fleet/overview", { topics: ["history", "problems"], pause: 5000 });

/** @param {string} query @returns {Promise<any>} Some hosts, and whatever follows them. */
const hostsOf = (query) => get(`/v1/fleet?${query}&limit=${ROWS_MAX}`);

/**
 * @param {string} text
 * @param {any[]} clusters
 * @returns {string[]} The selectors of a cluster and a rack with this name.
 */
function placesOf(text, clusters) {
  const isRack = clusters.some((each) =>
    each.racks.some((/** @type {any} */ rack) => rack[0] === text),
  );
  return [
    clusters.some((each) => each.cluster === text) ? "cluster" : "",
    isRack ? "rack" : "",
  ].filter(Boolean);
}

/** A place can be removed after the overview was read. @param {unknown} error */
function noneIfGone(error) {
  if (error instanceof Refused && error.status === 404) return { hosts: [], next: null };
  throw error;
}

/**
 * The hosts and VMs whose names begin with a text, and the hosts of such a cluster or rack.
 * The service searches, so the work is the same in every fleet.
 * @param {string} text
 * @param {string} zone Without a text: only the hosts of this zone.
 */
async function search(text, zone) {
  const part = encodeURIComponent(text);
  if (!text) {
    const page = await hostsOf(`${zone ? `zone=${encodeURIComponent(zone)}&` : ""}after=hosts:`);
    return {
      hosts: page.hosts,
      vms: [],
      isCut: false,
      more: page.next?.startsWith("hosts:") ?? false,
    };
  }
  const { clusters } = overview.value ?? (await get("/v1/fleet/overview"));
  const places = placesOf(text, clusters);
  const { found, more: isCut } = await findAll(text);
  const names = found.filter((each) => each.kind === "host").map((each) => each.name);
  const pages = await Promise.all([
    ...(names.includes(text) ? [hostsOf(`host=${part}`)] : []),
    ...(names.some((each) => each !== text) ? [hostsOf(`after=hosts:${part}`)] : []),
    ...places.map((kind) => hostsOf(`${kind}=${part}&after=hosts:`).catch(noneIfGone)),
  ]);
  /** @type {Map<string, any>} */
  const hosts = new Map();
  let more = false;
  for (const page of pages) {
    for (const each of page.hosts)
      if (each.name.startsWith(text) || places.some((kind) => each[kind] === text))
        hosts.set(each.name, each);
    more ||= Boolean(page.next?.startsWith("hosts:")) && hosts.has(page.hosts.at(-1)?.name);
  }
  const vms = found.filter((each) => each.kind === "vm");
  return { hosts: [...hosts.values()], vms, more, isCut };
}

const resultOf = latest((/** @type {string} */ text, /** @type {string} */ zone) =>
  resource(() => search(text, zone), { topics: ["history", "problems"] }),
);
const result = () => resultOf(asked("q"), asked("zone"));

/**
 * The states of hosts in work by name, which the overview has for up to 1,000 hosts.
 * @returns {Map<string, string>}
 */
const inWork = () =>
  new Map(
    (overview.value?.clusters ?? [])
      .flatMap((/** @type {any} */ each) => each.squares)
      .filter((/** @type {any} */ [, , state]) => ["announced", "working"].includes(state))
      .map((/** @type {any} */ [, name, state]) => [name, state]),
  );

/** Who has cordoned a host, and why. @param {any} host */
const whyOf = ({ cordons }) =>
  cordons.length
    ? html`${cordons
          .map((/** @type {any} */ { by, reason }) => (reason ? `${by}: ${reason}` : by))
          .join("; ")}<br />`
    : nothing;

/** @param {any} host @param {Set<string>} isDown @param {Map<string, string>} works */
function row(host, isDown, works) {
  const down = host.vms.filter((/** @type {string} */ each) => isDown.has(each)).length;
  return html`<tr aria-selected=${asked("host") === host.name ? "true" : nothing}>
    <th scope="row" class="mono">${hostLink(host.name)}</th>
    <td data-l="cluster">${host.cluster ?? ""}</td>
    <td data-l="rack">${host.rack ?? ""}</td>
    <td data-l="zone">${host.zone}</td>
    <td class="num" data-l="VMs">
      ${host.vms.length}${
        host.capacity >= 0 && host.capacity !== null ? ` of ${host.capacity}` : ""
      }
    </td>
    <td class="num" data-l="down">${down ? html`<b class="bad">${down}</b>` : ""}</td>
    <td>
      ${
        host.state === "down"
          ? html`<b class="bad">✕ down</b>`
          : host.failed
            ? html`<b class="bad">✕ failed</b>`
            : host.cordons.length
              ? html`<b class="warn">cordoned</b
                  >${works.has(host.name) ? `, ${works.get(host.name)}` : ""}`
              : (works.get(host.name) ?? host.state)
      }
    </td>
    <td class="names">${whyOf(host)}<span class="mono soft">${some(host.vms, VMS_NAMED)}</span></td>
  </tr>`;
}

/** @param {any} value */
function table({ hosts, vms, more, isCut }) {
  const text = asked("q");
  const isDown = downNames();
  const works = inWork();
  if (!hosts.length && !vms.length)
    return empty(
      text ? `No name begins with “${text}”` : "There is no host",
      text
        ? html`<button class="quiet" @click=${() => look({ q: "" })}>Show all hosts</button>`
        : "Apply a fleet file.",
    );
  return html`${
    vms.length
      ? html`${foundTable(vms, ["tenant", "scope", "host"])}${moreNote(isCut, vms.length, "VMs")}`
      : nothing
  }
  ${
    hosts.length
      ? html`<table class="flow snug">
          <thead>
            <tr>
              <th>Host</th>
              <th>Cluster</th>
              <th>Rack</th>
              <th>Zone</th>
              <th class="num">VMs</th>
              <th class="num">Down</th>
              <th>State</th>
              <th class="names">Its VMs, and why it is cordoned</th>
            </tr>
          </thead>
          <tbody>
            ${repeat(
              hosts.slice(0, ROWS_MAX),
              (/** @type {any} */ each) => each.name,
              (each) => row(each, isDown, works),
            )}
          </tbody>
        </table>`
      : nothing
  }
  ${
    more || hosts.length > ROWS_MAX
      ? html`<p class="in soft">
          The first ${ROWS_MAX} hosts are shown. Find others by the beginning of their names, or by
          cluster or rack.
        </p>`
      : nothing
  }`;
}

/** @param {Event} event */
function find(event) {
  event.preventDefault();
  look({
    q: String(new FormData(/** @type {HTMLFormElement} */ (event.target)).get("q") ?? "").trim(),
  });
}

function view() {
  const host = asked("host");
  const sums = overview.value;
  return html`<h1 class="vh">Hosts</h1>
    <div class="two ${host ? "" : "alone"}">
      <div>
        <section class="card" aria-labelledby="hosts">
          <header>
            <h2 id="hosts">Hosts</h2>
            <form class="acts" role="search" aria-label="Hosts" @submit=${find}>
              <input
                type="search"
                name="q"
                .value=${asked("q")}
                placeholder="host, VM, rack, cluster"
                aria-label="Host, VM, rack or cluster"
                autocomplete="off"
              /><button class="small">Find</button>${
                asked("zone") && !asked("q")
                  ? html`<button
                      type="button"
                      class="small"
                      title="Show all zones"
                      @click=${() => look({ zone: "" })}
                    >
                      zone ${asked("zone")} ✕
                    </button>`
                  : nothing
              }
            </form>
            <span class="grow"></span>${
              sums
                ? html`<span class="soft"
                    >${count(sums.hosts, "host")}, ${count(sums.vms, "VM")}</span
                  >`
                : nothing
            }
          </header>
          ${loaded(result(), table)}
        </section>
      </div>
      ${host ? side(host) : nothing}
    </div>`;
}

/** @type {import("../pages.js").Page} */
export const page = {
  title: () => asked("host") || "Hosts",
  view,
  uses: () => [overview, result(), ...(asked("host") ? about(asked("host")) : [])],
};
