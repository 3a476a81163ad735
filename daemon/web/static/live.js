"use strict";

// One stream of changes for all windows of a browser: it has six connections to a server, and a stream holds one for good.
// The stream is open while a window is seen, and goes on after the position of the last event that a window was told.

const AGAIN_MS = 30000;

const windows = new Map(); // by port, whether its window is seen
let source = null;
let standing = null; // the last message about the stream itself
let [address, position, again] = ["", "", 0];

onconnect = ({ ports: [port] }) => {
  port.onmessage = ({ data }) => heard(port, data);
};

function heard(port, { stream, after, isSeen, isAnew, hasLeft }) {
  if (hasLeft) windows.delete(port);
  else windows.set(port, isSeen);
  address = stream ?? address;
  if (![...windows.values()].includes(true)) close();
  else if (!source || isAnew) open(position || after);
  if (isSeen) port.postMessage({ event: "joined", position, standing });
}

function close() {
  source?.close();
  clearTimeout(again);
  [source, standing] = [null, null];
}

function open(after) {
  close();
  source = new EventSource(after ? `${address}&after=${encodeURIComponent(after)}` : address);
  source.addEventListener("changed", (event) => tell(event, { event: "changed", runs: JSON.parse(event.data).runs ?? null }));
  source.addEventListener("reload", (event) => tell(event, { event: "changed", runs: null }));
  source.addEventListener("live", (event) => tell(event, (standing = { event: "live" })));
  source.addEventListener("away", (event) => tell(event, (standing = { event: "away", servers: JSON.parse(event.data).servers })));
  source.addEventListener("error", lost);
}

function lost(event) {
  const isRefused = source.readyState === EventSource.CLOSED;
  tell(event, (standing = { event: "lost", isRefused }));
  clearTimeout(again);
  if (isRefused) again = setTimeout(() => open(position), AGAIN_MS);
}

function tell({ lastEventId }, message) {
  position = lastEventId || position;
  for (const port of windows.keys()) port.postMessage(message);
}
