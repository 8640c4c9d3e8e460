// The timeline: a grid of rows that open and close, with bars over time. Only rows in sight
// are in the document, and one Tab stop reaches all of them.

import { html, nothing, repeat } from "./lit.js";
import { legend } from "./parts.js";
import { askedAt, atField, lookAt } from "./at.js";
import { asked, look } from "./query.js";
import { afterDraw, changed } from "./store.js";
import { closeAll, isFolded, isOpen, open, opener, toggle } from "./timeline_open.js";
import { edgesOf } from "./timeline_chain.js";
import { rowsOf, hostRow } from "./timeline_rows.js";
import { arrow, axis, drawing, ground, nowLine, viewOf } from "./timeline_bars.js";
import { SPANS, fit, resetSpan, spanLength, spanName } from "./timeline_span.js";
import { number } from "./text.js";
import * as time from "./time.js";

export { zoom } from "./timeline_span.js";

/** Up to so many rows, all are in the document. */
const WHOLE_MAX = 120;
/** Rows around those in sight that are drawn too. */
const AROUND = 10;
const NARROW = matchMedia("(max-width: 760px)");
const TOUCH = matchMedia("(pointer: coarse)");

let focused = "";
let scrolled = 0;
/** The row under the pointer. */
let hovered = "";

/** A host whose row is to be brought into sight as soon as it is there. */
let sought = "";

/** Open all that hides a host. @param {any} host */
export function reveal(host) {
  sought = host.host;
  if (!shown.some((each) => each.id === `h:${host.host}`)) open(host);
}

export function reset() {
  closeAll();
  resetSpan();
  focused = "";
}

/** @param {number} by Parts of the span; 0: back to now. */
export function pan(by) {
  const at = Number.isNaN(askedAt()) ? time.now() : askedAt();
  lookAt(by ? at + by * spanLength() : NaN);
}

/**
 * The height of a row in px, as in the style sheet.
 * @param {import("./timeline_rows.js").Row} row
 */
function heightOf(row) {
  const isClosed = row.kind === "cluster" && !row.isOpen;
  if (TOUCH.matches || (NARROW.matches && isClosed)) return 36;
  return isClosed ? 34 : NARROW.matches ? 30 : 24;
}

/** @param {import("./timeline_rows.js").Row[]} rows */
function inSight(rows) {
  /** @type {number[]} */
  const tops = [0];
  for (const row of rows) tops.push((tops.at(-1) ?? 0) + heightOf(row));
  const height = tops.at(-1) ?? 0;
  if (rows.length <= WHOLE_MAX) return { tops, first: 0, last: rows.length, height };
  const sight = document.querySelector(".rows")?.clientHeight ?? 600;
  const first = Math.max(0, tops.findIndex((top) => top > scrolled) - 1 - AROUND);
  const after = tops.findIndex((top) => top > scrolled + sight);
  return {
    tops,
    first,
    last: Math.min(rows.length, (after < 0 ? rows.length : after) + AROUND),
    height,
  };
}

/** @param {import("./timeline_rows.js").Row[]} rows @param {number} index */
function focus(rows, index) {
  const row = rows[Math.max(0, Math.min(rows.length - 1, index))];
  if (!row) return;
  focused = row.id;
  const { tops } = inSight(rows);
  const box = document.querySelector(".rows");
  const top = tops[rows.indexOf(row)] ?? 0;
  if (box && (top < box.scrollTop || top + 34 > box.scrollTop + box.clientHeight))
    box.scrollTop = top - box.clientHeight / 2;
  scrolled = box?.scrollTop ?? 0;
  changed({ now: true });
  afterDraw(() =>
    /** @type {HTMLElement | null} */ (
      document.querySelector(`.row[data-id="${CSS.escape(focused)}"]`)
    )?.focus(),
  );
}

/** @param {(row: import("./timeline_rows.js").Row) => boolean} isWanted Go to the next such row. */
export function next(isWanted) {
  const from = shown.findIndex((each) => each.id === focused);
  const order = [...shown.slice(from + 1), ...shown.slice(0, from + 1)];
  const found = order.find(isWanted);
  if (found) focus(shown, shown.indexOf(found));
}

/** @type {import("./timeline_rows.js").Row[]} */
let shown = [];
export const focusedRow = () => shown.find((each) => each.id === focused);
/** @param {string} host */
export const focusHost = (host) =>
  focus(
    shown,
    shown.findIndex((each) => each.id === `h:${host}`),
  );

