"use strict";

// Every page works without scripts for reading.

const COPIED_MS = 2000;

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select");
  const isCommand = event.ctrlKey || event.altKey || event.metaKey;
  if (event.key === "/" && !typing && !isCommand) {
    event.preventDefault();
    document.querySelector(".jump input")?.focus();
  }
});

// A name that is long, or shortened, is copied whole.
document.documentElement.classList.add("scripted");
document.addEventListener("click", async ({ target }) => {
  const button = target.closest("[data-copy]");
  if (!button) return;
  button.textContent = (await isCopied(button.dataset.copy)) ? "✓" : "✕";
  setTimeout(() => (button.textContent = "⧉"), COPIED_MS);
});

async function isCopied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = document.body.appendChild(document.createElement("textarea")); // over plain HTTP there is no clipboard
    field.value = text;
    field.select();
    const isDone = document.execCommand("copy");
    field.remove();
    return isDone;
  }
}

// A log opens at its error, or at the line that was looked for, else at its end.
function showInLog() {
  const log = document.querySelector("pre.log");
  const place = log?.querySelector("#at");
  if (place) log.scrollTop += place.getBoundingClientRect().top - log.getBoundingClientRect().top - log.clientHeight / 4;
  else if (log?.hasAttribute("data-end")) log.scrollTop = log.scrollHeight;
}

showInLog();

// A page with `data-live` follows the changes that it shows: it reads itself again and replaces what differs.

const main = document.querySelector("main[data-live]");
const sign = document.querySelector("#live");
const reason = document.querySelector("#live-why");
const LIVE = { text: "live", why: "" };
const NO_ANSWER = { text: "no connection", why: "The web server does not answer; this page tries again" };
const NO_STREAM = { text: "not live", why: "The web server refuses a stream; this page is read once a minute" };
const LOG_IN = { text: "log in again", why: "The session has ended" };
const BROKEN = { text: "reload", why: "This page cannot show its changes: its script failed" };
const RELOAD = { text: "reload", why: "The server has a new version of this page" };
const POLLED = { text: "not live", why: "Windows of this browser cannot share a stream; this page is read every ten seconds" };
const POLL_S = 10;
const AGAIN_MS = 5000;
const READ_MS = 60000; // a proxy that has lost the connection never says so
const SETTLE_MS = 30000; // so long after a change a standby that the page is read of may be behind
const FACTOR = 10; // a page that takes long to read is read less often, so that many open pages cannot overload a server

const state = { page: null, stream: null };
let [timer, regular, notBefore, changedAt] = [0, 0, 0, 0];
let [isReading, isStale] = [false, false];

function show(part, what) {
  state[part] = what;
  const shown = state.page ?? state.stream ?? LIVE;
  sign.hidden = false;
  sign.classList.toggle("away", shown !== LIVE);
  if (sign.textContent !== shown.text) sign.textContent = shown.text;
  if (reason.textContent !== shown.why) reason.textContent = shown.why;
}

function readAgain() {
  isStale = true;
  if (isReading || document.hidden) return;
  clearTimeout(timer);
  timer = setTimeout(read, Math.max(0, notBefore - performance.now()));
}

// How often depends on what was read: the page of a task at work is read every few seconds, as is one of a standby after a change.
function readRegularly() {
  clearTimeout(regular);
  const { every, settle, poll } = main.dataset;
  const settles = settle && performance.now() - changedAt < SETTLE_MS;
  regular = setTimeout(readAgain, Math.min(every, settles ? settle : every, poll ?? every) * 1000);
}

function readChange() {
  changedAt = performance.now();
  readAgain();
}

async function read() {
  isStale = false;
  isReading = true;
  const began = performance.now();
  const problem = await replaced();
  show("page", problem);
  const pause = problem ? AGAIN_MS : Math.max(main.dataset.pause * 1000, FACTOR * (performance.now() - began));
  notBefore = performance.now() + pause;
  isReading = false;
  readRegularly();
  if (isStale || problem === NO_ANSWER) readAgain();
}

// Returns what is wrong.
async function replaced() {
  const [answer, text] = await answered();
  if (!answer) return NO_ANSWER;
  if (answer.type === "opaqueredirect") return LOG_IN;
  const fresh = new DOMParser().parseFromString(text, "text/html");
  if (!answer.ok) return { text: "away", why: fresh.querySelector("[role=alert]")?.textContent ?? answer.statusText };
  if (script(fresh) !== script(document)) return RELOAD;
  try {
    replace(fresh);
    return null;
  } catch (error) {
    reportError(error);
    return BROKEN;
  }
}

