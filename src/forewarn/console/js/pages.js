// All pages: the path of each, and its module.

import { BASE } from "./base.js";

/**
 * @typedef {object} Page
 * @property {(params: string[]) => string} title The title, without the number of problems.
 * @property {(params: string[]) => any} view What is shown, drawn again after each change.
 * @property {(params: string[]) => import("./store.js").Resource[]} [uses] The lists that it needs.
 * @property {(params: string[]) => void} [enter] Called when the page is opened.
 * @property {() => void} [leave] Called when another page is opened.
 * @property {Record<string, () => void>} [keys] What single keys do on it; none of them gives an
 *   order.
 * @property {boolean} [isBare] Whether it has no header, as on a wall.
 */

/**
 * @typedef {object} Route
 * @property {RegExp} path What follows /console/; its groups are the parameters.
 * @property {() => Promise<{page: Page}>} load
 * @property {string} [nav] Its name in the navigation.
 * @property {string} [href] Where the navigation leads.
 * @property {"operator" | "tenant" | "simulator" | "both"} who A simulator has the pages of
 *   operators too.
 */

/** @type {Route[]} */
export const ROUTES = [
  {
    path: /^$/,
    load: () => import("./pages/simulator.js"),
    nav: "Simulator",
    href: "",
    who: "simulator",
  },
  { path: /^$/, load: () => import("./pages/now.js"), nav: "Now", href: "", who: "operator" },
  {
    path: /^campaigns\/([^/]+)\/report$/,
    load: () => import("./pages/report.js"),
    who: "operator",
  },
  { path: /^plan$/, load: () => import("./pages/planning.js"), who: "operator" },
  { path: /^campaigns\/([^/]+)$/, load: () => import("./pages/campaign.js"), who: "operator" },
  {
    path: /^campaigns$/,
    load: () => import("./pages/campaigns.js"),
    nav: "Campaigns",
    href: "campaigns",
    who: "operator",
  },
  {
    path: /^hosts$/,
    load: () => import("./pages/hosts.js"),
    nav: "Hosts",
    href: "hosts",
    who: "operator",
  },
  {
    path: /^reports$/,
    load: () => import("./pages/reports.js"),
    nav: "Reports",
    href: "reports",
    who: "operator",
  },
  { path: /^waits$/, load: () => import("./pages/missing.js"), who: "operator" },
  { path: /^find$/, load: () => import("./pages/found.js"), who: "both" },
  { path: /^wall(?:\/([^/]+))?$/, load: () => import("./pages/wall.js"), who: "operator" },
  {
    path: /^(?:vms)?$/,
    load: () => import("./pages/tenant.js"),
    nav: "VMs",
    href: "vms",
    who: "tenant",
  },
  {
    path: /^history$/,
    load: () => import("./pages/history.js"),
    nav: "History",
    href: "history",
    who: "both",
  },
  {
    path: /^availability$/,
    load: () => import("./pages/availability.js"),
    nav: "Availability",
    href: "availability",
    who: "tenant",
  },
];

/**
 * Whether somebody has a page.
 * @param {Route} route
 * @param {string} kind Who it is: operator, tenant or simulator.
 */
export const has = (route, kind) =>
  route.who === "both" ||
  route.who === kind ||
  (kind === "simulator" && route.who === "operator" && route.nav !== "Now");

/** @param {string} path The path of an address. @param {string} kind */
export function find(path, kind) {
  const rest = path.startsWith(BASE) ? path.slice(BASE.length).replace(/\/$/, "") : "";
  for (const route of ROUTES) {
    if (!has(route, kind)) continue;
    const match = route.path.exec(rest);
    if (match) {
      try {
        return { route, params: match.slice(1).map((each) => decodeURIComponent(each ?? "")) };
      } catch {
        // No address of ours: a percent sign without a code.
        return null;
      }
    }
  }
  return null;
}
