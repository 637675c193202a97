/* Who else reads this page: told every 15 s while the tab is in sight. Its failures are nobody's concern. */
"use strict";
(() => {
  const EVERY_SECONDS = 15;
  let told = "";

  const place = () => document.querySelector("[data-presence]");

  async function beat() {
    const here = place();
    if (!here || document.hidden) return;
    const token = document.querySelector("input[name=csrfmiddlewaretoken]");
    const headers = { "HX-Request": "true", "HX-Target": here.id, "X-CSRFToken": token ? token.value : "" };
    const answer = await fetch(here.dataset.presence, { method: "POST", headers, cache: "no-store", redirect: "error" }).catch(() => null);
    if (!answer || !answer.ok || answer.headers.get("X-Ops-Fragment") !== "1") return;
    const html = (await answer.text()).trim(), now = place();
    if (!now || now.dataset.presence !== here.dataset.presence || (html === told && now.innerHTML !== "")) return;
    told = html;
    htmx.swap(now, html, { swapStyle: "innerHTML", swapDelay: 0, settleDelay: 0 });
  }

  document.addEventListener("visibilitychange", beat);
  setInterval(beat, EVERY_SECONDS * 1000);
  document.readyState === "loading" ? document.addEventListener("DOMContentLoaded", beat) : beat();
})();
