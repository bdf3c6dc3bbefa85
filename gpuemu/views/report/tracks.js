/* Copies, mbarriers and warpgroups in the window of the timeline: a row for each, below the warps. */
if (data.tracks.length) {
  const ROW = 16, LABEL = 96, board = byId("tracks");
  const COLOURS = { copy: "--r3", wait: "--r6", product: "--r0", over: "--bad" };
  const draw = (from, to) => {
    const ratio = devicePixelRatio || 1, width = board.clientWidth, height = ROW * data.tracks.length + 4;
    board.width = Math.round(width * ratio);
    board.height = Math.round(height * ratio);
    board.style.height = `${height}px`;
    const pen = board.getContext("2d"), each = (width - LABEL) / (to - from);
    pen.scale(ratio, ratio);
    pen.font = "11px ui-monospace, 'DejaVu Sans Mono', monospace";
    pen.textBaseline = "middle";
    data.tracks.forEach((track, row) => {
      const top = row * ROW;
      pen.fillStyle = themed("--ink");
      pen.fillText(track.name, 8, top + ROW / 2, LABEL - 10);
      pen.save();
      pen.beginPath();
      pen.rect(LABEL, top, width - LABEL, ROW);
      pen.clip();
      let written = 0; // the end of the last text, which another must not cover
      for (const [start, stop, kind, text] of track.spans) {
        if (stop <= from || start >= to) continue;
        const left = LABEL + (start - from) * each, wide = Math.max((stop - start) * each, 1);
        pen.fillStyle = themed(COLOURS[kind]);
        pen.globalAlpha = kind === "copy" ? 0.35 : 1;
        pen.fillRect(left, top + (kind === "wait" ? 9 : 2), wide, kind === "wait" ? 5 : 12);
        pen.globalAlpha = 1;
        pen.globalAlpha = 1;
        const at = Math.max(left, LABEL) + 4;
        if (kind !== "wait" && wide > 8 * text.length && at >= written) {
          pen.fillStyle = kind === "copy" ? themed("--ink") : "#000000";
          pen.fillText(text, at, top + 8.5, wide - 6);
          written = at + pen.measureText(text).width + 6;
        }
      }
      pen.restore();
      pen.fillStyle = themed("--line");
      pen.fillRect(0, top + ROW - 0.5, width, 0.5);
    });
  };
  byId("tracks-legend").append(...Object.entries({ copy: "copy under way", wait: "a warp waits", over: "phase complete", product: "matrix products" }).map(([kind, words]) =>
    make("span", {}, make("i", { class: "dot", style: `background:var(${COLOURS[kind]})` }), words)));
  listeners.window.push(draw);
}
