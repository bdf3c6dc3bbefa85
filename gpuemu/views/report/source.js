/* The source lines and the instructions: two tables, linked in both directions. */
const most = (row) => {
  if (!row.stalls) return ["", 0];
  return Object.entries(row.stalls).reduce((best, entry) => (entry[1] > best[1] ? entry : best), ["", 0]);
};
const mostly = (row) => (row["Warp Stall Cycles"] ? `${data.titles[most(row)[0]]} ${Math.round((100 * most(row)[1]) / row["Warp Stall Cycles"])}%` : "");
const counted = (head, name, more = {}) => ({ head, name, of: (row) => row[name] || "", ...more });
const CYCLES = counted("Warp cycles", "Warp Stall Cycles", { heat: true });
const TOP = { head: "Top stall", name: "Top Stall", of: mostly, text: true };
const EXECUTED = counted("Executed", "Instructions Executed");
const WAVEFRONTS = counted("Wavefronts", "L1 Wavefronts Shared");
const CONFLICTS = counted("Bank conflicts", "L1 Wavefronts Shared Excessive", { bad: true });
const N_WAY = { head: "N-way", name: "L1 Conflicts Shared N-Way", of: (row) => (row["L1 Conflicts Shared N-Way"] ? row["L1 Conflicts Shared N-Way"].toFixed(1) : "") };
const SECTORS = [counted("Sectors", "L2 Theoretical Sectors Global"), counted("Ideal sectors", "L2 Theoretical Sectors Global Ideal")];
const SASS = [
  { head: "Address", name: "Address", of: (row) => row.Place, text: true, first: true },
  CYCLES,
  { head: "Control word", name: "Control Word", of: (row) => row.Control, text: true, control: true },
  { head: "Instruction", name: "Instruction", of: (row) => row.Source, text: true, wide: true },
  TOP, CONFLICTS, EXECUTED, WAVEFRONTS, N_WAY, ...SECTORS, counted("Live registers", "Live Registers"),
];
/* The file with most lines goes without its name. */
const fileOf = (row) => row.Place.slice(0, row.Place.lastIndexOf(":"));
const files = data.lines.map(fileOf);
const count = (file) => files.filter((other) => other === file).length;
const mainFile = [...new Set(files)].sort((a, b) => count(b) - count(a))[0];
const LINES = [
  { head: "Line", name: "Line", of: (row) => (fileOf(row) === mainFile ? row.Place.slice(mainFile.length + 1) : row.Place), text: true, first: true },
  CYCLES,
  { head: "Source", name: "Source", of: (row) => row.Source, text: true, wide: true },
  TOP, CONFLICTS, WAVEFRONTS, N_WAY, ...SECTORS, EXECUTED,
];

/* A table that sorts by its heads and is walked with the arrow keys; Enter or a click calls `choose` with the row's number. */
function rowTable(table, columns, rows, choose) {
  const highest = Math.max(1, ...rows.map((row) => row["Warp Stall Cycles"] || 0));
  const shown = columns.filter((column) => column.wide || column.control || column.first || rows.some((row) => column.of(row) !== ""));
  const body = make("tbody");
  const cell = (column, row) => {
    const value = column.of(row);
    const made = make("td", { class: column.text ? "text" : undefined }, typeof value === "number" ? number(value) : value);
    if (column.wide) { made.classList.add("source"); made.title = value; }
    if (column.control) made.dataset.control = "";
    if (column.first) { made.classList.add("first-column"); made.title = row.Place; }
    if (column.bad && value) made.classList.add("bad");
    if (column.heat) made.classList.add("cycles");
    if (column.heat && value) {
      made.classList.add("heat");
      made.append(make("i", { "--share": `${(100 * value) / highest}%`, "--heat": colourOf(most(row)[0]) }));
    }
    return made;
  };
  const made = rows.map((row, index) => {
    const line = make("tr", { tabindex: index ? -1 : 0, "data-row": index, class: row["Instructions Executed"] ? undefined : "idle" });
    line.append(...shown.map((column) => cell(column, row)));
    return line;
  });
  body.append(...made);
  const heads = shown.map((column) => {
    const button = make("button", { type: "button", "data-tip": data.definitions[column.name] }, column.head);
    const head = make("th", { scope: "col", class: [column.text && "text", column.wide && "source"].filter(Boolean).join(" ") || undefined, "aria-sort": "none" }, button);
    if (column.control) head.dataset.control = "";
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "none" ? !column.text : head.getAttribute("aria-sort") !== "descending";
      const plain = heads[0] === head && head.getAttribute("aria-sort") === "descending";
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      if (!plain) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (index) => (heads[0] === head ? index : column === TOP ? most(rows[index])[0] : column.of(rows[index]));
      const compare = (a, b) => {
        const [x, y] = [key(a), key(b)];
        if (typeof x === "string" && typeof y === "string" && column.text) return x < y ? -1 : x > y ? 1 : a - b;
        return Number(x) - Number(y) || (down ? b - a : a - b);
      };
      const order = rows.map((_, index) => index).sort(compare);
      body.append(...(down && !plain ? order.reverse() : order).map((index) => made[index]));
    });
    return head;
  });
  table.append(make("thead", {}, make("tr", {}, ...heads)), body);
  const focus = (line) => {
    body.querySelector('[tabindex="0"]')?.setAttribute("tabindex", -1);
    line.setAttribute("tabindex", 0);
    line.focus({ preventScroll: true });
    line.scrollIntoView({ block: "nearest" });
  };
  body.addEventListener("click", (event) => {
    const line = event.target.closest("tr");
    focus(line);
    choose(Number(line.dataset.row));
  });
  body.addEventListener("keydown", (event) => {
    let line = event.target.closest("tr");
    const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    if (step) do line = line[step]; while (line && line.hidden);
    else if (event.key === "Home" || event.key === "End") line = event.key === "Home" ? body.firstElementChild : body.lastElementChild;
    else if (event.key === "Enter" || event.key === " ") choose(Number(line.dataset.row));
    else return;
    event.preventDefault();
    if (line) focus(line);
  });
  const mark = (chosen, linked) => made.forEach((line, index) => {
    line.classList.toggle("chosen", chosen === index);
    line.classList.toggle("linked", linked.has(index));
    if (chosen === index) line.setAttribute("aria-selected", "true");
    else line.removeAttribute("aria-selected");
  });
  /* Scrolls the table, not the page. */
  const show = (index) => {
    const box = table.parentElement, line = made[index];
    if (line && !line.hidden) box.scrollTop += line.getBoundingClientRect().top - box.getBoundingClientRect().top - box.clientHeight / 3;
  };
  return { made, mark, show };
}
/* The indices of the counts above 0, the highest first. */
const ranked = (counts) => counts.map((_, index) => index).filter((index) => counts[index]).sort((a, b) => counts[b] - counts[a] || a - b);

