// The picture: a lane for each VM with what it was told, its polls, approvals, faults and
// deviations. It can be saved as an SVG file.

import * as choice from "../choice.js";
import { html, nothing, svg } from "../lit.js";
import { hatch, swatches } from "../parts.js";
import * as time from "../time.js";

/** The time in sight, before and after now, in ms. */
const BEFORE = 75_000;
const AFTER = 18_000;
/** Height of a lane with one event at a time, and width of the names, in px. */
const LANE = 31;
const NAMES = 92;
/** What a label of the axis needs, up to the one of now, in px. */
const LABEL = 66;
/** What each further event at the same time adds to a lane. */
const TRACK = 22;
/** The width of a character, the space around a text, and the width of the picture before it is
 * drawn, in px. */
const CHARACTER = 6.2;
const AROUND = 8;
const WIDTH_USUAL = 1200;
/** Ticks of one lane: of a faster client, only some polls are drawn. */
const TICKS_MAX = 150;
/** What the saved file needs of the style sheet. */
const FORMS = [
  "s-noticed",
  "s-impact",
  "s-recover",
  "s-planned",
  "s-failed",
  "s-gone",
  "s-done",
  "s-hatch",
  "nb",
  "track",
  "poll",
  "dev",
  "now",
  "lab",
  "onf",
];
const LOOKS = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-weight"];

/** @param {number} now @returns {(at: number) => number} The place of an instant, in percent. */
const scale = (now) => (at) =>
  Math.min(101, Math.max(-1, (100 * (at - now + BEFORE)) / (BEFORE + AFTER)));

/** @param {number} value */
const percent = (value) => `${Math.round(value * 100) / 100}%`;

/** The width of the picture, in px. */
const plotWidth = () => document.querySelector(".lanes")?.clientWidth || WIDTH_USUAL;

/**
 * The first text that has room; empty: none.
 * @param {string[]} texts The longest first.
 * @param {number} room In percent of the picture.
 */
function fitting(texts, room) {
  const px = (room * plotWidth()) / 100 - AROUND;
  return texts.find((each) => each.length * CHARACTER <= px) ?? "";
}

/**
 * @param {number} y
 * @param {number} from
 * @param {number} to
 * @param {string} form
 * @param {string[]} [texts] The longest first.
 */
function bar(y, from, to, form, texts = []) {
  if (to <= 0 || from >= 100 || to <= from) return nothing;
  const x = Math.max(0, from);
  const text = fitting(texts, to - x);
  return svg`<rect class=${form} x=${percent(x)} y=${y + 4} width=${percent(to - x)} height="18"
      rx="2"/>${
        text
          ? svg`<svg x=${percent(x)} y=${y} overflow="visible"><text class=${
              form === "s-impact" ? "onf" : "lab"
            } x="5" y="17">${text}</text></svg>`
          : nothing
      }`;
}

/**
 * What a VM was told of an event, from its publication to its removal.
 * @param {any} event
 * @param {string} vm
 * @param {boolean} isFailure
 * @param {number} y
 * @param {(at: number) => number} x
 * @param {number} now
 */
function told(event, vm, isFailure, y, x, now) {
  const created = time.at(event.created);
  const started = time.at(event.started);
  const removed = time.at(event.removed);
  const limit = choice.notBefore(event);
  const known = (/** @type {number[]} */ ...all) => all.find((each) => !Number.isNaN(each)) ?? now;
  const isOpen = Number.isNaN(started) && Number.isNaN(removed);
  const others = event.vms.includes(vm) ? "" : event.vms.join(", ");
  const type = isFailure ? "failure" : event.EventType;
  const words = others ? [`sees ${type} of ${others}`, `sees ${type}`] : [type];
  /** Whether the bar before has room for the name of the event. */
  const isNamed = fitting(words, x(started) - Math.max(0, x(created))) !== "";
  const begun = words.map((each) => `${each}: Started`);
  const isCancelled = Number.isNaN(started) && !Number.isNaN(removed);
  return svg`${bar(
    y,
    x(created),
    x(known(started, removed)),
    isCancelled ? "s-gone" : "s-noticed",
    words,
  )}
    ${isOpen ? bar(y, x(now), x(limit), "s-planned") : nothing}
    ${isOpen ? notBefore(limit, y, x) : nothing}
    ${
      Number.isNaN(started)
        ? nothing
        : bar(
            y,
            x(started),
            x(known(removed)),
            isFailure ? "s-failed" : "s-impact",
            isFailure ? words : isNamed ? ["Started"] : [...begun, ...words],
          )
    }
    ${
      event.approved && event.vms.includes(vm)
        ? mark(x(time.at(event.approved)), y + 13, "s-done", `approved by ${event.approved_by}`)
        : nothing
    }`;
}

