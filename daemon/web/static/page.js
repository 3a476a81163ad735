"use strict";

// The only script: every page works without it for reading.

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select");
  if (event.key === "/" && !typing) {
    event.preventDefault();
    document.querySelector(".jump input")?.focus();
  }
});
