"use strict";

// The viewer shows a session's desktop in a frame, or in a tab of its own, and follows it wherever it runs. How a browser
// is admitted is described in package proto/visit.
(() => {
  const stage = document.getElementById("stage");
  if (!stage) return;
  const frame = document.getElementById("frame");
  const problem = document.getElementById("problem");
  const hello = "/.well-known/vdi/door/hello";

  // How long the desktop's host has for its hello, and when a failed attempt is repeated.
  const silence = 4000, pause = 10_000;

  let origin = ""; // of the desktop that is shown, empty if none is
  let shown = ""; // the session's origin and epoch that the frame is for
  let wanted = false; // another user's desktop is shown if that is wanted
  let timer = 0;
  // The windows that are being opened. A desktop's page, which replaces the hello page, can't ask for a pass.
  const opening = new Set();

  // follow makes the frame show what the session's element says.
  function follow() {
    const session = document.getElementById("session");
    const visit = document.getElementById("visit");
    if (visit) visit.addEventListener("click", () => { wanted = true; follow(); });
    const open = session?.dataset.origin && ("mine" in session.dataset || wanted);
    const next = open ? session.dataset.origin + " " + session.dataset.epoch : "";
    if (next === shown) return;
    shown = next;
    clearTimeout(timer);
    opening.clear();
    origin = open ? session.dataset.origin : "";
    stage.hidden = !open;
    problem.hidden = true;
    if (open) return load();
    show("about:blank");
  }

  // show loads a page into the frame, so that Back still leads to the page before this one.
  function show(address) { frame.contentWindow.location.replace(address); }

  function load() {
    clearTimeout(timer);
    timer = setTimeout(unreached, silence);
    opening.add(frame.contentWindow);
    show(origin + hello);
  }

  function fail(text) {
    clearTimeout(timer);
    problem.textContent = text;
    problem.hidden = false;
    timer = setTimeout(load, pause);
  }

  async function post(what, fields) {
    const response = await fetch(location.pathname + what, { method: "POST", body: new URLSearchParams(fields), redirect: "error" });
    return { ok: response.ok, ...(await response.json()) };
  }

  // unreached has the console find out why the desktop's host did not answer.
  async function unreached() {
    try {
      const found = await post("/reach", {});
      fail([found.text, found.details].filter(Boolean).join(" "));
    } catch {
      timer = setTimeout(load, pause); // the console does not answer either, which the page says
    }
  }

  addEventListener("message", async (event) => {
    const message = event.data?.vdi;
    if (event.origin !== origin || !message || !opening.has(event.source)) return;
    const inFrame = event.source === frame.contentWindow;
    const explain = (text) => inFrame ? fail(text) : undefined;
    if (message.state === "entered") {
      opening.delete(event.source);
      if (!inFrame) return;
      clearTimeout(timer);
      problem.hidden = true;
      frame.focus();
      return;
    }
    if (inFrame) clearTimeout(timer);
    const host = new URL(origin).host;
    if (message.state === "refused") return explain(message.text);
    if (!message.cookies) return explain(stage.dataset.cookies.replace("{host}", host));
    if (!message.websocket) return explain(stage.dataset.websocket.replace("{host}", host));
    const to = origin;
    try {
      const answer = await post("/pass", { origin: to, challenge: message.challenge });
      if (!answer.ok) return explain(answer.text);
      event.source.postMessage({ pass: answer.pass }, to);
      if (inFrame) timer = setTimeout(unreached, silence);
    } catch {
      if (inFrame) timer = setTimeout(load, pause); // the console does not answer, which the page says
    }
  });

  document.getElementById("tab").addEventListener("click", () => {
    const tab = open(origin + hello, "_blank");
    if (tab) opening.add(tab);
  });
  document.getElementById("full").addEventListener("click", () => frame.requestFullscreen());
  new MutationObserver(follow).observe(document.getElementById("main"), { childList: true });
  follow();
})();
