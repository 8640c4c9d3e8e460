// Checks the modules of the console: their syntax, and that each imported name exists.
//
//     node --experimental-vm-modules tests/support/check_modules.mjs DIRECTORY

import { readFileSync, readdirSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { SourceTextModule } from "node:vm";

const modules = new Map();

function load(path) {
  if (!modules.has(path))
    modules.set(path, new SourceTextModule(readFileSync(path, "utf8"), { identifier: path }));
  return modules.get(path);
}

const directory = resolve(process.argv[2]);
const names = readdirSync(directory, { recursive: true }).filter((name) => name.endsWith(".js"));
if (!names.length) throw new Error(`no module in ${directory}`);
for (const name of names) {
  const module = load(join(directory, name));
  if (module.status === "unlinked")
    await module.link((to, from) => load(resolve(dirname(from.identifier), to)));
}
