// The picture: a lane for each VM with what it was told, its polls, approvals, faults and
// deviations. It can be saved as an SVG file.

import { html, nothing, svg } from "../lit.js";
import { hatch, swatches } from "../parts.js";
import * as time from "../time.js";

/** The time in sight, before and after now, in ms. */
const BEFORE = 75_000;
const AFTER = 18_000;
/** Height of a lane, and width of the names, in px. */
const LANE = 31;
const NAMES = 92;
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

/**
 * @param {number} y
 * @param {number} from
 * @param {number} to
 * @param {string} form
 * @param {string} [text]
 */
function bar(y, from, to, form, text) {
  if (to <= 0 || from >= 100 || to <= from) return nothing;
  const x = Math.max(0, from);
  return svg`<rect class=${form} x=${percent(x)} y=${y + 4} width=${percent(to - x)} height="18"
      rx="2"/>${
        text && to - x > 5
          ? svg`<svg x=${percent(x)} y=${y} overflow="visible"><text class=${
              form === "s-impact" ? "onf" : "lab"
            } x="5" y="17">${text}</text></svg>`
          : nothing
      }`;
}

/**
 * @param {any} operation
 * @param {any} vm
 * @param {number} y
 * @param {(at: number) => number} x
 * @param {number} now
 */
function told(operation, vm, y, x, now) {
  const created = time.at(operation.created);
  const started = time.at(operation.started);
  const over = time.at(operation.impact_ended);
  const ended = time.at(operation.ended);
  const limit = time.at(operation.not_before);
  const last = [started, ended, now].find((each) => !Number.isNaN(each)) ?? now;
  const isOpen = Number.isNaN(started) && Number.isNaN(ended);
  // The event of a failure needs no approval, and has one from its beginning.
  const approval =
    operation.kind === "fail"
      ? undefined
      : operation.approvals.find((/** @type {any} */ each) => each.approved);
  const word = operation.kind === "fail" ? "failure" : operation.impact;
  return svg`${bar(
    y,
    x(created),
    x(last),
    operation.state === "Cancelled" ? "s-gone" : "s-noticed",
    word,
  )}
    ${
      isOpen
        ? svg`${bar(y, x(Math.max(limit, now)), 100, "s-planned")}
            <line class="nb" x1=${percent(x(limit))} x2=${percent(x(limit))} y1=${y + 1}
              y2=${y + 25}/>`
        : nothing
    }
    ${
      Number.isNaN(started)
        ? nothing
        : bar(
            y,
            x(started),
            x(Number.isNaN(over) ? now : over),
            operation.kind === "fail" ? "s-failed" : "s-impact",
            "Started",
          )
    }
    ${
      Number.isNaN(over)
        ? nothing
        : bar(y, x(over), x(Number.isNaN(ended) ? now : ended), "s-recover")
    }
    ${
      approval && vm
        ? mark(
            x(time.at(approval.approved)),
            y + 13,
            "s-done",
            `approved by ${approval.approved_by}`,
          )
        : nothing
    }`;
}

/** A diamond. @param {number} x @param {number} y @param {string} form @param {string} title */
const mark = (x, y, form, title) =>
  x <= 0 || x >= 100
    ? nothing
    : svg`<svg x=${percent(x)} y=${y} overflow="visible">
        <path class=${form} d="M0 -5l5 5l-5 5l-5 -5z"><title>${title}</title></path></svg>`;

/**
 * @param {any} vm
 * @param {number} index
 * @param {any[]} requests
 * @param {any[]} operations
 * @param {(at: number) => number} x
 * @param {number} now
 */
function lane(vm, index, requests, operations, x, now) {
  const y = 4 + index * LANE;
  const mine = requests.filter((each) => each.vm === vm.vm && time.at(each.at) > now - BEFORE);
  const step = Math.ceil(mine.length / TICKS_MAX);
  const polls = mine.filter((each, place) => each.method === "GET" && place % step === 0);
  return svg`<line class="track" x1="0" x2="100%" y1=${y + 27} y2=${y + 27}/>
    ${operations
      .filter((each) => each.vms.some((/** @type {any} */ one) => one.vm === vm.vm))
      .map((each) => told(each, vm, y, x, now))}
    ${polls.map((each) => {
      const at = percent(x(time.at(each.at)));
      return svg`<line class="poll" x1=${at} x2=${at} y1=${y + 24} y2=${y + 30}/>`;
    })}
    ${mine
      .filter((each) => each.fault)
      .map(
        (each) =>
          svg`<rect class="s-hatch" x=${percent(x(time.at(each.at)))} y=${y + 4} width="6"
            height="20"><title>fault: ${each.fault}</title></rect>`,
      )}
    ${mine
      .filter((each) => each.deviations.length)
      .map((each) =>
        mark(x(time.at(each.at)), y + 27, "dev", `deviates: ${each.deviations[0].sentence}`),
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
  copy.setAttribute("width", String(shown.clientWidth));
  copy.querySelector(".plot")?.setAttribute("width", String(shown.clientWidth - NAMES));
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

/** @param {any[]} vms @param {any[]} journal @param {any[]} operations */
export function lanes(vms, journal, operations) {
  // Whole seconds: otherwise everything would be drawn again with each request.
  const now = Math.floor(time.now() / 1000) * 1000;
  const x = scale(now);
  const height = vms.length * LANE + 26;
  const marks = [0, 1, 2, 3].map((each) => now - BEFORE + each * 20_000);
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
          (each, index) => svg`<text class="lab" x="0" y=${22 + index * LANE}>${each.vm}</text>`,
        )}
        <svg class="plot" x=${NAMES} y="0" height=${height}>
          ${vms.map((each, index) => lane(each, index, journal, operations, x, now))}
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
