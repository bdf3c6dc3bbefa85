"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (name) => document.getElementById(name);
/* An element with attributes and children; what is not an element becomes text, never markup. */
function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("--")) made.style.setProperty(name, value);
    else if (value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}
const number = (value) => value.toLocaleString("en-US");
const colourOf = (reason) => `var(--r${data.reasons.indexOf(reason)})`;
const coloured = (reason) => getComputedStyle(document.documentElement).getPropertyValue(`--r${data.reasons.indexOf(reason)}`).trim();
const themed = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
for (const mark of document.querySelectorAll("[data-reason]")) mark.style.background = colourOf(mark.dataset.reason);

/* Who wants to know when an instruction is chosen (its number, who chose it) or the colours change. */
const listeners = { chosen: [], theme: [], window: [] };
const tell = (event, ...details) => listeners[event].forEach((listener) => listener(...details));

const THEMES = ["system", "light", "dark"];
const asTheSystem = matchMedia("(prefers-color-scheme: dark)");
let theme = "system";
function dress() {
  const dark = theme === "dark" || (theme === "system" && asTheSystem.matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  byId("theme").textContent = `theme: ${theme}`;
  tell("theme");
}
byId("theme").addEventListener("click", () => {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  dress();
});
asTheSystem.addEventListener("change", dress);
dress();

byId("find").addEventListener("input", (event) => {
  const wanted = event.target.value.toLowerCase();
  for (const row of byId("values").tBodies[0].rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
});
