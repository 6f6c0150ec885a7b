// Refreshes the overview's figures while somebody looks at them and does nothing else with them.
"use strict";
(() => {
  const area = document.getElementById("ledgence-overview");
  const summary = document.getElementById("ledgence-summary");
  const controls = document.getElementById("ledgence-refresh");
  const [choice, note] = [controls.querySelector("input"), controls.querySelector("[role=status]")];
  const period = Number(area.dataset.seconds) * 1000;
  let etag = area.dataset.etag, pause = period, timer;

  const isInUse = () => area.contains(document.activeElement) || area.contains(getSelection().anchorNode) && !getSelection().isCollapsed;
  const say = (element, text) => { if (element.textContent !== text) element.textContent = text; };
  const wait = () => { clearTimeout(timer); timer = setTimeout(refresh, pause); };

  function show(html) {
    const open = [...area.querySelectorAll("details[open]")].map((details) => details.id);
    area.innerHTML = html;
    open.forEach((id) => document.getElementById(id)?.setAttribute("open", ""));
    say(summary, area.querySelector("[data-summary]").dataset.summary);
  }

  async function refresh() {
    if (document.hidden || isInUse() || !choice.checked) return wait();
    try {
      const reply = await fetch(area.dataset.address, { headers: { "If-None-Match": etag }, redirect: "manual", cache: "no-store" });
      if (reply.status === 403 || reply.type === "opaqueredirect") return say(note, note.dataset.signedOut);
      if (reply.status !== 304 && !reply.ok) throw new Error(reply.status);
      if (reply.ok) { etag = reply.headers.get("ETag"); show(await reply.text()); }
      pause = period;
      say(note, "");
    } catch {
      pause = Math.min(2 * pause, 8 * period);
      say(note, note.dataset.stale);
    }
    wait();
  }

  controls.hidden = false;
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
  wait();
})();
