// A page as one file: its data is in the document, and nothing is asked for.

import { render } from "./lit.js";
import { changed, drawBy } from "./store.js";
import { parse } from "./text.js";

/** Show a view of the data; again when a person opens a row. @param {(data: any) => any} view */
export function show(view) {
  const data = parse(document.getElementById("sheet-data")?.textContent ?? "null");
  drawBy(() => render(view(data), /** @type {HTMLElement} */ (document.getElementById("m"))));
  changed({ now: true });
}
