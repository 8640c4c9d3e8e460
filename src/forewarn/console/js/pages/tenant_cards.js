// The cards of a tenant: what happens to its VMs, until when it can decide, and what each
// choice means. They show only what the tenant's own token reads.

import { html, nothing, repeat } from "../lit.js";
import { all, changed, one } from "../store.js";
import { meaning, notBefore, reasons } from "../choice.js";
import { groupedBy } from "../groups.js";
import { downVms } from "../needs.js";
import { address, mayOrder, moment } from "../parts.js";
import * as orders from "../own_orders.js";
import { capital, count, ending, some } from "../text.js";
import * as time from "../time.js";

/** Cards that are shown at first. */
const CARDS_MAX = 6;
/** Reasons that a card names. */
const REASONS_MAX = 2;
let isAll = false;

/**
 * What happens to VMs, by the impact of their operation.
 * @type {Record<string, [string, string]>}
 */
const DOING = {
  "live-migrate": ["being moved", "Live migration: a short pause at the end."],
  freeze: ["paused", "A pause of some seconds; memory and connections stay."],
  reboot: ["restarting", "They stop and start again, and keep their disks."],
  redeploy: ["being redeployed", "They start again elsewhere; local disks are lost."],
  preempt: ["being deleted", "Spot VMs are deleted."],
  terminate: ["being deleted", "You asked for it."],
  "upgrade-os": ["getting a new OS", "Their OS is upgraded."],
  reimage: ["being recreated", "They are recreated from their image."],
};

/** @param {any} event */
export const isOpen = (event) => event.EventStatus === "Scheduled" && !event.approved_by;

export const waiting = () =>
  all("events")
    .filter(isOpen)
    .sort((one, other) => notBefore(one) - notBefore(other));

/** @param {string[]} found */
const waits = (found) =>
  found.length
    ? html` Waiting:
        <b>${found.slice(0, REASONS_MAX).join("; ")}</b>${
          found.length > REASONS_MAX
            ? html` <span title=${found.join("; ")}
                >and ${count(found.length - REASONS_MAX, "more reason")}</span
              >`
            : nothing
        }.`
    : nothing;

/**
 * @param {string} form
 * @param {string} id
 * @param {any} count
 * @param {any} body
 * @param {any} acts
 */
const card = (form, id, count, body, acts) =>
  html`<section class="card next ${form}" aria-labelledby=${id}>
    <div class="cnt">${count}</div>
    <div>${body}</div>
    ${acts ? html`<div class="acts">${acts}</div>` : html`<div></div>`}
  </section>`;

/** @param {number} at @param {string} word */
function countdown(at, word) {
  const isOver = at <= time.now();
  return html`<span role="timer" aria-live="off">${isOver ? "due" : time.left(at)}</span
    ><small>${isOver ? html`since ${moment(at)}` : html`${word} ${moment(at)}`}</small>`;
}

/** Events of an operation that a card links to. */
const LINKS_MAX = 3;

/** @param {any[]} events Of one operation. */
const about = (events) =>
  html`<span class="soft"
    >${events[0].Description || "Maintenance of the platform"} ·
    ${events
      .slice(0, LINKS_MAX)
      .map(
        ({ EventId: id }, index) =>
          html`${index ? ", " : ""}<a
              class="mono nw"
              href=${address("history", ["event", id])}
              title=${id}
              >${ending(id)}</a
            >`,
      )}${events.length > LINKS_MAX ? ` and ${events.length - LINKS_MAX} more` : nothing}</span
  >`;

/** @param {any[]} events @returns {string[]} */
const vmsOf = (events) => events.flatMap((each) => each.vms);

/** @param {any[]} events @returns {string[]} */
const scopesOf = (events) => [...new Set(events.map((each) => each.scope))].filter(Boolean);

