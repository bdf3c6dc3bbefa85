/* Bank pictures: the wavefronts of an access, and the tile that it goes to. */
if (byId("banks")) {
  const { banks, bank_width_bytes: width, accesses } = data.banks;
  const hue = (bank) => (360 * bank) / banks;
  const named = (lanes) => (lanes.length > 1 ? `${lanes[0]}+` : `${lanes[0]}`);
  let turn = 0; // the number of a wavefront, or 0 for all

  byId("access").append(...accesses.map(({ instruction, patterns }, index) => {
    const row = data.instructions[instruction];
    const excess = row["L1 Wavefronts Shared Excessive"];
    return make("option", { value: index }, `${row.Place} ${row.Source}${excess ? ` · ${number(excess)} bank conflicts` : ""}`);
  }));
  const access = () => accesses[byId("access").selectedIndex];
  const pattern = () => access().patterns[byId("pattern").selectedIndex];
  /* All wavefronts of the access: the phase, whether it is the first of the phase or beyond the ideal, the words with their lanes. */
  const wavefronts = () => pattern().phases.flatMap((phase, index) =>
    phase.served.map((words, at) => ({ phase: index, first: at === 0, excess: at >= phase.ideal, words })));

  function choosePattern() {
    byId("pitch").value = pattern().pitch;
    byId("pitch").step = width;
    byId("wavefront").max = wavefronts().length;
    turn = 0;
    draw();
  }
  function chooseAccess() {
    const { patterns, distinct } = access();
    byId("pattern").replaceChildren(...patterns.map(({ times, wavefronts: of, ideal, base }, index) =>
      make("option", {}, `${index + 1} of ${distinct}: ${of} wavefronts, ideal ${ideal}; ${number(times)} × from byte ${base}`)));
    choosePattern();
  }
  function drawWavefronts(all) {
    const heads = Array.from({ length: banks }, (_, bank) => make("th", { scope: "col" }, bank));
    const head = make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "phase"), make("th", { scope: "col" }, "wavefront"), ...heads));
    const rows = all.map(({ phase, first, excess, words }, index) => {
      const lanes = new Map(words.map(([word, ...of]) => [word % banks, [word, of]]));
      const cells = Array.from({ length: banks }, (_, bank) => {
        if (!lanes.has(bank)) return make("td");
        const [word, of] = lanes.get(bank);
        return make("td", { class: "word", "--hue": hue(bank), title: `bank ${bank}, byte ${word * width + pattern().base}: lane${of.length > 1 ? "s" : ""} ${of.join(", ")}` }, named(of));
      });
      const name = [excess && "excess", turn === index + 1 && "now", turn && turn !== index + 1 && "away"].filter(Boolean).join(" ");
      return make("tr", { class: name, "data-turn": index + 1 }, make("th", {}, first ? phase : ""), make("th", { scope: "row" }, index + 1), ...cells);
    });
    byId("wavefronts").replaceChildren(head, make("tbody", {}, ...rows));
  }
  const MOST_ROWS = 64;
  function drawTile(all) {
    const now = new Map(), any = new Map();
    all.forEach(({ words }, index) => words.forEach(([word, ...of]) => {
      any.set(word, [...new Set([...(any.get(word) || []), ...of])]);
      if (!turn || turn === index + 1) now.set(word, any.get(word));
    }));
    const across = Math.max(1, Math.min(256, Math.floor(Number(byId("pitch").value) / width) || banks));
    const last = Math.max(0, ...any.keys());
    const rows = Math.min(MOST_ROWS, Math.floor(last / across) + 1);
    const heads = Array.from({ length: across }, (_, column) => make("th", { scope: "col" }, column * width));
    const lines = Array.from({ length: rows }, (_, row) => {
      const cells = Array.from({ length: across }, (_, column) => {
        const word = row * across + column, bank = word % banks;
        const title = `bank ${bank}, byte ${word * width + pattern().base}`;
        if (!any.has(word)) return make("td", { class: "rest", "--hue": hue(bank), title });
        const lanes = any.get(word).sort((a, b) => a - b);
        return make("td", { class: now.has(word) ? "word" : "word away", "--hue": hue(bank), title: `${title}: lane${lanes.length > 1 ? "s" : ""} ${lanes.join(", ")}` }, named(lanes));
      });
      return make("tr", {}, make("th", { scope: "row" }, row), ...cells);
    });
    const more = last >= rows * across ? [make("caption", {}, `${Math.floor(last / across) + 1 - rows} more rows`)] : [];
    byId("tile").replaceChildren(...more, make("thead", {}, make("tr", {}, make("th", {}, "row"), ...heads)), make("tbody", {}, ...lines));
  }
  function draw() {
    const all = wavefronts();
    byId("wavefront").value = turn;
    byId("which").textContent = turn ? `${turn} of ${all.length}` : `all ${all.length}`;
    byId("verdict").textContent = pattern().why.join(" ");
    drawWavefronts(all);
    drawTile(all);
  }
  const go = (to) => {
    turn = (to + wavefronts().length + 1) % (wavefronts().length + 1);
    draw();
  };
  byId("access").addEventListener("change", chooseAccess);
  byId("pattern").addEventListener("change", choosePattern);
  byId("pitch").addEventListener("input", draw);
  byId("wavefront").addEventListener("input", (event) => go(Number(event.target.value)));
  byId("before").addEventListener("click", () => go(turn - 1));
  byId("after").addEventListener("click", () => go(turn + 1));
  byId("wavefronts").addEventListener("click", (event) => {
    const row = event.target.closest("tr[data-turn]");
    if (row) go(Number(row.dataset.turn) === turn ? 0 : Number(row.dataset.turn));
  });
  listeners.chosen.push((instruction) => {
    const found = accesses.findIndex((entry) => entry.instruction === instruction);
    if (found < 0) return;
    byId("access").selectedIndex = found;
    chooseAccess();
  });
  const conflicts = accesses.map(({ instruction }) => data.instructions[instruction]["L1 Wavefronts Shared Excessive"]);
  byId("access").selectedIndex = conflicts.indexOf(Math.max(...conflicts));
  chooseAccess();
}
