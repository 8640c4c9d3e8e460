// The drawing of the timeline: bars, axis and what lies under the rows, in SVG. All of it
// is hidden from screen readers, which get the words of the rows.

import { nothing, svg } from "./lit.js";
import * as time from "./time.js";

const MINUTE = 60_000;
/** Distances of the lines of the grid; the first that gives few enough lines is taken. */
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 240, 480, 1440, 2880, 10080].map(
  (each) => each * MINUTE,
);
const LINES_MAX = 8;
/** Where now is, as a part of the width. */
export const NOW_SHARE = 0.25;
/** Bars narrower than this are drawn with it, in percent: otherwise they vanish. */
const WIDTH_MIN = 0.25;
/** Distance of the lanes of a closed cluster, in px; many of them are nearer. */
const LANE = 7;
/** A shorter time without news than this is not drawn, in ms. */
const UNKNOWN_MIN = 1000;

/** @typedef {{from: number, until: number}} View */

/**
 * The time in sight. It moves in steps of about a pixel, so that most seconds change nothing.
 * @param {number} span @param {number} offset
 * @returns {View}
 */
export function viewOf(span, offset) {
  const step = span / 1000;
  const from = Math.floor((time.now() + offset - span * NOW_SHARE) / step) * step;
  return { from, until: from + span };
}

/** @param {View} view @param {number} at */
const place = ({ from, until }, at) => (100 * (at - from)) / (until - from);

/** @param {number} value */
const percent = (value) => `${Math.round(value * 100) / 100}%`;

/**
 * @param {View} view @param {import("./timeline_rows.js").Bar} bar
 * @param {number} y @param {number} height @param {number} radius
 */
function rect(view, [form, from, until], y, height, radius) {
  const part = (
    /** @type {string} */ form,
    /** @type {number} */ from,
    /** @type {number} */ to,
  ) => {
    const left = Math.max(-1, place(view, from));
    const right = Math.min(101, place(view, to));
    if (right < -0.5 || left > 100.5 || right < left) return nothing;
    return svg`<rect class=${form} x=${percent(left)} y=${y} width=${percent(
      Math.max(WIDTH_MIN, right - left),
    )} height=${height} rx=${radius}/>`;
  };
  if (!Number.isNaN(until)) return part(form, from, until);
  const seen = Math.max(time.known(), from);
  // Without a stream, nobody knows whether it still goes on.
  const rest =
    time.now() - seen > UNKNOWN_MIN ? part("s-hatch unknown", seen, time.now()) : nothing;
  return svg`${part(form, from, seen)}${rest}`;
}

/** @param {import("./timeline_rows.js").Bar[]} lane */
const ends = (lane) =>
  Math.max(...lane.map(([, , until]) => (Number.isNaN(until) ? time.now() : until)));

/**
 * Hosts in work as a histogram: one path, stretched over its time.
 * @param {View} view @param {import("./timeline_rows.js").Histogram} work @param {number} height
 */
function histogram(view, { busy, most, from, until }, height) {
  const left = place(view, from);
  const width = place(view, until) - left;
  if (!(width > 0) || left > 100 || left + width < 0) return nothing;
  const columns = busy
    .map((each, index) => (each ? `M${index} ${most}v${-each}h1v${each}z` : ""))
    .join("");
  return svg`<svg x=${percent(left)} y="3" width=${percent(width)} height=${height - 7}
      viewBox="0 0 ${busy.length} ${most}" preserveAspectRatio="none">
      <path class="busy" d=${columns}/>
    </svg>`;
}

/** @param {View} view @param {import("./timeline_rows.js").Row} row @param {number} height */
export function drawing(view, row, height) {
  const { lanes, host, work } = row;
  if (work) return histogram(view, work, height);
  if (lanes.length > 1 || row.kind === "cluster") {
    const pitch = Math.min(LANE, (height - 4) / lanes.length);
    const [top, thick] = [pitch < LANE ? 2 : 5, Math.min(5, pitch - 1)];
    return lanes.map((lane, index) =>
      lane.map((bar) => rect(view, bar, top + pitch * index, thick, 0)),
    );
  }
  const lane = lanes[0] ?? [];
  const y = Math.round((height - 14) / 2);
  const last = lane.length ? place(view, ends(lane)) : 0;
  const nb = host?.not_before ? place(view, time.at(host.not_before)) : NaN;
  const starts = Math.min(...lane.map(([, from]) => from));
  const away =
    lane.length && last < 0
      ? svg`<text x="1%" y=${y + 11}>◂ until ${time.when(ends(lane))}</text>`
      : lane.length && starts > view.until
        ? svg`<text x="99%" y=${y + 11} text-anchor="end">${time.when(starts)} ▸</text>`
        : nothing;
  const failed = lane.findLast(([form]) => form === "s-failed");
  const cross = failed ? Math.min(98, Math.max(place(view, failed[1]), 0)) : NaN;
  return svg`${lane.map((bar) => rect(view, bar, y, 13, 2))}${away}
    ${
      nb > 0 && nb < 100
        ? svg`<line class="nb" x1=${percent(nb)} x2=${percent(nb)} y1=${y - 2} y2=${y + 15}/>`
        : nothing
    }
    ${cross >= 0 ? svg`<text class="onf" x=${percent(cross + 0.4)} y=${y + 11}>✕</text>` : nothing}
    ${
      row.fact && last < 75
        ? svg`<svg x=${percent(Math.max(last, 0))} y="0" overflow="visible">
            <text class="lab" x="6" y=${y + 11}>${row.fact}</text></svg>`
        : nothing
    }`;
}

