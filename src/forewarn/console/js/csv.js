// Attempts of a campaign as a table of text, with the columns of `campaign report --csv`.

const COLUMNS = [
  "host",
  "stage",
  "operation",
  "state",
  "announced",
  "not_before",
  "started",
  "ended",
  "notice_seconds",
  "notice_used_seconds",
  "work_seconds",
  "recovery_seconds",
  "down_seconds",
  "note",
];

/** @param {any} value */
function cell(value) {
  if (value === null || value === undefined) return "";
  const text = String(value);
  // A spreadsheet would take it for a formula.
  const safe = typeof value === "string" && /^[=+\-@\t]/.test(text) ? `'${text}` : text;
  return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** @param {any[]} attempts */
export const csv = (attempts) =>
  [
    [...COLUMNS, "vms", "approvals"].join(","),
    ...attempts.map((each) =>
      [...COLUMNS.map((name) => cell(each[name])), each.vms.length, each.approvals.length].join(
        ",",
      ),
    ),
    "",
  ].join("\n");
