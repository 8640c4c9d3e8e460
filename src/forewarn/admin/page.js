"use strict";
const make = (tag, text, kind) => {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (kind) node.className = kind;
  return node;
};
let schemas = {};
const resolved = (schema) => {
  const ref = schema && schema.$ref;
  return ref ? schemas[ref.split("/").pop()] || {} : schema || {};
};
const typeOf = (schema) => {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(" or ");
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(", ");
  if (schema.type === "array") return "list of " + typeOf(schema.items);
  return schema.type || "anything";
};
const table = (rows) => {
  const node = make("table");
  for (const row of rows) {
    const line = make("tr");
    row.forEach((text, column) => {
      const cell = make("td");
      cell.append(column === 0 ? make("code", text) : make("span", text));
      line.append(cell);
    });
    node.append(line);
  }
  return node;
};
const fields = (schema) => {
  const needed = new Set(schema.required || []);
  return Object.entries(schema.properties || {}).map(([name, each]) => [
    name,
    typeOf(each) + (needed.has(name) ? ", needed" : ""),
    each.description || "",
  ]);
};
const route = (path, verb, spec) => {
  const node = make("details");
  const head = make("summary");
  head.append(make("span", verb.toUpperCase(), "verb"), make("code", path), " ");
  const about = spec.description || "";
  head.append(make("span", about.split("\n\n")[0], "about"));
  node.append(head);
  for (const text of about.split("\n\n").slice(1)) node.append(make("p", text));
  if ((spec.parameters || []).length) {
    node.append(
      make("h4", "Parameters"),
      table(
        spec.parameters.map((each) => [each.name, typeOf(each.schema), each.description || ""]),
      ),
    );
  }
  const body = spec.requestBody && spec.requestBody.content["application/json"];
  if (body) {
    const schema = resolved(body.schema);
    node.append(make("h4", "Body"), table(fields(schema)));
    const example = (schema.examples || [])[0];
    if (example) {
      const command =
        `curl -X POST ${location.origin}${path} \\\n` +
        `  -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(example)}'`;
      node.append(make("h4", "Example"), make("pre", command));
    }
  }
  node.append(make("h4", "Answers"));
  for (const [status, each] of Object.entries(spec.responses || {})) {
    const content = each.content && each.content["application/json"];
    const schema = content && content.schema;
    node.append(
      make(
        "p",
        `${status} ${each.description || ""} ` +
          (schema && schema.$ref ? `(${typeOf(schema)})` : ""),
      ),
    );
    if (schema && schema.$ref && Number(status) < 300) {
      node.append(table(fields(resolved(schema))));
    }
  }
  return node;
};
fetch("openapi.json")
  .then((answer) => answer.json())
  .then((spec) => {
    schemas = (spec.components || {}).schemas || {};
    document.title = spec.info.title;
    document.getElementById("title").textContent = `${spec.info.title} ${spec.info.version}`;
    document.getElementById("about").prepend(spec.info.description + " ");
    const groups = new Map();
    for (const [path, verbs] of Object.entries(spec.paths)) {
      for (const [verb, each] of Object.entries(verbs)) {
        const tag = (each.tags || ["other"])[0];
        if (!groups.has(tag)) groups.set(tag, []);
        groups.get(tag).push(route(path, verb, each));
      }
    }
    const main = document.getElementById("main");
    for (const [tag, routes] of groups) {
      const section = make("section");
      section.append(make("h2", tag), ...routes);
      main.append(section);
    }
    const section = make("section");
    section.append(make("h2", "shapes"));
    for (const [name, schema] of Object.entries(schemas).sort()) {
      const node = make("details");
      const head = make("summary");
      head.append(make("code", name), " ", make("span", schema.description || "", "about"));
      node.append(head, table(fields(schema)));
      section.append(node);
    }
    main.append(section);
  })
  .catch((error) => {
    document.getElementById("main").textContent = "openapi.json cannot be read: " + error;
  });
