// The field that finds anything by the beginning of its name or ID.

import { html } from "./lit.js";
import { address } from "./parts.js";
import { state } from "./store.js";

/** Go to what was sought, or to all that begins so. @param {Event} event */
async function find(event) {
  event.preventDefault();
  const input = /** @type {HTMLInputElement} */ (
    /** @type {HTMLFormElement} */ (event.target).elements.namedItem("q")
  );
  const text = input.value.trim();
  if (!text) return;
  // Few pages are searched from, so it is loaded only then.
  const { foundAddress, search } = await import("./search.js");
  // The page of what was found says why nothing can be found.
  const { found } = await search(text).catch(() => ({ found: [] }));
  const exact = found.filter((each) => [each.name, each.title].includes(text));
  const [only] = exact.length === 1 ? exact : found.length === 1 ? found : [];
  dispatchEvent(
    new CustomEvent("go", { detail: only ? foundAddress(only) : address("find", ["q", text]) }),
  );
}

/** The field. Operators find things of all kinds, tenants what is theirs. */
export function finder() {
  const what = state.session?.tenant ? "VM, scope, event" : "host, VM, operation";
  return html`<form class="finder" role="search" aria-label="Everywhere" @submit=${find}>
    <input
      class="find"
      id="find"
      name="q"
      type="search"
      autocomplete="off"
      placeholder="Find ${what}…   /"
      aria-label="Find ${what}"
    />
  </form>`;
}
