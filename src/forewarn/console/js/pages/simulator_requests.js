// The requests of the programs, the newest first.

import { html, nothing, repeat } from "../lit.js";
import { marked } from "../parts.js";
import { changed } from "../store.js";
import { number, short } from "../text.js";
import * as time from "../time.js";

/** Rows of the table. */
const ROWS_MAX = 60;
/** @type {"all" | "changes" | "deviating"} */
let show = "changes";

/** @param {any} request */
const isPlain = (request) =>
  request.method === "GET" &&
  request.status === 200 &&
  !request.fault &&
  !request.deviations.length;

/** Whether a request says something new: repeated polls of a VM do not. @param {any[]} journal */
function changes(journal) {
  /** @type {Map<string, string>} */
  const last = new Map();
  return journal.filter((each) => {
    const rules = each.deviations.map((/** @type {any} */ one) => one.rule);
    const looks = `${each.status} ${each.fault} ${each.target} ${rules}`;
    const isNew = !isPlain(each) || last.get(each.vm) !== looks;
    last.set(each.vm, looks);
    return isNew;
  });
}

/** @param {any} each */
function means(each) {
  const [deviation] = each.deviations;
  if (deviation) return html`<span class="bad b">deviates</span> ${marked(deviation.sentence)}`;
  if (each.fault) return `fault: ${each.fault}`;
  if (each.approved.length)
    return `approves ${each.approved.map((/** @type {string} */ id) => short(id)).join(", ")}`;
  if (each.status === 304) return "nothing new";
  return each.status === 200 && each.method === "GET" ? "reads its document" : "";
}

/** @param {number} at */
const exact = (at) => `${time.second(at)}.${String(Math.floor(at % 1000)).padStart(3, "0")}`;

/** @param {any} each */
const row = (each) =>
  html`<tr>
    <td>${exact(time.at(each.at))}</td>
    <td>${each.vm || each.address}</td>
    <td>${each.method || "–"}</td>
    <td class="wide" title=${each.target}>${short(each.target, 64)}</td>
    <td class="num ${each.status >= 400 || !each.status ? "bad b" : ""}">${each.status || "–"}</td>
    <td class="wide">${means(each)}</td>
  </tr>`;

/** @param {any[]} journal */
export function requests(journal) {
  const deviating = journal.filter((each) => each.deviations.length);
  const found = { all: journal, changes: changes(journal), deviating };
  const tab = (/** @type {typeof show} */ name, /** @type {string} */ label) =>
    html`<button
      aria-pressed=${show === name ? "true" : "false"}
      @click=${() => {
        show = name;
        changed({ now: true });
      }}
    >
      ${label}
    </button>`;
  const rows = found[show].slice(-ROWS_MAX).reverse();
  return html`<section class="card" aria-labelledby="req">
    <header>
      <h2 id="req">Requests</h2>
      <div class="seg" role="group" aria-label="Show">
        ${tab("all", `all ${number(journal.length)}`)}${tab("changes", "changes")}${tab(
          "deviating",
          `deviating ${number(deviating.length)}`,
        )}
      </div>
      <span class="grow"></span
      ><span class="soft hide-n"
        >${
          rows.length < found[show].length
            ? `the latest ${ROWS_MAX} of ${number(found[show].length)} that this page has`
            : nothing
        }</span
      >
    </header>
    ${
      rows.length
        ? html`<div class="scrollx" tabindex="0" role="region" aria-label="Table of requests">
            <table class="journal flow">
              <thead class="vh">
                <tr>
                  <th>When</th>
                  <th>VM</th>
                  <th>Method</th>
                  <th>Path</th>
                  <th>Status</th>
                  <th>What it means</th>
                </tr>
              </thead>
              <tbody>
                ${repeat(rows, (each) => each.number, row)}
              </tbody>
            </table>
          </div>`
        : html`<div class="empty">
            <b>${show === "deviating" ? "No request deviates" : "No request yet"}</b>${
              show === "deviating"
                ? "Each request follows the protocol."
                : "What your program sends appears here at once."
            }
          </div>`
    }
  </section>`;
}
