// Each answer of the service has a hostile text wherever it has the word "quokka".
(() => {
  const TEXT =
    "<img src=x onerror='document.title=1'>\\u202e\\u2066\\u200b\\u0007\\u3164\\udb40\\udc41";
  const real = window.fetch.bind(window);
  window.fetch = async (path, options) => {
    const answer = await real(path, options);
    if (!String(path).includes("/v1/") || !answer.body) return answer;
    const { status, headers } = answer;
    const change = new TransformStream({
      transform: (text, controller) => controller.enqueue(text.replaceAll("quokka", TEXT)),
    });
    const body = answer.body
      .pipeThrough(new TextDecoderStream())
      .pipeThrough(change)
      .pipeThrough(new TextEncoderStream());
    return new Response(body, { status, headers });
  };
})();
