// Measures the script of each redraw of the page, and makes hosts of a campaign change.
// All answers are those of the service, except for the rows of the hosts that change.
(() => {
  const found = (window.redraws = { ticks: 0, drawn: 0, frames: [], rows: new Map() });
  const encoder = new TextEncoder();
  let stream = null;

  const later = window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (call) =>
    later((at) => {
      const before = shown();
      const began = performance.now();
      call(at);
      const took = performance.now() - began;
      if (shown() !== before) found.frames.push(took);
      found.drawn = shown();
    });

  const shown = () =>
    Number(
      /moves (\d+)\/99/.exec(document.querySelector("#m .card.tl")?.textContent ?? "")?.[1] ?? 0,
    );

  const STATES = ["impacting", "recovering"];
  const change = (row, tick, place) => {
    const from = new Date(Date.now() - 60_000 * ((place % 40) + 2)).toISOString();
    const half = new Date(Date.now() - 60_000 * ((place % 40) + 1)).toISOString();
    const state = STATES[(tick + place) % 2];
    return {
      ...row,
      state,
      progress: { done: tick, of: 99 },
      step: { state: "Working", kind: "draining", since: half },
      segments: [
        { state: "announced", step: null, from, until: half },
        { state, step: "draining", from: half, until: null },
      ],
      blockers: [{ kind: "work", text: `goes on since ${half}`, host: null }],
    };
  };

  const real = window.fetch.bind(window);
  window.fetch = async (path, options) => {
    const answer = await real(path, options);
    const { status, headers } = answer;
    if (String(path).startsWith("/v1/watch")) {
      const both = new TransformStream({ start: (controller) => (stream = controller) });
      answer.body.pipeTo(both.writable).catch(() => {});
      return new Response(both.readable, { status, headers });
    }
    if (!/\/campaigns\/[^/]+\/hosts\?/.test(path)) return answer;
    const body = await answer.json();
    found.campaign = body.campaign;
    for (const row of body.hosts) found.rows.set(row.host, row);
    return new Response(JSON.stringify(body), { status, headers });
  };

  // The messages of one change of the service: a row of each host, and what has happened.
  found.tick = (changing) => {
    found.ticks += 1;
    const entry = {
      id: `z${found.ticks}`,
      at: new Date().toISOString(),
      kind: "VisitStepped",
      subjects: ["host:c0-h000"],
      text: "a host goes on",
      actor: null,
    };
    const told = [...found.rows.values()]
      .filter((row) => Number(row.host.slice(-3)) < changing)
      .map((row) => {
        const place = Number(row.host.slice(-3));
        return ["campaign-hosts", { campaign: found.campaign, ...change(row, found.ticks, place) }];
      });
    const texts = [...told, ["history", entry]].map(
      ([name, body]) => `event: ${name}\ndata: ${JSON.stringify(body)}\n\n`,
    );
    stream.enqueue(encoder.encode(texts.join("")));
  };
})();
