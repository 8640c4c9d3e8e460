// What begins with a text: objects of all kinds.

import { html, nothing, repeat } from "../lit.js";
import { FOUND_MAX, foundAddress, search } from "../search.js";
import { address, empty, loaded } from "../parts.js";
import { asked } from "../query.js";
import { latest, resource, state } from "../store.js";
import { capital, count, number } from "../text.js";

/** The kinds in this order: their plural, and what is told of each besides its name and state. */
const KINDS = /** @type {[string, string, (keyof import("../search.js").Found)[]][]} */ ([
  ["host", "hosts", ["cluster", "rack"]],
  ["vm", "VMs", ["tenant", "scope", "host"]],
  ["campaign", "campaigns", ["title"]],
  ["operation", "operations", ["title", "host"]],
  ["event", "events", ["title", "tenant"]],
  ["scope", "scopes", ["tenant"]],
  ["tenant", "tenants", []],
]);
/** @type {Record<string, string>} */
const WORDS = { title: "what" };

const resultOf = latest((/** @type {string} */ text) =>
  resource(() => search(text), { topics: ["history"], pause: 5000 }),
);
const result = () => resultOf(asked("q"));

/**
 * Objects of one kind.
 * @param {import("../search.js").Found[]} found
 * @param {(keyof import("../search.js").Found)[]} columns
 */
export function foundTable(found, columns) {
  const shown = columns.filter((each) => found.some((one) => one[each]));
  const isTold = found.some((each) => each.state);
  return html`<table class="flow">
    <thead>
      <tr>
        <th>Name</th>
        ${shown.map((each) => html`<th>${capital(WORDS[each] ?? each)}</th>`)}${
          isTold ? html`<th>State</th>` : nothing
        }
      </tr>
    </thead>
    <tbody>
      ${repeat(
        found,
        (each) => each.name,
        (each) =>
          html`<tr>
            <th scope="row" class="mono"><a href=${foundAddress(each)}>${each.name}</a></th>
            ${shown.map((one) => html`<td data-l=${WORDS[one] ?? one}>${each[one] ?? ""}</td>`)}${
              isTold
                ? html`<td>
                    ${each.state === "down" ? html`<b class="bad">✕ down</b>` : (each.state ?? "")}
                  </td>`
                : nothing
            }
          </tr>`,
      )}
    </tbody>
  </table>`;
}

/** @param {boolean} hasMore @param {number} found Of one kind. @param {string} plural */
export const moreNote = (hasMore, found, plural) =>
  hasMore && found >= FOUND_MAX
    ? html`<p class="in soft">
        The first ${number(found)} ${plural} are shown. Type further to see the others.
      </p>`
    : nothing;

/** @param {{found: import("../search.js").Found[], more: boolean}} value */
function cards({ found, more }) {
  const text = asked("q");
  const places = state.session?.tenant
    ? nothing
    : html`<p>
        <a href=${address("hosts", ["q", text])}>Clusters and racks with this name, and hosts</a>
      </p>`;
  if (!found.length)
    return html`<div class="card">${empty(`Nothing begins with “${text}”`, places)}</div>`;
  return html`${KINDS.map(([kind, plural, columns]) => {
    const mine = found.filter((each) => each.kind === kind);
    return mine.length
      ? html`<section class="card" aria-labelledby="found-${kind}">
          <header>
            <h2 id="found-${kind}">
              ${count(mine.length, kind === "vm" ? "VM" : kind, plural)}${
                more && mine.length >= FOUND_MAX ? " or more" : ""
              }
            </h2>
          </header>
          ${foundTable(mine, columns)}${moreNote(more, mine.length, plural)}
        </section>`
      : nothing;
  })}${places}`;
}

function view() {
  const text = asked("q");
  return html`<h1>${text ? html`What begins with “${text}”` : "Find"}</h1>
    <div class="stack gap">${text ? loaded(result(), cards) : nothing}</div>`;
}

/** @type {import("../pages.js").Page} */
export const page = {
  title: () => (asked("q") ? `find: ${asked("q")}` : "Find"),
  view,
  uses: () => (asked("q") ? [result()] : []),
};
