// The VMs of a tenant over time: what was told, what happened, and how long each was down.

import { html, nothing, repeat } from "../lit.js";
import { list } from "../api.js";
import { downVms } from "../needs.js";
import { all, resource, state } from "../store.js";
import { address, hatch, loaded, loading, notBeforeLine, swatches } from "../parts.js";
import { asked, look } from "../query.js";
import { axis, drawing, ground, nowLine, viewOf } from "../timeline_bars.js";
import { count, number } from "../text.js";
import * as time from "../time.js";
import { notBefore } from "../choice.js";
import { isOpen } from "./tenant_cards.js";

const HOUR = 3_600_000;
/** @type {Record<string, [string, number, string]>} Word, length, and what of the past is read. */
const SPANS = {
  "4h": ["4 h", 4 * HOUR, "1h"],
  day: ["Day", 24 * HOUR, "6h"],
  week: ["Week", 168 * HOUR, "2d"],
};
/** What was done, where it is shorter than its kind. @type {Record<string, string>} */
const PAST = { "live-migrate": "moved" };
/** Rows at most: more would not be read. */
const ROWS_MAX = 300;
const NONE = { windows: [], blackouts: [] };
const FORMS = [
  ["s-noticed", "announced"],
  ["s-impact", "impacting"],
  ["s-recover", "recovering"],
  ["s-failed", "failed"],
  ["s-planned", "planned"],
];

export const vms = resource(() => list("/v1/fleet?limit=1000", "vms", 10), {
  topics: [],
  pause: 15_000,
});
/** @type {Map<string, import("../store.js").Resource>} */
const pasts = new Map();

const span = () => SPANS[asked("span")] ?? /** @type {[string, number, string]} */ (SPANS["4h"]);

export function past() {
  const since = span()[2];
  let found = pasts.get(since);
  if (!found)
    pasts.set(
      since,
      (found = resource(
        () => list(`/v1/history/operations?since=${since}&limit=200`, "operations", 5),
        { topics: ["history", "operations"], pause: 4000 },
      )),
    );
  return found;
}

/**
 * @typedef {{lane: import("../timeline_rows.js").Bar[], word: string, form: string, not_before:
 *   string, ends: number}} Course
 */

/** @param {any} operation @param {any} vm @returns {Course} */
function course(operation, vm) {
  const created = time.at(operation.created);
  const started = time.at(operation.started);
  const over = time.at(operation.impact_ended);
  const ended = time.at(operation.ended);
  const isFailure = operation.kind === "fail";
  /** @type {import("../timeline_rows.js").Bar[]} */
  const lane = [
    [
      operation.state === "Cancelled" ? "s-gone" : "s-noticed",
      created,
      Number.isNaN(started) ? ended : started,
    ],
  ];
  if (!Number.isNaN(started)) lane.push([isFailure ? "s-failed" : "s-impact", started, over]);
  if (!Number.isNaN(over) && !isFailure) lane.push(["s-recover", over, ended]);
  const lost = vm.down_seconds ? `, ${time.roughly(vm.down_seconds * 1000)} down` : "";
  const word =
    operation.state === "Cancelled"
      ? "cancelled"
      : operation.state === "Done"
        ? `${isFailure ? "failure" : (PAST[operation.impact] ?? operation.impact)}${lost}`
        : "";
  return {
    lane,
    word,
    form: operation.state === "Done" ? "ok" : "",
    not_before: isFailure ? "" : operation.not_before,
    ends: ended,
  };
}

/** What holds of a VM now, in a word. @param {string} vm @returns {[string, string]} */
function standing(vm) {
  const down = downVms().find((each) => each.vm === vm);
  if (down) return [`✕ down ${time.roughly(time.now() - time.at(down.problem.since))}`, "bad"];
  const events = all("events").filter((each) => each.vms.includes(vm));
  const started = events.find((each) => each.EventStatus === "Started");
  if (started)
    return [
      all("operations").find((each) => each.operation === started.operation)?.state === "Recovering"
        ? "up again"
        : `${started.EventType} now`,
      "run",
    ];
  const open = events.find(isOpen);
  if (open) return [`approve by ${time.when(notBefore(open))}`, "warn"];
  return events.length ? ["approved, waits", ""] : ["", ""];
}

/** The courses of each VM in the time in sight. @param {any[]} operations @param {number} from */
function courses(operations, from) {
  /** @type {Map<string, Course[]>} */
  const found = new Map();
  for (const operation of operations) {
    if (time.at(operation.ended) < from) continue;
    for (const vm of operation.vms)
      found.set(vm.vm, [...(found.get(vm.vm) ?? []), course(operation, vm)]);
  }
  return found;
}

/**
 * @param {import("../timeline_bars.js").View} view
 * @param {any} vm
 * @param {Course[]} mine
 * @param {boolean} isLone Whether it is the only VM of its scope.
 */
