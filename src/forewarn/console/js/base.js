// Where the console is on its server.

/** The start of the path of each page. */
export const BASE = "/console/";