/** @param {KeyboardEvent} event @param {(host: string, isByKey?: boolean) => void} select */
function onKey(event, select) {
  const index = shown.findIndex((each) => each.id === focused);
  const row = shown[index];
  if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
  const parent = () =>
    shown.findLastIndex((each, place) => place < index && each.level < row.level);
  /** @type {Record<string, () => void>} */
  const keys = {
    ArrowDown: () => focus(shown, index + 1),
    ArrowUp: () => focus(shown, index - 1),
    Home: () => focus(shown, 0),
    End: () => focus(shown, shown.length - 1),
    PageDown: () => focus(shown, index + 10),
    PageUp: () => focus(shown, index - 10),
    ArrowRight: () =>
      row.isOpen === false
        ? toggle(row.id, true)
        : row.isOpen
          ? focus(shown, index + 1)
          : undefined,
    ArrowLeft: () => (row.isOpen ? toggle(row.id, false) : focus(shown, parent())),
    Enter: () => (row.host ? select(row.host.host, true) : toggle(row.id)),
    " ": () => (row.host ? select(row.host.host, true) : toggle(row.id)),
  };
  const act = keys[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

/**
 * @param {any} view
 * @param {import("./timeline_rows.js").Row} row
 * @param {string} selected
 * @param {(host: string) => void} select
 */
function rowView(view, row, selected, select) {
  const isSelected = row.host?.host === selected && selected !== "";
  const kind =
    row.kind === "cluster"
      ? row.isOpen
        ? "open"
        : "clu"
      : row.kind === "host"
        ? "host"
        : row.level === 3
          ? "host fold"
          : "rack";
  const act = row.host ? () => select(row.host.host) : () => toggle(row.id);
  return html`<div
    class="row ${kind} ${isSelected ? "sel" : ""}"
    role="row"
    data-id=${row.id}
    aria-level=${row.level}
    tabindex=${row.id === focused ? 0 : -1}
    aria-label=${row.spoken}
    aria-expanded=${row.isOpen === undefined ? nothing : row.isOpen ? "true" : "false"}
    aria-selected=${row.host ? (isSelected ? "true" : "false") : nothing}
    @click=${act}
    @focus=${() => (focused = row.id)}
  >
    <div class="lab" role="rowheader">
      ${
        row.isOpen === undefined
          ? nothing
          : html`<span class="tw" aria-hidden="true">${row.isOpen ? "▾" : "▸"}</span>`
      }<span class="name">${row.kind === "host" ? row.name : html`<b>${row.name}</b>`}</span>
      <span
        >${row.words.map(
          (word, index) => html`${index ? " · " : ""}<span class=${word.form}>${word.text}</span>`,
        )}${row.more ? html`<br />${row.more}` : nothing}</span
      >
    </div>
    <div role="gridcell"><svg aria-hidden="true">${drawing(view, row, heightOf(row))}</svg></div>
  </div>`;
}

/** @param {string} [id] */
function hover(id = "") {
  if (id === hovered) return;
  hovered = id;
  changed({ now: true });
}

/** The host whose chain is drawn: under the pointer, or with the focus. */
function lookedAt() {
  const id = hovered || (document.activeElement?.closest(".row") ? focused : "");
  return shown.find((each) => each.id === id)?.host?.host ?? "";
}

/**
 * An arrow of the timeline. Of a chain, it ends at the edge with a name if the other row is out
 * of sight.
 * @param {import("./timeline_bars.js").View} view
 * @param {Map<string, number>} places The middle of each row.
 * @param {import("./timeline_chain.js").Edge} edge
 */
function drawn(view, places, { from, to, isOn }) {
  const start = places.get(`h:${from}`);
  const end = places.get(`h:${to}`);
  if (start === undefined || (end === undefined && !isOn)) return nothing;
  const sight = document.querySelector(".rows")?.clientHeight ?? Infinity;
  const [top, bottom] = [scrolled + 8, scrolled + sight - 8];
  if (!isOn || (end !== undefined && end > top && end < bottom))
    return arrow(view, start, end ?? start, isOn);
  return arrow(view, start, (end ?? -1) < start ? top : bottom, isOn, to);
}

/**
 * @param {object} from
 * @param {any} from.tree
 * @param {(cluster: string) => any[]} from.racksOf
 * @param {(cluster: string, rack: string) => any[] | undefined} from.hostsOf
 * @param {any[] | null} from.found Hosts of a filter, instead of the tree.
 * @param {any} from.terms Windows and blackouts.
 * @param {string} from.selected
 * @param {(host: string, isByKey?: boolean) => void} from.select
 * @param {import("./timeline_bars.js").View} [from.whole] In a file: all of its time, without a
 *   line for now.
 */
export function timeline({ tree, racksOf, hostsOf, found, terms, selected, select, whole }) {
  fit(tree?.from);
  const view = whole ?? viewOf(spanLength(), askedAt() - time.now() || 0);
  shown = found
    ? found.map((each) => hostRow(each, 1))
    : rowsOf(tree, racksOf, hostsOf, isOpen, isFolded);
  if (!shown.some((each) => each.id === focused)) focused = shown[0]?.id ?? "";
  const { tops, first, last, height } = inSight(shown);
  const row = sought ? shown.findIndex((each) => each.id === `h:${sought}`) : -1;
  if (row >= 0) {
    sought = "";
    const top = tops[row] ?? 0;
    afterDraw(() => {
      const box = document.querySelector(".rows");
      if (box && (top < box.scrollTop || top + 24 > box.scrollTop + box.clientHeight))
        box.scrollTop = top - box.clientHeight / 2;
    });
  }
  const places = new Map(
    shown.map((row, index) => [row.id, (tops[index] ?? 0) + heightOf(row) / 2]),
  );
  const arrows = edgesOf(shown.slice(first, last), shown, lookedAt()).map((each) =>
    drawn(view, places, each),
  );
  const pad = (/** @type {number} */ size) =>
    size > 0 ? html`<svg class="pad" aria-hidden="true" height=${size}></svg>` : nothing;
  const rows = (/** @type {number} */ from, /** @type {number} */ to) =>
    shown
      .slice(from, to)
      .map((row) => ({ key: row.id, show: () => rowView(view, row, selected, select) }));
  const gap = (/** @type {number} */ from, /** @type {number} */ to) => [
    {
      key: `gap ${from === 0 ? "first" : to === shown.length ? "last" : ""}`,
      show: () => pad((tops[to] ?? 0) - (tops[from] ?? 0)),
    },
  ];
  // The row with the focus stays in the document, wherever one has scrolled.
  const kept = shown.findIndex((each) => each.id === focused);
  const above =
    kept >= 0 && kept < first
      ? [...gap(0, kept), ...rows(kept, kept + 1), ...gap(kept + 1, first)]
      : gap(0, first);
  const below =
    kept >= last
      ? [...gap(last, kept), ...rows(kept, kept + 1), ...gap(kept + 1, shown.length)]
      : gap(last, shown.length);
  const inDocument = [...above, ...rows(first, last), ...below];
  return html`<div class="axis">
      <div>${found ? "host" : "cluster › rack › host"}</div>
      <svg aria-hidden="true">${axis(view)}</svg>
    </div>
    <div
      class="rows"
      @scroll=${(/** @type {any} */ event) => {
        scrolled = event.target.scrollTop;
        if (shown.length > WHOLE_MAX) changed({ now: true });
      }}
    >
      <div
        class="sheet"
        role="treegrid"
        aria-label="Hosts over time"
        aria-rowcount=${shown.length}
        @keydown=${(/** @type {KeyboardEvent} */ event) => onKey(event, select)}
        @pointerover=${(/** @type {any} */ { target }) => hover(target.closest(".row")?.dataset.id)}
        @pointerleave=${() => hover("")}
        @focusin=${() => changed({ now: true })}
        @focusout=${() => changed({ now: true })}
      >
        <svg class="under" aria-hidden="true" height=${height}>${ground(view, terms)}</svg>
        ${repeat(
          inDocument,
          (each) => each.key,
          (each) => each.show(),
        )}
        <svg class="under" aria-hidden="true" height=${height}>
          ${whole ? nothing : nowLine(view)}${arrows}
        </svg>
      </div>
    </div>
    ${
      shown.length
        ? nothing
        : html`<div class="empty"><b>No host</b>None is in this state now.</div>`
    }${legend}`;
}

/**
 * @param {Record<string, number>} counts
 * @param {boolean} isTable
 */
export function tools(counts, isTable) {
  const show = asked("show");
  const total = Object.values(counts).reduce((sum, each) => sum + each, 0);
  const running = (counts.impacting ?? 0) + (counts.recovering ?? 0);
  /** @type {[string, string, number][]} */
  const filters = [
    ["", "All", total],
    ["running", "Running", running],
    ["held", "Held", counts.ready ?? 0],
    ["failed", "Failed", counts.failed ?? 0],
  ];
  return html`<div class="tools">
    <h2 id="tlh">Hosts</h2>
    <div class="seg" role="group" aria-label="Show">
      ${filters.map(
        ([name, word, value]) =>
          html`<button
            aria-pressed=${show === name ? "true" : "false"}
            @click=${() => look({ show: name })}
          >
            ${word} ${number(value)}
          </button>`,
      )}
    </div>
    ${
      isTable
        ? nothing
        : html`<div class="seg hide-p" role="group" aria-label="Span">
              ${Object.entries(SPANS).map(
                ([name, [word]]) =>
                  html`<button
                    aria-pressed=${spanName() === name ? "true" : "false"}
                    @click=${() => look({ span: name })}
                  >
                    ${word}
                  </button>`,
              )}
            </div>
            <div class="acts hide-p">
              <button class="quiet small" aria-label="Earlier" @click=${() => pan(-0.5)}>◂</button
              >${
                asked("at")
                  ? html`<button class="quiet small" @click=${() => pan(0)}>now</button>`
                  : nothing
              }<button class="quiet small" aria-label="Later" @click=${() => pan(0.5)}>▸</button
              >${atField()}
            </div>`
    }
    <span class="grow"></span>${isTable ? nothing : opener()}
    <button class="quiet small" @click=${() => look({ as: isTable ? "timeline" : "table" })}>
      ${isTable ? "Timeline" : "Table"}
    </button>
  </div>`;
}