const lineOf = new Map(data.lines.map((row, index) => [row.Place, index]));
const linesOf = data.links.map((places) => new Set(places.map((place) => lineOf.get(place))));
/* A line's heat is that of its own instructions: calls of inlined functions would be hottest otherwise. */
const ownCycles = data.lines.map(() => 0);
data.instructions.forEach((row, index) => { if (lineOf.has(data.own[index])) ownCycles[lineOf.get(data.own[index])] += row["Warp Stall Cycles"]; });
const hottestInstructions = ranked(data.instructions.map((row) => row["Warp Stall Cycles"]));
const sassTable = rowTable(byId("sass"), SASS, data.instructions, (index) => tell("chosen", index, "sass"));
/* Marks a line and its instructions, and shows the hottest of these. */
function chooseLine(line) {
  const linked = new Set(linesOf.flatMap((lines, index) => (lines.has(line) ? [index] : [])));
  lineTable.mark(line, new Set());
  sassTable.mark(undefined, linked);
  const first = hottestInstructions.find((index) => linked.has(index)) ?? Math.min(...linked);
  if (linked.size) sassTable.show(first);
}
const lineTable = byId("lines") && rowTable(byId("lines"), LINES, data.lines, chooseLine);
listeners.chosen.push((index, by) => {
  sassTable.mark(index, new Set());
  if (by !== "sass") sassTable.show(index);
  if (!lineTable) return;
  lineTable.mark(undefined, linesOf[index]);
  if (linesOf[index].size) lineTable.show([...linesOf[index]][0]);
});
document.addEventListener("click", (event) => {
  const link = event.target.closest("[data-instruction]");
  if (link) tell("chosen", Number(link.dataset.instruction), "link");
});
const hide = () => {
  for (const cell of document.querySelectorAll("[data-control]")) cell.hidden = !byId("control").checked;
  sassTable.made.forEach((line, index) => (line.hidden = !data.instructions[index]["Instructions Executed"] && !byId("unexecuted").checked));
};
byId("control").checked = !lineTable && innerWidth >= 1400;
byId("control").addEventListener("change", hide);
byId("unexecuted").addEventListener("change", hide);
hide();
/* The pane opens at the hottest line. The button and the key H go on to the next. */
{
  const hottest = lineTable ? ranked(ownCycles) : hottestInstructions;
  let now = 0;
  const go = () => {
    if (!hottest.length) return;
    if (lineTable) {
      chooseLine(hottest[now]);
      lineTable.show(hottest[now]);
    } else {
      sassTable.mark(hottest[now], new Set());
      sassTable.show(hottest[now]);
    }
  };
  const next = () => {
    now = (now + 1) % Math.max(1, Math.min(hottest.length, 20));
    go();
  };
  byId("hottest").addEventListener("click", next);
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "h" || event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT)$/.test(event.target.tagName)) return;
    byId("source").scrollIntoView();
    next();
  });
  go();
}