/**
 * Events that are there at the same time are below each other: the place of each in its lane.
 * @param {any[]} events
 * @param {number} now
 * @returns {{event: any, track: number}[]}
 */
function tracked(events, now) {
  /** When the last event of each track ends. @type {number[]} */
  const ends = [];
  return events
    .filter((each) => !(time.at(each.removed) < now - BEFORE))
    .sort((one, other) => time.at(one.created) - time.at(other.created))
    .map((event) => {
      const free = ends.findIndex((end) => end <= time.at(event.created));
      const track = free < 0 ? ends.length : free;
      const removed = time.at(event.removed);
      ends[track] = Number.isNaN(removed) ? Infinity : removed;
      return { event, track };
    });
}

/** The height of a lane. @param {{track: number}[]} found */
const heightOf = (found) => LANE + TRACK * Math.max(0, ...found.map((each) => each.track));

/** A line at NotBefore; at the edge, the rest of the time. @type {(...all: any[]) => any} */
function notBefore(/** @type {number} */ limit, /** @type {number} */ y, /** @type {any} */ x) {
  if (Number.isNaN(limit)) return nothing;
  if (x(limit) > 100) {
    const left = time.until(limit);
    const texts = [`NotBefore ${left} ▸`, `${left} ▸`, "▸"];
    return svg`<text class="lab" x="99.5%" y=${y + 17}
      text-anchor="end">${fitting(texts, 100 - x(time.now()))}</text>`;
  }
  return svg`<line class="nb" x1=${percent(x(limit))} x2=${percent(x(limit))} y1=${y + 1}
    y2=${y + 25}/>`;
}

/** Faults that follow each other, as one. @param {any[]} requests */
function faultsOf(requests) {
  /** @type {{from: number, until: number, words: string[]}[]} */
  const found = [];
  let isInside = false;
  for (const { at, fault } of requests) {
    const last = found.at(-1);
    if (fault && isInside && last) {
      last.until = time.at(at);
      // A step of a fault can be for several requests.
      if (last.words.at(-1) !== fault) last.words.push(fault);
    } else if (fault) found.push({ from: time.at(at), until: time.at(at), words: [fault] });
    isInside = Boolean(fault);
  }
  return found;
}

/** Faults that are named in the picture; the title has all. */
const WORDS_MAX = 3;

/** A diamond. @param {number} x @param {number} y @param {string} form @param {string} title */
const mark = (x, y, form, title) =>
  x <= 0 || x >= 100
    ? nothing
    : svg`<svg x=${percent(x)} y=${y} overflow="visible">
        <path class=${form} d="M0 -5l5 5l-5 5l-5 -5z"><title>${title}</title></path></svg>`;

/**
 * @param {any} vm
 * @param {number} y Where its lane begins.
 * @param {any[]} requests
 * @param {{event: any, track: number}[]} events What it was told.
 * @param {Set<string>} failures The operations that are failures.
 * @param {(at: number) => number} x
 * @param {number} now
 */
function lane(vm, y, requests, events, failures, x, now) {
  const base = y + heightOf(events) - 4;
  const mine = requests.filter((each) => each.vm === vm.vm && time.at(each.at) > now - BEFORE);
  const step = Math.ceil(mine.length / TICKS_MAX);
  const polls = mine.filter((each, place) => each.method === "GET" && place % step === 0);
  return svg`<line class="track" x1="0" x2="100%" y1=${base} y2=${base}/>
    ${events.map(({ event, track }) =>
      told(event, vm.vm, failures.has(event.operation), y + track * TRACK, x, now),
    )}
    ${polls.map((each) => {
      const at = percent(x(time.at(each.at)));
      return svg`<line class="poll" x1=${at} x2=${at} y1=${base - 3} y2=${base + 3}/>`;
    })}
    ${faultsOf(mine).map(({ from, until, words }) => {
      const text = words.slice(0, WORDS_MAX).join(", ");
      return svg`<rect class="s-hatch" x=${percent(x(from))} y=${y + 4} width=${percent(
        Math.max(0.6, x(until) - x(from)),
      )} height="20"><title>fault: ${words.join(", ")}</title></rect>
        <text x=${percent(x(from))} dx="8" y=${y + 18}>${text}${
          words.length > WORDS_MAX ? " …" : ""
        }</text>`;
    })}
    ${mine
      .filter((each) => each.deviations.length)
      .map((each) =>
        mark(x(time.at(each.at)), base, "dev", `deviates: ${each.deviations[0].sentence}`),
      )}
    ${
      requests.some((each) => each.vm === vm.vm)
        ? nothing
        : svg`<text x="8" y=${y + 18}>has never polled</text>`
    }`;
}