/** @param {View} view */
function lines({ from, until }) {
  const step = STEPS.find((each) => (until - from) / each <= LINES_MAX) ?? STEPS.at(-1) ?? MINUTE;
  const found = [];
  for (let at = Math.ceil(from / step) * step; at < until; at += step) found.push(at);
  return { found, step };
}

/** The width that a label takes, and that of the label of now, in px. */
const LABEL = 42;
const LABEL_NOW = 66;
/** The width of an axis that is not drawn yet, in px. */
const WIDTH_USUAL = 800;

/** @param {View} view */
export function axis(view) {
  const now = place(view, time.now());
  const { found, step } = lines(view);
  const width = document.querySelector(".axis svg")?.clientWidth || WIDTH_USUAL;
  const near = (50 * (LABEL + LABEL_NOW)) / width;
  const edge = (50 * LABEL) / width;
  const each = Math.ceil((LABEL * (view.until - view.from)) / (width * step));
  return svg`${found.map((at) => {
    const x = place(view, at);
    // By the time, so that a label stays where it is while time goes on.
    if (Math.round(at / step) % each) return nothing;
    if (x < edge || x > 100 - edge || Math.abs(x - now) < near) return nothing;
    return svg`<text x=${percent(x)} y="16" text-anchor="middle">${
      step >= 1440 * MINUTE ? time.when(at).replace(" 00:00", "") : time.minute(at)
    }</text>`;
  })}${
    now > 0 && now < 100
      ? svg`<text class="lab b" x=${percent(now)} y="16"
          text-anchor="middle">now ${time.minute(time.now())}</text>`
      : nothing
  }`;
}

/**
 * Windows, blackouts and the lines of the grid.
 * @param {View} view
 * @param {{windows: [number, number][], blackouts: {name: string, from: number, until: number}[]}}
 *   terms
 */
export function ground(view, { windows, blackouts }) {
  const area = (
    /** @type {string} */ form,
    /** @type {number} */ from,
    /** @type {number} */ until,
  ) => {
    const left = Math.max(0, place(view, from));
    const right = Math.min(100, place(view, until));
    return right > left
      ? svg`<rect class=${form} x=${percent(left)} y="0" width=${percent(right - left)}
          height="100%"/>`
      : nothing;
  };
  return svg`${windows.map(([from, until]) => area("win", from, until))}
    ${blackouts.map(
      (each) =>
        svg`${area("s-hatch", each.from, each.until)}<text class="lab" x=${percent(
          Math.max(0.5, place(view, each.from) + 0.5),
        )} y="14">${
          place(view, each.until) > 0 && place(view, each.from) < 95 ? `blackout: ${each.name}` : ""
        }</text>`,
    )}
    ${lines(view).found.map((at) => {
      const x = percent(place(view, at));
      return svg`<line class="grid" x1=${x} x2=${x} y1="0" y2="100%"/>`;
    })}`;
}

/** @param {View} view The line of now. */
export const nowLine = (view) => {
  const x = percent(place(view, time.now()));
  return svg`<line class="now" x1=${x} x2=${x} y1="0" y2="100%"/>`;
};

/**
 * An arrow from a held host to what holds it.
 * @param {View} view
 * @param {number} from The middle of the held row, in px.
 * @param {number} to
 * @param {boolean} isOn Whether it is of the chain that one looks at.
 * @param {string} [name] What holds it, if its row is out of sight.
 */
export function arrow(view, from, to, isOn, name = "") {
  const form = isOn ? "arrow on" : "arrow";
  const x = place(view, time.now());
  const side = percent(x + 0.9);
  const tip = to < from ? to + 6 : to - 6;
  return svg`<line class=${form} x1=${percent(x)} x2=${side} y1=${from} y2=${from}/>
    <line class=${form} x1=${side} x2=${side} y1=${from} y2=${tip}/>
    <svg x=${side} y=${tip} width="12" height="9" overflow="visible"><path class="arrow t" d=${
      to < from ? "M0 -5l4 8h-8z" : "M0 5l4 -8h-8z"
    }/>${
      name ? svg`<text class="away" x="9" y=${to < from ? 4 : 0}>${name}</text>` : nothing
    }</svg>`;
}
