// What the wall says in words: what needs a person, the worst first, then what runs and what
// comes next. It has no links and no buttons.

import { groupedBy } from "../groups.js";
import { html, nothing } from "../lit.js";
import { all, state } from "../store.js";
import { isShort, needs, places } from "../room.js";
import { capital, count, number, some } from "../text.js";
import * as time from "../time.js";

/** Lines that a wall has at least; the height of one, and of what is above and below all, in px. */
const LINES_MIN = 6;
const LINE_PX = 66;
const AROUND_PX = 240;
/** From this width on, the wall is larger by half. */
const LARGE_PX = 2200;
/** Lines that fit on the wall. */
const linesMax = () =>
  Math.max(
    LINES_MIN,
    Math.floor((innerHeight / (innerWidth < LARGE_PX ? 1 : 1.5) - AROUND_PX) / LINE_PX),
  );
/** What has happened to a subject, by the kind of problem. @type {Record<string, string>} */
const WORDS = {
  "visit-failed": "failed ",
  "outcome-unknown": "unknown ",
  "campaign-halted": "halted ",
  "driver-failing": "fails ",
};
const BAD = new Set([
  "outcome-unknown",
  "driver-failing",
  "visit-failed",
  "campaign-halted",
  "not-ready",
  "database-lost",
  "no-leader",
  "vms-stopped",
  "vm-not-running",
]);

/** @typedef {{form: string, head: any, tail?: any, small?: any}} Line */

/** @param {any} problem @returns {Line} */
function trouble(problem) {
  const since = time.at(problem.since);
  const lasting = Number.isNaN(since) ? "" : time.roughly(time.now() - since);
  if (problem.kind === "vm-down")
    return {
      form: "e",
      head: some(problem.vms.length ? problem.vms : problem.hosts, 2),
      tail: `down ${lasting}`,
      small: problem.cause || problem.text_shortly,
    };
  return {
    form: BAD.has(problem.kind) ? "e" : "w",
    head: some(
      problem.hosts.length
        ? problem.hosts
        : [problem.target ?? problem.campaign ?? capital(problem.kind.replaceAll("-", " "))],
      2,
    ),
    tail: lasting && `${WORDS[problem.kind] ?? ""}for ${lasting}`,
    small: problem.text_shortly,
  };
}

/** @param {any} wait @returns {Line} */
function missing(wait) {
  const limit = time.at(wait.not_before);
  const polled = time.at(wait.last_poll);
  const isSilent = wait.enabled && time.now() - polled > 10 * 60_000;
  return {
    form: "w",
    head: `${wait.tenant}: ${count(wait.events, "approval")} missing`,
    tail: isSilent ? `silent ${time.roughly(time.now() - polled)}` : "",
    small:
      `${count(wait.vms, "VM")} on ${count(wait.hosts, "host")}; ` +
      `starts by ${time.when(limit)}, ${time.until(limit).replaceAll(" ", "\u00a0")}`,
  };
}

/**
 * @param {any[]} hosts
 * @returns {Line[]} Those that take longer than others alone, the rest by step.
 */
function work(hosts) {
  const found = groupedBy(
    hosts,
    (each) => each.step?.kind ?? each.step?.state?.toLowerCase() ?? each.state,
  );
  return [...found].map(([step, list]) => {
    const since = list
      .map((each) => time.now() - time.at(each.step?.since))
      .filter((each) => !Number.isNaN(each))
      .sort((one, other) => one - other);
    const [first, last] = [since[0] ?? NaN, since.at(-1) ?? NaN];
    const progress =
      list.length === 1 && list[0].progress
        ? ` ${list[0].progress.done}/${list[0].progress.of}`
        : "";
    const span = Number.isNaN(first)
      ? ""
      : list.length === 1 || time.roughly(first) === time.roughly(last)
        ? time.roughly(last)
        : `${time.roughly(first)} to ${time.roughly(last)}`;
    return {
      form: "i",
      head: some(
        list.map((each) => each.host),
        3,
      ),
      tail: `${step}${progress}`,
      small: span && `for ${span}`,
    };
  });
}

/** @param {any} campaign @param {any} terms @returns {Line[]} */
function next(campaign, terms) {
  if (!campaign || campaign.ended) return [];
  const stage = campaign.stages[campaign.stage - 1];
  const until = time.at(stage?.soaks_until);
  const after = campaign.stages[campaign.stage];
  const then = after
    ? `then stage ${campaign.stage + 1}: ${count(after.hosts, "host")}`
    : "it is the last";
  if (!Number.isNaN(until))
    return [
      {
        form: "",
        head: time.when(until),
        tail: `soak of stage ${campaign.stage} ends`,
        small: then,
      },
    ];
  const begins = time.at(terms?.stages[campaign.stage]?.begins);
  if (!Number.isNaN(begins))
    return [
      {
        form: "",
        head: time.when(begins),
        tail: `stage ${campaign.stage} ends`,
        small: `${number(stage.left)} left in it, ${then}`,
      },
    ];
  return stage && campaign.stages.length > 1
    ? [
        {
          form: "",
          head: `${number(stage.left)} left`,
          tail: `in stage ${campaign.stage}`,
          small: then,
        },
      ]
    : [];
}

/** @param {any} capacity @returns {Line[]} Where the host after the next one finds no room. */
const room = (capacity) =>
  places(capacity)
    .filter((each) => isShort(capacity, each))
    .map((each) => ({
      form: "w",
      head: `${each.name}: ${count(each.free, "free VM slot")}`,
      small: `the next host needs ${needs(capacity, each)}`,
    }));

/** @param {any} campaign @param {{waits: any, capacity: any, terms: any, hosts: any[]}} known */
export function says(campaign, { waits, capacity, terms, hosts }) {
  const problems = all("problems")
    .filter((each) => each.kind !== "approval-late" || !waits)
    .map(trouble);
  const bad = problems.filter((each) => each.form === "e");
  const lines = [
    ...bad,
    ...(waits?.waits ?? []).map(missing),
    ...problems.filter((each) => each.form !== "e"),
    ...room(capacity),
    ...work(hosts),
    ...next(campaign, terms),
  ];
  const most = linesMax();
  const shown = lines.slice(0, lines.length > most ? most - 1 : most);
  if (state.isReady && waits && !lines.some((each) => each.form === "e" || each.form === "w"))
    shown.unshift({ form: "f", head: "All is well", small: "Nothing needs a person" });
  return html`<ul class="say">
    ${shown.map(
      (each) =>
        html`<li class=${each.form}>
          <b>${each.head}</b>
          ${each.tail ?? nothing}${each.small ? html`<small>${each.small}</small>` : nothing}
        </li>`,
    )}${
      lines.length > shown.length
        ? html`<li>
            <b>${count(lines.length - shown.length, "more line")}</b><small>on the page Now</small>
          </li>`
        : nothing
    }
  </ul>`;
}
