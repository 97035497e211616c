'use strict';
// chart draws one row of the timeline as SVG. It knows nothing of the page but the row's box and data.
const chart = (() => {
  const H = 140, TOP = 16, BOTTOM = 40, LEFT = 30; // of a chart, in pixels
  const lower = ['bind', 'rejection', 'attach']; // marks of pods, in a line of their own: they follow the others closely
  const lines = ['attached', 'usable', 'count', 'answer']; // from the bottom up
  const glyphs = { write: 'M-.7 -5V5H.7V-5Z', bind: 'M0 -4L4 4H-4Z', rejection: 'M-4 -2.5L-2.5 -4L0 -1.5L2.5 -4L4 -2.5L1.5 0L4 2.5L2.5 4L0 1.5L-2.5 4L-4 2.5L-1.5 0Z',
    attach: 'M0 -4.5L4 0L0 4.5L-4 0Z', answer: 'M-3.5 0A3.5 3.5 0 1 0 3.5 0A3.5 3.5 0 1 0 -3.5 0Z', component: 'M-3 -3H3V3H-3Z' };

  function draw(tag, attributes) {
    const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const k in attributes) e.setAttribute(k, attributes[k]);
    return e;
  }

  // The value of a step line at a time, and the index of its step.
  function valueAt(steps, ms) {
    let lo = 0, hi = steps.length;
    while (lo < hi) { const mid = (lo + hi) >> 1; if (steps[mid][0] <= ms) lo = mid + 1; else hi = mid; }
    return lo === 0 ? undefined : steps[lo - 1][1];
  }

  // Draw a row into its box: the times of view, its shades, and lines at the times that prove the chosen verdict.
  function paint(row, view, shades, proofs) {
    const W = Math.max(120, row.box.clientWidth), span = view[1] - view[0], floor = H - BOTTOM;
    const x = ms => LEFT + (ms - view[0]) / span * (W - LEFT);
    const top = row.most + 1, y = v => v === -1 ? TOP - 6 : floor - v / top * (floor - TOP);
    const svg = draw('svg', { viewBox: '0 0 ' + W + ' ' + H, 'aria-hidden': 'true' });
    row.svg = svg; row.x = x;
    for (const s of shades) {
      const from = Math.max(s.from, view[0]), to = Math.min(s.to, view[1]);
      if (from > to) continue;
      const slow = s.kind === 'slow';
      svg.append(draw('rect', { class: slow ? 'slow' : 'fault', x: x(from), width: Math.max(1, x(to) - x(from)), y: slow ? floor - 5 : 0, height: slow ? 5 : floor }));
    }
    const each = Math.max(1, Math.ceil(row.most / 4));
    for (let v = 0; v <= row.most; v += each) {
      svg.append(draw('line', { class: 'grid', x1: LEFT, x2: W, y1: y(v), y2: y(v) }));
      label(svg, LEFT - 5, y(v) + 3, String(v), 'end');
    }
    if (lines.some(l => row.r[l].some(s => s[1] === -1))) label(svg, LEFT - 5, y(-1) + 4, '∞', 'end');
    const tick = nice(span / Math.max(2, W / 90));
    for (let t = Math.ceil(view[0] / tick) * tick; t <= view[1]; t += tick) {
      svg.append(draw('line', { class: 'grid', x1: x(t), x2: x(t), y1: floor, y2: floor + 4 }));
      const edge = x(t) > W - 22 ? 'end' : x(t) < LEFT + 12 ? 'start' : 'middle';
      label(svg, edge === 'end' ? W : x(t), H - 4, String(+(t / 1000).toFixed(3)) + 's', edge);
    }
    for (const l of lines) {
      const d = path(row.r[l], view, x, y, l === 'attached' ? y(0) : null);
      if (d) svg.append(draw('path', { class: l, d }));
    }
    for (const kind in glyphs) {
      const g = draw('g', { class: 'mark ' + kind });
      let last = -9;
      for (const m of row.r.marks) {
        const px = x(m.at);
        if (m.kind !== kind || m.at < view[0] || m.at > view[1] || px - last < 1) continue; // nobody sees two in one pixel
        last = px;
        g.append(draw('path', { d: glyphs[kind], transform: 'translate(' + px.toFixed(1) + ' ' + (floor + (lower.includes(kind) ? 21 : 10)) + ')', style: 'fill:inherit' }));
      }
      if (g.firstChild) svg.append(g);
    }
    for (const t of proofs) {
      if (t >= view[0] && t <= view[1]) svg.append(draw('line', { class: 'proof', x1: x(t), x2: x(t), y1: 0, y2: floor }));
    }
    row.box.replaceChildren(svg);
    cursor(row);
  }
  function label(svg, x, y, text, anchor) {
    const t = draw('text', { x, y, 'text-anchor': anchor });
    t.textContent = text;
    svg.append(t);
  }
  // The path of a step line within the view; a filled one ends on the floor.
  function path(steps, view, x, y, floor) {
    let d = '', open = false;
    const end = () => { if (open && floor !== null) d += 'V' + floor.toFixed(1) + 'Z'; open = false; };
    for (let i = 0; i < steps.length; i++) {
      const from = Math.max(steps[i][0], view[0]), to = i + 1 < steps.length ? Math.min(steps[i + 1][0], view[1]) : view[1];
      if (to < view[0] || from > view[1]) continue;
      if (steps[i][1] === -2) { end(); continue; }
      const py = y(steps[i][1]).toFixed(1), px = x(from).toFixed(1);
      if (!open) d += 'M' + px + ' ' + (floor === null ? py : floor.toFixed(1));
      if (open || floor !== null) d += 'V' + py;
      d += 'H' + x(to).toFixed(1);
      open = true;
    }
    end();
    return d;
  }
  function nice(ms) {
    const power = Math.pow(10, Math.floor(Math.log10(ms)));
    for (const m of [1, 2, 5]) if (m * power >= ms) return m * power;
    return 10 * power;
  }
  function cursor(row) {
    if (!row.svg) return;
    const old = row.svg.querySelector('line.cursor');
    if (old) old.remove();
    if (row.cursor === null) return;
    const x = row.x(row.cursor);
    row.svg.append(draw('line', { class: 'cursor', x1: x, x2: x, y1: 0, y2: H - BOTTOM }));
  }

  return { paint, cursor, valueAt, lines, LEFT };
})();