function row(view, vm, mine, isLone) {
  const [word, form] = standing(vm.name);
  const lane = mine.flatMap((each) => each.lane);
  const next = all("events").find(
    (each) => each.EventStatus === "Scheduled" && each.vms.includes(vm.name),
  );
  if (next) {
    const at = Math.max(notBefore(next), time.now());
    lane.push([
      "s-planned",
      at,
      at +
        (next.DurationInSeconds > 0
          ? next.DurationInSeconds * 1000
          : (view.until - view.from) / 24),
    ]);
  }
  const last = mine.at(-1);
  const shown = word || last?.word || "";
  const open = next ? next.NotBefore && new Date(notBefore(next)).toISOString() : last?.not_before;
  return html`<div class="row host ${isLone ? "lone" : ""}" role="row">
    <div class="lab" role="rowheader">
      <a class="mono" href=${address("history", ["vm", vm.name])} title=${vm.name}>${vm.name}</a
      ><span class=${form || (word ? "" : (last?.form ?? ""))} title=${shown}>${shown}</span>
    </div>
    <div role="gridcell">
      <svg aria-hidden="true">
        ${drawing(
          view,
          /** @type {any} */ ({ kind: "host", lanes: [lane], host: { not_before: open } }),
          24,
        )}
      </svg>
    </div>
  </div>`;
}

/** @param {any[]} list @param {any[]} operations @param {boolean} isWhole */
function table(list, operations, isWhole) {
  const view = viewOf(span()[1], 0);
  const known = courses(operations, view.from);
  const isAffected = (/** @type {any} */ vm) => known.has(vm.name) || standing(vm.name)[0] !== "";
  const affected = list.filter(isAffected);
  const shown = (isWhole ? list : affected).slice(0, ROWS_MAX);
  const scopes = [...new Set(shown.map((each) => each.scope))];
  const rows = scopes.flatMap((scope) => {
    // The only VM of a scope needs no row above it.
    const isLone = list.filter((each) => each.scope === scope).length === 1;
    return [
      ...(isLone ? [] : [{ id: `s:${scope}`, scope, vm: null, isLone }]),
      ...shown
        .filter((each) => each.scope === scope)
        .map((vm) => ({ id: `v:${vm.name}`, scope, vm, isLone })),
    ];
  });
  const sum = (/** @type {string} */ scope) => {
    const of = (/** @type {any[]} */ vms) => vms.filter((each) => each.scope === scope).length;
    return `${count(of(list), "VM")}, ${number(of(affected))} affected`;
  };
  return html`<section class="card tl own" aria-labelledby="own">
    <div class="tools">
      <h2 id="own">Your VMs</h2>
      <div class="seg" role="group" aria-label="Show">
        <button aria-pressed=${isWhole ? "false" : "true"} @click=${() => look({ show: "" })}>
          Affected ${number(affected.length)}</button
        ><button aria-pressed=${isWhole ? "true" : "false"} @click=${() => look({ show: "all" })}>
          All ${number(list.length)}
        </button>
      </div>
      <span class="grow"></span>
      <div class="seg" role="group" aria-label="Span">
        ${Object.entries(SPANS).map(
          ([name, [word]]) =>
            html`<button
              aria-pressed=${(asked("span") || "4h") === name ? "true" : "false"}
              @click=${() => look({ span: name === "4h" ? "" : name })}
            >
              ${word}
            </button>`,
        )}
      </div>
    </div>
    ${
      rows.length
        ? html`<div class="axis">
              <div>scope › VM</div>
              <svg aria-hidden="true">${axis(view)}</svg>
            </div>
            <div class="rows" role="table" aria-labelledby="own">
              <div class="sheet" role="rowgroup">
                <svg class="under" aria-hidden="true">${ground(view, NONE)}</svg>
                ${repeat(
                  rows,
                  (each) => each.id,
                  (each) =>
                    each.vm
                      ? row(view, each.vm, known.get(each.vm.name) ?? [], each.isLone)
                      : html`<div class="row open" role="row">
                          <div class="lab" role="rowheader">
                            <b>${each.scope || "without scope"}</b><span>${sum(each.scope)}</span>
                          </div>
                          <div role="gridcell"></div>
                        </div>`,
                )}
                <svg class="under" aria-hidden="true">${nowLine(view)}</svg>
              </div>
            </div>
            ${marks}
            ${
              (isWhole ? list : affected).length > ROWS_MAX
                ? html`<p class="in soft">
                    The first ${ROWS_MAX} of ${number((isWhole ? list : affected).length)}. The
                    history has each VM.
                  </p>`
                : nothing
            }`
        : html`<div class="empty">
            <b>Nothing happens to your VMs</b>Notices appear here at once, and with a countdown
            above.
          </div>`
    }
  </section>`;
}

const marks = html`<div class="legend" role="group" aria-label="Legend">
  ${hatch}${swatches(FORMS)}${notBeforeLine}
</div>`;

/** The switch "show" is in the address: a link shows the same. */
export const ownVms = () =>
  loaded(vms, ({ items }) =>
    // Who knows only a part must not say that nothing happens.
    state.isReady && (past().value || past().error)
      ? table(items, past().value?.items ?? [], asked("show") === "all")
      : html`<div class="card">${loading}</div>`,
  );