/** @param {any[]} events Of one operation. */
function acts(events) {
  const event = events[0];
  const operation = one("operations", event.operation);
  const vms = vmsOf(events);
  /** Whether the tenant can do the like in its own time. */
  const isOwnTime = ["Freeze", "Reboot"].includes(event.EventType);
  const approve =
    isOpen(event) && mayOrder("approve")
      ? html`<button class="prim" @click=${() => orders.approve(events)}>Approve…</button>`
      : nothing;
  if (event.EventSource === "User")
    return html`${approve}
    ${
      operation && mayOrder("cancel")
        ? html`<button @click=${() => orders.cancel(operation, vms)}>Cancel…</button>`
        : nothing
    }`;
  return html`${approve}
  ${
    isOwnTime && mayOrder("redeploy")
      ? html`<button
          title="In your own time, before the platform does it"
          @click=${() => orders.redeploy(vms)}
        >
          Redeploy…
        </button>`
      : nothing
  }
  ${
    isOwnTime && mayOrder("reboot")
      ? html`<button
          title="In your own time; the maintenance still comes"
          @click=${() => orders.restart(vms)}
        >
          Restart now…
        </button>`
      : nothing
  }
  ${
    operation?.routine === false || !mayOrder("defer")
      ? nothing
      : html`<button @click=${() => orders.defer(vms, scopesOf(events))}>Defer…</button>`
  }`;
}

/** @param {any[]} events Notices of one operation that nobody has approved. */
function open(events) {
  const event = events[0];
  const vms = vmsOf(events);
  const scopes = scopesOf(events);
  const id = `e-${event.EventId}`;
  const why = reasons(event);
  const { approved: then, otherwise } = meaning(events);
  const choice = html` Approve: ${then}. Do nothing:
  ${otherwise}.${
    why.length === 0
      ? nothing
      : html`<br /><span class="soft"
            >Also holds it: ${why.slice(0, REASONS_MAX).join("; ")}.</span
          >`
  }`;
  return card(
    "",
    id,
    countdown(notBefore(event), "then it starts, at"),
    html`<h2 id=${id}>${event.EventType} of ${some(vms, 3)}</h2>
      ${about(events)}<br /><b
        >Nobody of scope${scopes.length > 1 ? "s" : ""} ${some(scopes)} has approved.</b
      >${choice}`,
    acts(events),
  );
}

/** @param {any[]} events Approved, of one operation. */
function approved(events) {
  const first = events[0];
  const vms = vmsOf(events);
  const id = `a-${first.operation}`;
  const by = events.map(
    (each, index) =>
      html`${index ? ", " : ""}<span class="mono"
          >${each.approved_by.replace(/^\((.*)\)$/, "$1")}</span
        >${each.approved ? html` ${moment(time.at(each.approved), time.second)}` : nothing}`,
  );
  return card(
    "far",
    id,
    countdown(notBefore(first), "at the latest"),
    html`<h2 id=${id}>${first.EventType} of ${some(vms, 3)}</h2>
      ${about(events)}<br /><span class="soft"
        >Approved by ${by.slice(0, 2)}${by.length > 2 ? ` and ${by.length - 2} more` : ""}.</span
      >${waits(reasons(first))}`,
    acts(events),
  );
}

/** @param {any[]} events Started, of one operation. */
function running(events) {
  const first = events[0];
  const operation = one("operations", first.operation);
  const [word, means] = DOING[operation?.impact] ?? [`in ${first.EventType}`, ""];
  const isBack = operation?.state === "Recovering";
  const vms = vmsOf(events);
  const is = vms.length === 1 ? "is" : "are";
  const id = `o-${first.operation}`;
  const title = isBack ? `${some(vms, 3)} ${is} up again` : `${some(vms, 3)} ${is} ${word}`;
  return card(
    isBack ? "far" : "run",
    id,
    html`<span>${isBack ? "soon" : "now"}</span
      ><small>${isBack ? "it ends" : html`since ${moment(time.at(first.started))}`}</small>`,
    html`<h2 id=${id}>${title}</h2>
      <span class="soft"
        >${
          isBack
            ? "The impact is over; the platform waits until all is well. Nothing to do."
            : `${means} It has started: nothing to do.`
        }</span
      >`,
    null,
  );
}