/** Save the picture, with the colors of now in the file itself. */
function save() {
  const shown = document.querySelector("svg.lanes");
  if (!shown) return;
  const copy = /** @type {SVGElement} */ (shown.cloneNode(true));
  const rules = FORMS.map((form) => {
    const found = shown.querySelector(`.${form}`);
    if (!found) return "";
    const looks = getComputedStyle(found);
    return `.${form}{${LOOKS.map((name) => `${name}:${looks.getPropertyValue(name)}`).join(";")}}`;
  });
  const text = getComputedStyle(shown.querySelector("text") ?? shown);
  const sheet = document.createElementNS("http://www.w3.org/2000/svg", "style");
  sheet.textContent = `text{font:11px sans-serif;fill:${text.fill}}${rules.join("")}`;
  copy.prepend(sheet);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const [width, height] = [shown.clientWidth, shown.getAttribute("height")];
  copy.setAttribute("width", String(NAMES + width));
  copy.setAttribute("viewBox", `${-NAMES} 0 ${NAMES + width} ${height}`);
  copy.querySelector(".plot")?.setAttribute("width", String(width));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(
    new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" }),
  );
  link.download = "simulation.svg";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const KEY = html`<div class="legend" role="group" aria-label="Legend">
  ${hatch}${swatches([
    ["s-noticed", "Scheduled"],
    ["s-impact", "Started"],
    ["s-done", "approved"],
    ["s-failed", "deviates, fails"],
    ["s-hatch", "fault"],
  ])}
</div>`;

/**
 * @param {any[]} vms
 * @param {any[]} journal
 * @param {any[]} documents The lanes that the service tells: the events of each VM.
 * @param {any[]} operations
 */
export function lanes(vms, journal, documents, operations) {
  const events = new Map(documents.map((each) => [each.vm, each.events]));
  const failures = new Set(
    operations.filter((each) => each.kind === "fail").map((each) => each.operation),
  );
  // Whole seconds: otherwise everything would be drawn again with each request.
  const now = Math.floor(time.now() / 1000) * 1000;
  const x = scale(now);
  const shown = vms.map((each) => tracked(events.get(each.vm) ?? [], now));
  /** Where each lane begins, and the last one ends. */
  const tops = [4];
  for (const each of shown) tops.push((tops.at(-1) ?? 0) + heightOf(each));
  const height = (tops.at(-1) ?? 0) + 22;
  const before = x(now) - (100 * LABEL) / plotWidth();
  const marks = [0, 1, 2, 3]
    .map((each) => now - BEFORE + each * 20_000)
    .filter((at) => x(at) < before);
  const words = vms
    .map((each) => `${each.vm}: ${journal.filter((one) => one.vm === each.vm).length} requests`)
    .join("; ");
  return html`<section class="card" aria-labelledby="pic">
    <header>
      <h2 id="pic">Events and requests per VM</h2>
      <span class="grow"></span>${KEY}<button @click=${save}>Save as picture</button>
    </header>
    <div class="in pictured">
      <svg
        class="lanes"
        role="img"
        aria-label="The last ${BEFORE / 1000} s. ${words}"
        height=${height}
      >
        ${vms.map(
          (each, index) =>
            svg`<text class="lab" x=${-NAMES} y=${(tops[index] ?? 0) + 18}>${each.vm}</text>`,
        )}
        <svg class="plot" height=${height}>
          ${vms.map((each, index) =>
            lane(each, tops[index] ?? 0, journal, shown[index] ?? [], failures, x, now),
          )}
          ${marks.map(
            (at) => svg`<text x=${percent(x(at))} y=${height - 6}>${time.second(at)}</text>`,
          )}
          <line class="now" x1=${percent(x(now))} x2=${percent(x(now))} y1="0" y2=${height - 20} />
          <text class="lab" x=${percent(x(now))} y=${height - 6} text-anchor="middle">now</text>
        </svg>
      </svg>
    </div>
  </section>`;
}