async function answered() {
  try {
    const answer = await fetch(location.href, { redirect: "manual", signal: AbortSignal.timeout(READ_MS) });
    return [answer, await answer.text()];
  } catch (error) {
    if (error.name === "TimeoutError") tellWorker({ isAnew: true }); // the stream may have been lost in the same way
    return [];
  }
}

const script = (page) => page.querySelector("script[src]")?.getAttribute("src");

function replace(fresh) {
  const log = main.querySelector(".log");
  const atEnd = log && log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
  const hadPlace = log?.querySelector("#at");
  morph(main, fresh.querySelector("main"));
  if (atEnd && !hadPlace && log.querySelector("#at")) showInLog(); // the task has failed meanwhile
  else if (atEnd) log.scrollTop = log.scrollHeight;
  document.title = fresh.title;
}

// What makes two nodes the same one. The address counts: a link never leads elsewhere while a finger is above it.
function keyOf(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return node.nodeName;
  const named = node.matches("section, tr") ? node.querySelector("h2, a[href]") : null;
  const name = ["id", "href", "action", "name"].map((attribute) => node.getAttribute(attribute)).join(" ");
  return `${node.nodeName} ${name} ${named?.getAttribute("href") ?? named?.textContent ?? ""}`;
}

// Nodes that stay the same keep their focus, their scroll position, their text, and whether they are open.
function morph(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  old.nodeValue = fresh.nodeValue; // of a text; elements have none
  if (old.nodeType !== Node.ELEMENT_NODE) return;
  const kept = ["open", "data-live", "data-poll"];
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && !kept.includes(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (!kept.includes(name)) old.setAttribute(name, value);
  morphChildren(old, [...fresh.childNodes]);
}

function morphChildren(old, wanted) {
  const known = new Map();
  for (const node of old.childNodes) {
    const key = keyOf(node);
    if (known.has(key)) known.get(key).push(node);
    else known.set(key, [node]);
  }
  const pairs = wanted.map((child) => [known.get(keyOf(child))?.shift(), child]);
  for (const left of known.values()) for (const node of left) node.remove();
  let place = old.firstChild;
  for (const [same, child] of pairs) {
    if (same && same === place) place = place.nextSibling;
    else old.insertBefore(same ?? child, place);
    if (same) morph(same, child);
  }
}

// Windows share one stream: a worker has it, and tells each window what changed.
let worker = null;

function tellWorker(message) {
  const { live, after } = main.dataset;
  worker?.port.postMessage({ stream: live, after, isSeen: !document.hidden, ...message });
}

function follow() {
  try {
    worker = new SharedWorker(main.dataset.worker);
  } catch {
    pollInstead();
    return;
  }
  worker.onerror = pollInstead;
  worker.port.onmessage = ({ data }) => HEARD[data.event](data);
  tellWorker();
}

function pollInstead() {
  worker = null;
  show("stream", POLLED);
  main.dataset.poll = POLL_S;
  readRegularly();
}

const HEARD = {
  changed: ({ runs }) => {
    if (isAbout(runs)) readChange();
  },
  joined: ({ position, standing }) => {
    if (position !== main.dataset.after) readAgain(); // there was a change between the read of this page and now
    if (standing) HEARD[standing.event](standing);
  },
  live: () => {
    if (state.stream) readAgain();
    show("stream", null);
  },
  away: ({ servers }) => {
    show("stream", { text: `${Object.keys(servers).join(", ")} away`, why: Object.values(servers).join("; ") });
  },
  lost: ({ isRefused }) => {
    show("stream", isRefused ? NO_STREAM : NO_ANSWER);
    if (isRefused) readAgain(); // which says why
  },
};

// Whether one of these runs is shown; null stands for any runs.
function isAbout(runs) {
  const { dag, run } = main.dataset;
  return !runs || !dag || runs.some(([ofDag, id]) => ofDag === dag && (!run || id === run));
}

if (main) {
  follow();
  // A stream is open while a window is seen.
  document.addEventListener("visibilitychange", () => {
    tellWorker();
    if (!document.hidden) readAgain();
  });
  addEventListener("pagehide", () => tellWorker({ isSeen: false, hasLeft: true }));
  addEventListener("pageshow", ({ persisted }) => {
    if (persisted) tellWorker();
  });
  readRegularly();
}
