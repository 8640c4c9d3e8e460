// The drawer of a host: its step, why it waits, its VMs, what the driver said, and what can
// be done about it now.

import { html, nothing } from "./lit.js";
import { errorNote, loading, marked, mayOrder, moment, pill } from "./parts.js";
import { address } from "./parts.js";
import * as orders from "./orders.js";
import { changed, resource } from "./store.js";
import { capital, count } from "./text.js";
import * as time from "./time.js";

/** VMs that are shown at first. */
const VMS_MAX = 8;
/** Output is cut here by the service; the page shows the end of it. */
const OUTPUT_CHARACTERS_MAX = 16_384;

/** @type {Map<string, import("./store.js").Resource>} */
const details = new Map();
let allVms = "";
let isWhole = "";

/** @param {string} campaign @param {string} host */
export function detail(campaign, host) {
  const key = `${campaign}/${host}`;
  let found = details.get(key);
  if (!found) {
    // One host is shown at a time.
    details.clear();
    found = resource(
      `/v1/campaigns/${encodeURIComponent(campaign)}/hosts/${encodeURIComponent(host)}`,
      { pause: 2000 },
    );
    details.set(key, found);
  }
  return found;
}

/** @type {Record<string, "run" | "wait" | "err" | "fine" | "idle">} */
const PILLS = {
  planned: "idle",
  announced: "run",
  ready: "wait",
  impacting: "run",
  recovering: "run",
  failed: "err",
  skipped: "idle",
  done: "fine",
};

const PLAIN = ["notice", "impact", "recovery"];
/** @type {Record<string, number>} */
const PLAIN_PLACE = { announced: 0, ready: 0, impacting: 1, recovering: 2, failed: 1, done: 3 };

/** @param {any} host */
function steps(host) {
  const progress = host.progress ? ` ${host.progress.done}/${host.progress.of}` : "";
  const list = host.steps.length
    ? host.steps.map((/** @type {any} */ each) => [
        each.kind,
        // A step that is repeated has the outcome of before.
        each.current && !["announced", "failed"].includes(host.state)
          ? "cur"
          : each.outcome === "failed"
            ? "failed"
            : each.outcome
              ? "past"
              : "",
        each.step,
      ])
    : PLAIN.map((each, index) => [
        each,
        index < (PLAIN_PLACE[host.state] ?? -1)
          ? "past"
          : index === PLAIN_PLACE[host.state]
            ? "cur"
            : "",
        "",
      ]);
  const failed =
    host.state === "failed" &&
    host.steps.findLast((/** @type {any} */ each) => each.outcome === "failed");
  const since = time.at(host.step?.since);
  const usual = host.step && host.usual?.step_seconds[host.step.state];
  return html`<div class="in">
    <ol class="steps">
      ${list.map(
        (/** @type {any[]} */ [kind, form, title]) =>
          html`<li class=${form} title=${title} aria-current=${form === "cur" ? "step" : nothing}>
            ${kind}${form === "cur" ? progress : form === "failed" ? " ✕" : ""}
          </li>`,
      )}
    </ol>
    <p class="soft">
      ${
        failed
          ? html`failed in ${failed.kind} ${moment(time.at(failed.at), time.second)}`
          : host.step
            ? html`${host.step.state.toLowerCase()}${
                Number.isNaN(since)
                  ? ""
                  : html` since ${moment(since, time.minute)}, ${time.roughly(time.now() - since)}`
              }${usual ? `; others took ${time.roughly(usual * 1000)}` : ""}`
            : said(host)
      }
    </p>
  </div>`;
}

/** @param {any} host */
function said(host) {
  if (host.state === "done") return `done ${time.when(time.at(host.segments.at(-1)?.until))}`;
  if (host.forecast) {
    const { from, until } = host.forecast;
    return `expected ${time.when(time.at(from))} – ${time.minute(time.at(until))}`;
  }
  return host.note || `stage ${host.stage}, place ${host.position}`;
}

/** @param {any} host */
function why(host) {
  const found = host.blockers;
  const title =
    host.state === "failed"
      ? "Why it failed"
      : host.state === "skipped"
        ? "Why it was left out"
        : "Why it is waiting";
  if (!found.length && !host.note) return nothing;
  return html`<div class="in">
    <h3>${title}</h3>
    <ul class="why">
      ${host.note ? html`<li>${marked(host.note)}</li>` : nothing}${found.map(
        (/** @type {any} */ each) =>
          html`<li>
            ${marked(each.text)}${
              each.until && each.kind !== "not before"
                ? html` <span class="soft nw">(${time.until(time.at(each.until))})</span>`
                : nothing
            }${
              each.host && each.host !== host.host
                ? html` <a href=${address("hosts", ["host", each.host])}>${each.host}</a>`
                : nothing
            }
          </li>`,
      )}
    </ul>
  </div>`;
}

/** @type {Record<string, string>} */
const COURSES = {
  moved: "ok",
  done: "ok",
  "in work": "b",
  failed: "bad b",
  down: "bad b",
  waiting: "soft",
  unchanged: "soft",
  gone: "soft",
};

