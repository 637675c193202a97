/* What OpsLedger's pages do beyond links and forms. Everything works without it; nothing here is stored in the browser.

   1 answers   every error is visible and announced, and never put where it does not belong
   2 sessions  a session that ended costs nothing that was typed, and executes nothing
   3 sending   one press sends once
   4 polling   parts of the page stay fresh, but never under somebody's fingers
   5 keyboard  single keys, unless switched off, unless somebody types
   6 bits      copying, announcements, the clock */
"use strict";
(() => {
  const root = document.documentElement;
  root.dataset.script = "on";
  const $ = (selector, within) => (within || document).querySelector(selector);
  const $$ = (selector, within) => [...(within || document).querySelectorAll(selector)];
  const alerts = () => $("#alerts");

  // 1 Answers

  const FRAGMENT = "X-Ops-Fragment", TOKEN = "X-Ops-Token", SIGN_IN = "X-Ops-Sign-In";

  function showNote(id, fill) {
    const note = $("#" + id).content.cloneNode(true);
    if (fill) fill(note);
    alerts().replaceChildren(note);
    alerts().scrollIntoView({ block: "nearest" });
  }

  document.addEventListener("htmx:beforeSwap", (event) => {
    const { xhr } = event.detail;
    if (xhr.status < 400) return;
    event.detail.shouldSwap = xhr.getResponseHeader(FRAGMENT) === "1";
    if (!event.detail.shouldSwap) {
      showNote("note-odd-answer", (note) => { $("[data-status]", note).textContent = xhr.status; });
    }
  });

  document.addEventListener("htmx:afterSwap", (event) => {
    const { target, xhr } = event.detail;
    if (!xhr) return; // a poll's
    if (target.id === "alerts") target.scrollIntoView({ block: "nearest" });
    else if (xhr.status < 400) alerts().replaceChildren();
  });

  for (const name of ["htmx:sendError", "htmx:timeout"]) {
    document.addEventListener(name, () => showNote("note-no-answer"));
  }

  document.addEventListener("ops:announce", (event) => event.detail.texts.forEach(announce));

  function announce(text) {
    const toast = $("#toast").content.cloneNode(true).firstElementChild;
    $("span", toast).textContent = text;
    $("#toasts").append(toast);
    setTimeout(() => toast.remove(), 8000);
  }

  // 2 Sessions

  const EDITABLE = "input:not([type=hidden],[type=search],[type=checkbox],[type=radio],[type=submit],[readonly]),textarea:not([readonly]),[contenteditable=true]";

  function somethingTyped(within) {
    return $$(EDITABLE, within).some((field) => !field.closest(".search") && field.value !== field.defaultValue);
  }

  let sessionEnded = false;

  document.addEventListener("htmx:beforeOnLoad", (event) => {
    const { xhr } = event.detail;
    const fresh = xhr.getResponseHeader(TOKEN);
    if (fresh) useToken(fresh);
    if (xhr.status !== 401) return;
    sessionEnded = true;
    if (somethingTyped() || !xhr.getResponseHeader(SIGN_IN)) return;
    event.preventDefault();
    location.assign(xhr.getResponseHeader(SIGN_IN));
  });

  function useToken(token) {
    $$("input[name=csrfmiddlewaretoken]").forEach((field) => { field.value = token; });
  }

  async function lookAtSession() {
    const answer = await fetch("/accounts/session/", { cache: "no-store" }).catch(() => null);
    if (!answer || !answer.ok) return;
    const state = await answer.json();
    if (!state.signed_in) return;
    if (state.person !== root.dataset.person) {
      showNote("note-other-person", (note) => { $("a", note).href = location.href; });
      return;
    }
    sessionEnded = false;
    useToken(state.token);
    showNote("note-signed-in");
    startPolling();
  }

  // Back from the tab where somebody signed in; and Back to a page that the browser had kept.
  document.addEventListener("visibilitychange", () => { if (!document.hidden && sessionEnded) lookAtSession(); });
  addEventListener("focus", () => { if (sessionEnded) lookAtSession(); });
  addEventListener("pageshow", (event) => {
    $$("[data-busy]").forEach(free);
    if (!event.persisted) return;
    if (somethingTyped()) { sessionEnded = true; lookAtSession(); } else location.reload();
  });

  // htmx notes the current address here, search words included; nothing of a page outlives it
  addEventListener("pagehide", () => sessionStorage.removeItem("htmx-current-path-for-history"));

  // 3 Sending: the server refuses the second of two equal requests; this only keeps it from being sent

  const free = (element) => { element.removeAttribute("data-busy"); };
  const isPost = (form) => form.method === "post";

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!isPost(form) || form.method === "dialog") return;
    if (form.hasAttribute("data-busy")) { event.preventDefault(); event.stopImmediatePropagation(); return; }
    if (form.matches("[hx-post],[data-hx-post]")) return;
    form.dataset.busy = "";
    setTimeout(() => free(form), 10000);
  }, true);

  // htmx would queue a second click and send it after the first
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[hx-post]:not(form)");
    if (button && button.hasAttribute("data-busy")) { event.preventDefault(); event.stopImmediatePropagation(); }
  }, true);
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (event.detail.requestConfig.verb !== "get") event.detail.elt.dataset.busy = "";
  });
  document.addEventListener("htmx:afterRequest", (event) => free(event.detail.elt));

  // 4 Polling: <div id="run" data-poll="/replays/…/" data-poll-seconds="2">. A final one comes back without data-poll.

  const SLOWEST_SECONDS = 60, FAILURES_BEFORE_NOTE = 3;
  const polls = new Map();

  function startPolling() {
    $$("[data-poll]").forEach((element) => {
      if (!element.id || polls.has(element.id)) return;
      const first = Number(element.dataset.pollSeconds) || 5;
      polls.set(element.id, { first, seconds: first, failures: 0, timer: 0 });
      plan(element.id);
    });
  }

  function plan(id) {
    const poll = polls.get(id);
    if (!poll) return;
    clearTimeout(poll.timer);
    poll.timer = setTimeout(() => look(id), poll.seconds * 1000);
  }

  function inUse(element) {
    const active = document.activeElement;
    const typing = active && element.contains(active) && active.matches(EDITABLE + ",select");
    const chosen = getSelection() && !getSelection().isCollapsed && element.contains(getSelection().anchorNode);
    return typing || chosen || somethingTyped(element) || $("[data-busy],:popover-open,dialog[open]", element) !== null
      || $$("input[type=checkbox],input[type=radio]", element).some((tick) => tick.checked !== tick.defaultChecked);
  }

  const withoutTokens = (html) => html.replace(/(name="csrfmiddlewaretoken" value=")[^"]*/g, "$1");

  async function look(id) {
    const poll = polls.get(id), element = document.getElementById(id);
    if (!element || !element.hasAttribute("data-poll")) { polls.delete(id); return; }
    if (document.hidden || sessionEnded) { poll.waiting = true; return; }
    if (inUse(element)) { plan(id); return; }
    const headers = { "HX-Request": "true", "HX-Target": id, "HX-Current-URL": location.href };
    const answer = await fetch(element.dataset.poll, { headers, cache: "no-store", redirect: "error" }).catch(() => null);
    if (answer && answer.status === 401) { pollEndedSession(answer); return; }
    if (!answer || !answer.ok || answer.headers.get(FRAGMENT) !== "1") { pollFailed(id, poll); return; }
    const html = await answer.text();
    const current = document.getElementById(id);
    poll.failures = 0;
    if (withoutTokens(html) === poll.html) poll.seconds = Math.min(poll.seconds * 1.5, SLOWEST_SECONDS);
    else if (current && !inUse(current)) {
      poll.seconds = poll.first;
      poll.html = withoutTokens(html);
      htmx.swap(current, html, { swapStyle: "outerHTML", swapDelay: 0, settleDelay: 0 });
    }
    plan(id);
  }

  function pollFailed(id, poll) {
    poll.failures += 1;
    poll.seconds = Math.min(poll.seconds * 2, SLOWEST_SECONDS);
    if (poll.failures === FAILURES_BEFORE_NOTE) showNote("note-no-updates");
    plan(id);
  }

  async function pollEndedSession(answer) {
    sessionEnded = true;
    if (!somethingTyped()) { location.assign(answer.headers.get(SIGN_IN)); return; }
    const note = new DOMParser().parseFromString(await answer.text(), "text/html").body;
    alerts().replaceChildren(...note.childNodes);
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden || sessionEnded) return;
    polls.forEach((poll, id) => {
      if (!poll.waiting) return;
      poll.waiting = false;
      poll.seconds = poll.first;
      look(id);
    });
  });
  document.addEventListener("htmx:afterSettle", startPolling);

  // 5 Keyboard

  const ROWS = "[data-row],.holds tbody tr:not(.grp)";
  const isTyping = (element) => element.closest(
    "input:not([type=checkbox],[type=radio],[type=submit],[type=button]),textarea,select,[contenteditable=true]");
  const isShown = (element) => element.checkVisibility({ visibilityProperty: true });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || event.defaultPrevented) return;
    if (isTyping(event.target)) { if (event.key === "Escape") event.target.blur(); return; }
    if (root.dataset.shortcuts !== "on" || $("dialog[open]")) return;
    if (press(event.key, event.target)) event.preventDefault();
  });

  function press(key, target) {
    if (key === "?") { const keys = $("#keys"); if (keys) keys.showModal(); return Boolean(keys); }
    if (key === "Enter") return openRow(target);
    if (key.length !== 1) return false;
    const cursor = $(".cursor");
    const own = (cursor && named(key, cursor)) || named(key, document);
    if (own) { use(own); return true; }
    if (key === "j" || key === "k") return moveCursor(key === "j" ? 1 : -1);
    if (key === "x") return tickRow(cursor);
    return false;
  }

  // A field gets the cursor. What needs a reason is opened or chosen, and the cursor goes there: no key gives an answer.
  function use(own) {
    if (own.matches("summary")) {
      own.click();
      const field = own.parentElement.open && $$("input,textarea,select", own.parentElement).find((one) => one.type !== "hidden");
      if (field) field.focus();
    } else if (own.dataset.cursor) {
      own.click();
      const reason = $(own.dataset.cursor);
      if (reason) reason.focus();
    } else if (own.matches("input,textarea,select")) own.focus();
    else own.click();
  }

  const named = (key, within) => $$("[aria-keyshortcuts]", within).find(
    (element) => element.getAttribute("aria-keyshortcuts").split(" ").includes(key)
      && element.getAttribute("aria-disabled") !== "true" && !element.disabled && isShown(element));

  function moveCursor(step) {
    const rows = $$(ROWS).filter(isShown);
    if (!rows.length) return false;
    const at = rows.findIndex((row) => row.classList.contains("cursor"));
    const next = rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step))];
    $$(".cursor").forEach((row) => row.classList.remove("cursor"));
    next.classList.add("cursor");
    const link = $("a[href]", next);
    if (link) link.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
    return true;
  }

  function openRow(target) {
    const cursor = $(".cursor");
    const idle = target === document.body || target.id === "main" || target.matches("input[type=checkbox]");
    const link = cursor && idle && $("a[href]", cursor);
    if (link) link.click();
    return Boolean(link);
  }

  function tickRow(cursor) {
    const box = cursor && $("input[type=checkbox]", cursor);
    if (box) box.click();
    return Boolean(box);
  }

  // 6 Bits

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    announce(await copy(button.dataset.copy) ? "Copied." : "Your browser does not allow copying. Select the text and copy it yourself.");
  });

  async function copy(text) {
    if (navigator.clipboard && window.isSecureContext) {
      return navigator.clipboard.writeText(text).then(() => true, () => false);
    }
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "vh";
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    return copied;
  }

  document.addEventListener("htmx:afterSettle", (event) => {
    if (event.detail.boosted) $("#main").focus({ preventScroll: true });
  });

  document.addEventListener("change", (event) => {
    if (event.target.matches("select[data-submit]")) event.target.form.requestSubmit();
  });

  // A header's tick ticks the rows of its page, and shows whether all, some or none of them are.
  const rowsOf = (all) => $$(`input[type=checkbox][name="${all.dataset.ticks}"]`, all.form);

  function showTicked() {
    $$("[data-ticks]").forEach((all) => {
      const rows = rowsOf(all), ticked = rows.filter((row) => row.checked).length;
      all.checked = rows.length > 0 && ticked === rows.length;
      all.indeterminate = ticked > 0 && ticked < rows.length;
    });
  }

  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-ticks]")) rowsOf(event.target).forEach((row) => { row.checked = event.target.checked; });
    showTicked();
  });
  document.addEventListener("reset", () => setTimeout(showTicked));

  function tick() {
    const clock = $("[data-clock]");
    if (!clock || !clock.dataset.zone) return;
    const now = new Date();
    const parts = { hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone: clock.dataset.zone };
    clock.dateTime = now.toISOString();
    clock.firstChild.textContent = new Intl.DateTimeFormat("en-GB", parts).format(now);
  }

  // the chosen tab, in a row that is wider than the window; the page itself stays where it is
  function bringIntoSight(tab) {
    const row = tab.closest(".tabs");
    row.scrollLeft += Math.max(0, tab.getBoundingClientRect().right + 24 - row.getBoundingClientRect().right);
  }

  function start() {
    $$("#toasts .toast").forEach((toast) => setTimeout(() => toast.remove(), 8000));
    $$(".tabs [aria-current]").forEach(bringIntoSight);
    startPolling();
    showTicked();
    tick();
    setInterval(tick, 15000);
  }
  document.readyState === "loading" ? document.addEventListener("DOMContentLoaded", start) : start();
})();
