// The part of the address that says what one looks at: a link shows a colleague the same.

import { changed } from "./store.js";

/** @param {string} name */
export const asked = (name) => new URLSearchParams(location.search).get(name) ?? "";

/**
 * @param {Record<string, string>} values An empty value is left out of the address.
 */
export function look(values) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(values)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  history.replaceState(null, "", location.pathname + (text ? `?${text}` : ""));
  changed({ now: true });
}