/** @param {any} vm */
function vmRow(vm) {
  const pause =
    vm.pause_seconds === null
      ? ""
      : vm.pause_seconds < 10
        ? ` ${Math.round(vm.pause_seconds * 1000)} ms`
        : ` ${time.roughly(vm.pause_seconds * 1000)}`;
  const tick =
    vm.course === "moved" || vm.course === "done"
      ? "✓ "
      : vm.course === "failed" || vm.course === "down"
        ? "✕ "
        : "";
  return html`<tr>
    <th class="mono" scope="row">${vm.vm}</th>
    <td class="soft">${vm.tenant ?? ""}</td>
    <td class="mono">${vm.to_host ? `→ ${vm.to_host}` : ""}</td>
    <td class=${COURSES[vm.course] ?? ""}>${tick}${vm.course}${pause}</td>
  </tr>`;
}

/** @param {any} host */
function vms(host) {
  const list = host.vm_list;
  if (!list.length) return html`<div class="in soft">No VM is on it.</div>`;
  const shown = allVms === host.host ? list : list.slice(0, VMS_MAX);
  const rest = list.length - shown.length;
  return html`<div class="in">
    <h3>VMs${list.some((/** @type {any} */ each) => each.to_host) ? " and where they go" : ""}</h3>
    <table class="tight">
      <tbody>
        ${shown.map(vmRow)}
      </tbody>
    </table>
    ${
      rest > 0
        ? html`<button
            class="quiet small"
            @click=${() => {
              allVms = host.host;
              changed({ now: true });
            }}
          >
            ${rest} more
          </button>`
        : nothing
    }
  </div>`;
}

/** @param {any} host */
function output(host) {
  const lines = [
    ...host.steps
      .filter((/** @type {any} */ each) => each.said)
      .map((/** @type {any} */ each) => ({ at: each.at, text: `${each.kind}: ${each.said}` })),
    ...host.output,
  ].sort((one, other) => (one.at < other.at ? -1 : 1));
  if (!lines.length) return nothing;
  const whole = lines
    .map((each) => `${time.second(time.at(each.at))} ${each.text || each.what}`)
    .join("\n")
    .slice(-OUTPUT_CHARACTERS_MAX);
  const shown = isWhole === host.host ? whole : whole.split("\n").slice(-6).join("\n");
  return html`<div class="in">
    <h3>Driver output</h3>
    <pre class="words" tabindex="0" aria-label="Driver output">${shown}</pre>
    ${
      shown.length < whole.length
        ? html`<button
            class="quiet small"
            @click=${() => {
              isWhole = host.host;
              changed({ now: true });
            }}
          >
            All
          </button>`
        : nothing
    }
  </div>`;
}

/**
 * The button of each request: its text, and what it asks.
 * @type {Record<string, [string, (campaign: any, host: any) => void]>}
 */
const ACTS = {
  "campaign-retry": ["Retry…", (campaign, host) => orders.retry(campaign, [host.host])],
  expedite: ["Expedite…", (_, host) => orders.expedite(host.host, names(host))],
  "campaign-skip": ["Skip host…", (campaign, host) => orders.skip(campaign, [host.host])],
  cancel: ["Cancel…", (_, host) => orders.cancel(host.operation, host.host)],
};

const names = (/** @type {any} */ host) => host.vm_list.map((/** @type {any} */ each) => each.vm);

/** What can be done, and why the rest is refused: the service says both. */
function acts(/** @type {any} */ campaign, /** @type {any} */ host) {
  const found = host.verbs.filter((/** @type {any} */ each) => mayOrder(each.verb));
  if (!found.length) return nothing;
  const refused = found.filter((/** @type {any} */ each) => each.error);
  const button = (/** @type {any} */ { verb, error }) => {
    const [text, order] = ACTS[verb] ?? [verb, () => {}];
    return html`<button
      aria-disabled=${error ? "true" : "false"}
      aria-describedby=${error ? `no-${verb}` : nothing}
      @click=${() => !error && order(campaign, host)}
    >
      ${text}
    </button>`;
  };
  return html`<div class="in">
    <div class="acts">${found.map(button)}</div>
    ${
      refused.length
        ? html`<ul class="refused soft">
            ${refused.map(
              (/** @type {any} */ { verb, error }) =>
                html`<li id=${`no-${verb}`}>
                  ${capital(verb.replace("campaign-", ""))}: ${error}
                </li>`,
            )}
          </ul>`
        : nothing
    }
  </div>`;
}

/**
 * @param {any} campaign @param {string} name @param {() => void} close
 */
export function drawer(campaign, name, close) {
  const { value: host, error } = detail(campaign.campaign, name);
  return html`<aside
    class="card drawer"
    id="drawer"
    aria-labelledby="dh"
    tabindex="-1"
    @keydown=${(/** @type {KeyboardEvent} */ event) =>
      event.key === "Escape" && (event.stopPropagation(), close())}
  >
    <header>
      <div>
        <h2 id="dh">${name}</h2>
        ${
          host
            ? html`<span class="soft"
                >${host.zone ? `zone ${host.zone} · ` : ""}${count(host.vm_list.length, "VM")}${
                  host.attempts > 1 ? ` · attempt ${host.attempts}` : ""
                }
                ·
                <a class="mono" href=${address("history", ["operation", host.operation])}
                  >${host.operation}</a
                ></span
              >`
            : nothing
        }
      </div>
      <span class="grow"></span
      >${host ? pill(PILLS[host.state] ?? "idle", capital(host.state)) : nothing}<button
        class="quiet"
        aria-label="Close"
        @click=${close}
      >
        ✕
      </button>
    </header>
    ${error ? html`<div class="in">${errorNote(error)}</div>` : nothing}
    ${
      host
        ? html`${steps(host)}${why(host)}${vms(host)}${output(host)}${acts(campaign, host)}`
        : error
          ? nothing
          : loading
    }
  </aside>`;
}
