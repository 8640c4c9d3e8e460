// Whether the page is being printed. A printer gets what is known when it asks: there is no time
// to fetch more.

import { drawNow } from "./store.js";

const PRINT = matchMedia("print");
let isPrinting = false;

/** @param {boolean} is */
function turn(is) {
  isPrinting = is;
  drawNow();
}
addEventListener("beforeprint", () => turn(true));
addEventListener("afterprint", () => turn(false));
PRINT.addEventListener("change", () => drawNow());

export const isOnPaper = () => isPrinting || PRINT.matches;
