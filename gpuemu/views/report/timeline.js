/* Stall reasons over time, and a row for each warp, on canvases that take the mouse and keys. */
{
  const warps = data.timeline.warps.map((warp) => {
    const since = [], issue = [];
    let at = warp.start;
    warp.waited.forEach((waited) => {
      since.push(at);
      issue.push(at + waited);
      at += waited + 1;
    });
    return { ...warp, since, issue };
  });
  const cycles = Math.max(1, data.result.cycles);
  const ROW = 20, AXIS = 22, LABEL = 96, MOST_HEIGHT = 560;
  const chart = byId("chart"), areas = byId("areas");
  let from = 0, to = cycles, first = 0; // the window, and the topmost warp
  let picked = { warp: 0, issue: -1 };
  const rowsShown = Math.min(warps.length, Math.floor((MOST_HEIGHT - AXIS) / ROW));

  function prepare(canvas, height) {
    const ratio = devicePixelRatio || 1, width = canvas.clientWidth;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.clearRect(0, 0, width, height);
    pen.font = "11px ui-monospace, 'DejaVu Sans Mono', monospace";
    pen.textBaseline = "middle";
    return [pen, width];
  }
  /* Black or white, whichever has more contrast to a color: one of them always has more than 4.5. */
  function readable(colour) {
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
  }
  /* A word in a color that can be read on the background. Without room for it, none. */
  function write(pen, word, colour, left, right, middle) {
    if (pen.measureText(word).width > right - left) return;
    pen.fillStyle = readable(colour);
    pen.fillText(word, left, middle);
  }
  const palette = () => Object.fromEntries(data.reasons.map((reason) => [reason, coloured(reason)]));
  /* The index of the first entry that is not below a value. */
  function seek(list, value) {
    let low = 0, high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (list[middle] < value) low = middle + 1;
      else high = middle;
    }
    return low;
  }
  function drawAreas() {
    const height = 110, [pen, width] = prepare(areas, height);
    const { edges, cycles: of } = data.over_time, colours = palette();
    const x = (cycle) => LABEL + ((width - LABEL) * cycle) / cycles;
    const highest = Math.max(...edges.slice(1).map((edge, bin) => data.reasons.reduce((sum, r) => sum + of[r][bin], 0) / Math.max(1, edge - edges[bin])));
    for (let bin = 0; bin + 1 < edges.length; bin++) {
      let base = height - 2;
      for (const reason of data.reasons) {
        const tall = ((height - 12) * of[reason][bin]) / Math.max(1, edges[bin + 1] - edges[bin]) / Math.max(1e-9, highest);
        pen.fillStyle = colours[reason];
        pen.fillRect(x(edges[bin]), base - tall, x(edges[bin + 1]) - x(edges[bin]) + 0.4, tall);
        base -= tall;
      }
    }
    pen.fillStyle = themed("--ink");
    pen.fillText(`${Math.round(highest * 10) / 10} warp${highest > 1 ? "s" : ""}`, 8, 12);
    pen.fillText("0", 8, height - 8);
    if (from > 0 || to < cycles) {
      pen.strokeStyle = themed("--ink");
      pen.lineWidth = 2;
      pen.strokeRect(x(from), 2, Math.max(2, x(to) - x(from)), height - 4);
    }
  }
  function drawChart() {
    const height = AXIS + ROW * rowsShown + 4, [pen, width] = prepare(chart, height);
    const each = (width - LABEL) / (to - from), x = (cycle) => LABEL + (cycle - from) * each;
    const colours = palette(), ink = themed("--ink"), faint = themed("--faint"), line = themed("--line"), chosen = themed("--chosen");
    const step = niceStep(90 / each);
    pen.fillStyle = faint;
    for (let cycle = Math.ceil(from / step) * step; cycle < to; cycle += step) {
      const text = number(cycle), fits = x(cycle) + 3 + pen.measureText(text).width <= width;
      pen.fillRect(x(cycle), AXIS - 5, 1, 5);
      pen.fillText(text, fits ? x(cycle) + 3 : width - pen.measureText(text).width - 1, 9);
    }
    for (let row = 0; row < rowsShown; row++) {
      const number = first + row, warp = warps[number], top = AXIS + row * ROW;
      if (number === picked.warp) {
        pen.fillStyle = chosen;
        pen.fillRect(0, top, width, ROW);
      }
      pen.fillStyle = ink;
      pen.fillText(`${warp.cta}:${warp.warp}`, 8, top + ROW / 2);
      pen.fillStyle = faint;
      pen.fillText(`core ${warp.sub_core}`, 50, top + ROW / 2);
      pen.save();
      pen.beginPath();
      pen.rect(LABEL, top, width - LABEL, ROW);
      pen.clip();
      drawWarp(pen, warp, top, each, x, colours, number);
      pen.restore();
      pen.fillStyle = line;
      pen.fillRect(0, top + ROW - 0.5, width, 0.5);
    }
    byId("window").textContent = `cycles ${number(Math.round(from))} to ${number(Math.round(to))}` + (warps.length > rowsShown ? `, warps ${first + 1} to ${first + rowsShown} of ${warps.length}` : "") + (data.timeline.whole ? "" : "; the run has more warps than the timeline");
  }
  function drawWarp(pen, warp, top, each, x, colours, number) {
    const ink = themed("--ink");
    let drawnTo = -1;
    pen.fillStyle = colours.drain;
    if (warp.drained) pen.fillRect(x(warp.issue.at(-1) + 1), top + 3, warp.drained * each, 10);
    for (let i = Math.max(0, seek(warp.issue, from) - 40); i < warp.issue.length && warp.since[i] < to; i++) {
      const left = x(warp.since[i]), at = x(warp.issue[i]), end = at + each;
      const isPicked = number === picked.warp && i === picked.issue;
      if (end < LABEL && x(warp.issue[i] + warp.took[i]) < LABEL) continue;
      if (end - drawnTo < 0.3 && !isPicked) continue; // several issues in one pixel
      drawnTo = end;
      pen.fillStyle = colours[data.reasons[warp.reason[i]]];
      if (warp.waited[i]) pen.fillRect(left, top + 3, Math.max(at - left, 0.3), 10);
      pen.fillStyle = colours.selected;
      pen.fillRect(at, top + 2, Math.max(each, 0.8), 12);
      if (warp.took[i] > 1 && each > 0.2) {
        pen.globalAlpha = 0.35;
        pen.fillRect(at, top + 15, warp.took[i] * each, 3);
        pen.globalAlpha = 1;
      }
      const reason = data.reasons[warp.reason[i]];
      if (at - left > 30) write(pen, data.titles[reason], colours[reason], Math.max(left, LABEL) + 4, at - 2, top + 8.5);
      if (each > 26) {
        const mnemonic = data.instructions[warp.instruction[i]].Source.split(" ").find((word) => !word.startsWith("@"));
        write(pen, mnemonic, colours.selected, at + 3, end - 3, top + 8.5);
      }
      if (isPicked) {
        pen.strokeStyle = ink;
        pen.lineWidth = 2;
        pen.strokeRect(Math.max(left, LABEL) - 1, top + 1, end - Math.max(left, LABEL) + 2, ROW - 3);
      }
    }
  }
  function niceStep(least) {
    const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
    return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= least) || power;
  }
  const draw = () => {
    drawAreas();
    drawChart();
    tell("window", from, to);
  };
  function look(start, span) {
    span = Math.min(cycles, Math.max(8, span));
    from = Math.min(Math.max(0, start), cycles - span);
    if (cycles < span) from = 0;
    to = from + span;
    draw();
  }
  const zoom = (by, around = (from + to) / 2) => look(around - (around - from) * by, (to - from) * by);
  /* The warp under the pointer, and its issue at that cycle or the next one. */
  function under(event) {
    const row = Math.floor((event.offsetY - AXIS) / ROW), warp = warps[first + row];
    if (row < 0 || row >= rowsShown || event.offsetX < LABEL) return null;
    const issue = seek(warp.issue, Math.floor(cycleAt(event)));
    return issue < warp.issue.length ? { warp, issue } : null;
  }
  const told = ({ issue: of, waited, reason, took, instruction }, issue) => {
    const row = data.instructions[instruction[issue]];
    const why = waited[issue] ? `waited ${number(waited[issue])} cycles, mostly ${data.titles[data.reasons[reason[issue]]]}` : "did not wait";
    return `cycle ${number(of[issue])}: ${row.Place} ${row.Source}\n${why}${took[issue] ? `; done after ${number(took[issue])} cycles` : ""}`;
  };
  function pick(warp, issue, follow = true) {
    warp = Math.min(Math.max(0, warp), warps.length - 1);
    const of = warps[warp];
    issue = Math.min(Math.max(-1, issue), of.issue.length - 1);
    picked = { warp, issue };
    first = Math.min(Math.max(first, warp - rowsShown + 1), warp);
    if (issue >= 0) {
      const row = data.instructions[of.instruction[issue]];
      const waited = of.waited[issue] ? `waited ${number(of.waited[issue])} cycles, mostly ${data.titles[data.reasons[of.reason[issue]]]}` : "did not wait";
      const done = of.took[issue] ? `, done after ${number(of.took[issue])} cycles` : "";
      const drained = issue + 1 === of.issue.length && of.drained ? `, then drained for ${number(of.drained)} cycles` : "";
      byId("picked").textContent = `warp ${of.warp} of CTA ${of.cta}, cycle ${number(of.issue[issue])}: ${row.Place}  ${row.Source}\n${waited}${done}${drained}; ${data.links[of.instruction[issue]][0] || "instruction " + (issue + 1) + " of this warp"}`;
      if (follow && (of.issue[issue] < from || of.issue[issue] >= to)) look(of.issue[issue] - (to - from) / 2, to - from);
      tell("chosen", of.instruction[issue], "timeline");
    }
    draw();
  }
  const cycleAt = (event) => from + ((event.offsetX - LABEL) / (chart.clientWidth - LABEL)) * (to - from);
  let dragged = null;
  chart.addEventListener("pointerdown", (event) => {
    dragged = { measures: event.shiftKey, cycle: cycleAt(event), x: event.offsetX, y: event.offsetY, from, first, moved: false };
    chart.setPointerCapture(event.pointerId);
  });
  const measured = (event) => {
    const [low, high] = [dragged.cycle, cycleAt(event)].sort((a, b) => a - b).map(Math.round);
    return `cycles ${number(low)} to ${number(high)}: ${number(high - low)} cycles`;
  };
  chart.addEventListener("pointermove", (event) => {
    const found = under(event);
    chart.title = dragged ? "" : found ? told(found.warp, found.issue) : "";
    if (!dragged) return;
    if (dragged.measures) {
      dragged.moved = true;
      byId("window").textContent = measured(event);
      return;
    }
    const by = event.offsetX - dragged.x, down = event.offsetY - dragged.y;
    dragged.moved ||= Math.max(Math.abs(by), Math.abs(down)) > 4;
    first = Math.min(Math.max(0, dragged.first - Math.round(down / ROW)), warps.length - rowsShown);
    if (dragged.moved) look(dragged.from - (by * (to - from)) / (chart.clientWidth - LABEL), to - from);
  });
  chart.addEventListener("pointerup", (event) => {
    const moved = dragged && dragged.moved;
    dragged = null;
    const row = Math.floor((event.offsetY - AXIS) / ROW);
    if (moved || row < 0 || row >= rowsShown) return;
    const warp = first + row, at = seek(warps[warp].issue, Math.floor(cycleAt(event)));
    pick(warp, at, false);
  });
  chart.addEventListener("wheel", (event) => { // the page scrolls unless the timeline has been chosen
    if (document.activeElement !== chart && !event.ctrlKey) return;
    if (event.shiftKey) look(from + ((to - from) * Math.sign(event.deltaY || event.deltaX)) / 8, to - from);
    else zoom(event.deltaY > 0 ? 1.25 : 0.8, cycleAt(event));
    event.preventDefault();
  }, { passive: false });
  const KEYS = {
    ArrowLeft: () => look(from - (to - from) / 8, to - from),
    ArrowRight: () => look(from + (to - from) / 8, to - from),
    ArrowUp: () => pick(picked.warp - 1, -1),
    ArrowDown: () => pick(picked.warp + 1, -1),
    "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => look(0, cycles), Home: () => look(0, cycles),
    ".": () => pick(picked.warp, picked.issue < 0 ? seek(warps[picked.warp].issue, from) : picked.issue + 1),
    ",": () => pick(picked.warp, picked.issue < 0 ? seek(warps[picked.warp].issue, from) : Math.max(0, picked.issue - 1)),
  };
  chart.addEventListener("keydown", (event) => {
    if (!KEYS[event.key] || event.ctrlKey || event.metaKey) return;
    KEYS[event.key]();
    event.preventDefault();
  });
  const ZOOMS = { in: () => zoom(0.5), out: () => zoom(2), all: () => look(0, cycles) };
  for (const button of document.querySelectorAll("[data-zoom]")) button.addEventListener("click", ZOOMS[button.dataset.zoom]);
  areas.addEventListener("pointerdown", (event) => {
    const at = ((event.offsetX - LABEL) / (areas.clientWidth - LABEL)) * cycles;
    look(at - (to - from) / 2, to - from);
  });
  listeners.chosen.push((instruction, by) => { // the first issue of an instruction that was chosen elsewhere
    if (by === "timeline") return;
    const warp = warps.findIndex((one) => one.instruction.includes(instruction));
    if (warp < 0) return;
    picked = { warp, issue: warps[warp].instruction.indexOf(instruction) };
    first = Math.min(Math.max(first, warp - rowsShown + 1), warp);
    byId("picked").textContent = `warp ${warps[warp].warp} of CTA ${warps[warp].cta}, ${told(warps[warp], picked.issue)}`;
    look(warps[warp].issue[picked.issue] - (to - from) / 2, to - from);
  });
  byId("legend").append(...data.reasons.filter((reason) => data.result.stalls[reason]).map((reason) =>
    make("span", { "data-tip": reason === "selected" ? "A warp issues an instruction." : undefined }, make("i", { class: "dot", style: `background:${colourOf(reason)}` }), data.titles[reason])));
  themeListeners.push(draw);
  new ResizeObserver(draw).observe(chart);
  draw();
}
