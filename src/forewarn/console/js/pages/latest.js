// The latest changes of everything, for the pages that show some of them.

import { changes } from "../changes.js";

/** Changes that are read: several can be one line. */
const READ = 40;

/** The main changes, and all of them. */
export const main = changes({ main: "true" }, READ);
export const every = changes({}, READ);
