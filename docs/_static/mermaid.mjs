// Load mermaid from the site itself. If it is missing, diagrams stay text.
await new Promise((resolve) => {
  const script = document.createElement("script");
  script.src = new URL("mermaid.min.js", import.meta.url);
  script.onload = resolve;
  script.onerror = resolve;
  document.head.append(script);
});

const missing = { initialize() {}, async run() {}, registerLayoutLoaders() {} };

export default globalThis.mermaid ?? missing;