/** @param {any[]} work Planned and not announced, with the same impact and text. */
function planned(work) {
  const first = work[0];
  const vms = work.map((each) => each.vm);
  const id = `p-${first.work}`;
  const earliest = time.at(first.earliest);
  const latest = time.at(first.latest);
  const when = first.why_unknown ? capital(first.why_unknown) : `Expected by ${time.when(latest)}`;
  return card(
    "far",
    id,
    html`<span>later</span
      ><small
        >${
          Number.isNaN(earliest)
            ? "not announced"
            : earliest > time.now()
              ? html`not before ${moment(earliest)}`
              : "at any time, after its notice"
        }</small
      >`,
    html`<h2 id=${id}>${capital(first.impact)} of ${some(vms, 3)}</h2>
      <span class="soft">${first.description} · planned, not announced</span><br />${when}. You get
      a notice before it starts.`,
    html`${
      mayOrder("expedite")
        ? html`<button @click=${() => orders.expedite(vms)}>Expedite…</button>`
        : nothing
    }${
      mayOrder("defer")
        ? html`<button @click=${() => orders.defer(vms, [])}>Defer…</button>`
        : nothing
    }`,
  );
}

/** @param {any[]} events @returns {any[][]} */
const byOperation = (events) => [...groupedBy(events, (each) => each.operation).values()];

export function cards() {
  const isFailure = (/** @type {any} */ each) => one("operations", each.operation)?.kind === "fail";
  const started = all("events").filter(
    (each) => each.EventStatus === "Started" && !isFailure(each),
  );
  const missing = waiting();
  const given = all("events")
    .filter((each) => each.EventStatus === "Scheduled" && each.approved_by)
    .sort((one, other) => notBefore(one) - notBefore(other));
  const coming = all("upcoming").filter((each) => each.state === "Planned");
  const alike = groupedBy(
    coming,
    (each) => `${each.impact}/${each.description}/${each.why_unknown}/${each.latest}`,
  );
  const found = [
    ...byOperation(missing).map((events) => ({
      id: events[0].EventId,
      show: () => open(events),
    })),
    ...byOperation(started).map((events) => ({
      id: events[0].operation,
      show: () => running(events),
    })),
    ...byOperation(given).map((events) => ({
      id: events[0].operation,
      show: () => approved(events),
    })),
    ...[...alike.values()].map((work) => ({
      id: `${work[0].impact}/${work[0].description}`,
      show: () => planned(work),
    })),
  ];
  const shown = isAll ? found : found.slice(0, CARDS_MAX);
  return html`${
    mayOrder("approve") && missing.length > 1
      ? html`<div class="card bulk">
          <b>${count(missing.length, "event")} without an approval</b>
          <button @click=${() => orders.approve(missing)}>Approve all ${missing.length}…</button>
        </div>`
      : nothing
  }
  ${repeat(
    shown,
    (each) => each.id,
    (each) => each.show(),
  )}
  ${
    found.length > CARDS_MAX
      ? html`<button
          @click=${() => {
            isAll = !isAll;
            changed({ now: true });
          }}
        >
          ${isAll ? "Show fewer" : `${count(found.length - CARDS_MAX, "more notice")}`}
        </button>`
      : nothing
  }`;
}

/** The banner of VMs that are down: what is read aloud names them, one sentence in 10 s. */
export function banner() {
  const found = downVms();
  return found.map(
    ({ vm, problem }) =>
      html`<div class="note e">
        <span
          ><b>${vm} is down</b> since ${moment(time.at(problem.since))}: a failure of the
          platform.</span
        >
        ${
          mayOrder("redeploy") && problem.actions.includes("redeploy")
            ? html`<button class="small" @click=${() => orders.redeploy([vm])}>
                Redeploy it elsewhere…
              </button>`
            : nothing
        }
      </div>`,
  );
}
