const data = JSON.parse(document.getElementById("data").textContent);
const byId = (name) => document.getElementById(name);
/* An element with attributes and children. Children that are no elements become text, never markup. */
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
const themed = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const coloured = (reason) => themed(`--r${data.reasons.indexOf(reason)}`);
for (const mark of document.querySelectorAll("[data-reason]")) mark.style.background = colourOf(mark.dataset.reason);

/* Listeners for a chosen instruction (its number, and the part of the page that chose it) and for the timeline's window. */
const listeners = { chosen: [], window: [] };
const tell = (event, ...details) => listeners[event].forEach((listener) => listener(...details));

/* A tooltip for each element with a definition: on hover, on focus, and on a tap. */
{
  const tip = byId("tip");
  const show = (target) => {
    const about = target?.closest?.("[data-tip]");
    tip.hidden = !about?.dataset.tip;
    if (tip.hidden) return;
    tip.textContent = about.dataset.tip;
    const box = about.getBoundingClientRect();
    const left = Math.min(Math.max(8, box.left), innerWidth - tip.offsetWidth - 8);
    const below = box.bottom + 6 + tip.offsetHeight < innerHeight;
    tip.style.left = `${left}px`;
    tip.style.top = `${below ? box.bottom + 6 : box.top - tip.offsetHeight - 6}px`;
  };
  for (const event of ["pointerover", "focusin", "click"]) document.addEventListener(event, ({ target }) => show(target));
  for (const event of ["pointerleave", "blur"]) document.addEventListener(event, () => show(null));
  addEventListener("scroll", () => show(null), true);
}

/* The help is behind a button and the key ?. */
{
  const help = byId("help");
  byId("helped").addEventListener("click", () => help.showModal());
  byId("close").addEventListener("click", () => help.close());
  help.addEventListener("click", (event) => event.target === help && help.close());
  document.addEventListener("keydown", (event) => {
    const writes = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.target.type !== "checkbox";
    if (event.key === "?" && !writes && !help.open) help.showModal();
  });
}

/* Each cause has its commands in a row of their own, which its button shows. */
for (const button of document.querySelectorAll("button[data-shows]")) {
  button.addEventListener("click", () => {
    const row = byId(button.dataset.shows);
    row.hidden = !row.hidden;
    button.setAttribute("aria-expanded", String(!row.hidden));
  });
}

byId("find").addEventListener("input", (event) => {
  const wanted = event.target.value.toLowerCase();
  for (const row of byId("values").tBodies[0].rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
});
