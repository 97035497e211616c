'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const at = id => document.getElementById(id);
  const MIN_SPAN = 200; // milliseconds
  const names = { usable: 'allows', answer: 'answers', count: 'count', attached: 'attached' };
  let view = [0, data.duration];
  let chosen = null; // the verdict whose evidence is shown

  function make(tag, cls, text) {
    const e = document.createElement(tag);
    if (cls) e.className = cls;
    if (text !== undefined) e.textContent = text;
    return e;
  }
  const time = ms => '+' + (ms / 1000).toFixed(view[1] - view[0] < 20000 ? 3 : 1) + 's';
  const value = v => v === undefined || v === -2 ? '–' : v === -1 ? 'unlimited' : String(v);
  const words = { Held: 'held', Violated: 'violated', Inconclusive: 'inconclusive', Expected: 'as expected', KnownUpstream: 'known upstream', NotJudged: 'not judged', Skipped: 'skipped' };
  const tone = s => ({ Held: 'good', Inconclusive: 'open', Expected: 'open', KnownUpstream: 'open', NotJudged: '', Skipped: '' })[s] ?? 'bad';
  const specOf = {};
  for (const s of data.specs) if (s.scope) specOf[s.scope] = s.id;

  // Rows: the elements are all there, what is in them is drawn when they come into sight.
  const rows = data.rows.map((r, i) => {
    const e = make('article', 'row'), name = make('div', 'name'), read = make('div', 'read'), box = make('div', 'chart');
    name.append(make('b', '', r.node), make('span', '', r.driver));
    if (specOf[r.scope]) name.append(make('span', '', 'spec ' + specOf[r.scope]));
    read.setAttribute('aria-live', 'polite');
    box.tabIndex = 0;
    box.setAttribute('role', 'img');
    box.setAttribute('aria-label', 'timeline of ' + r.node + ', ' + r.driver);
    e.append(name, box, read);
    at('rows').append(e);
    let most = 1;
    for (const l of chart.lines) for (const s of r[l]) most = Math.max(most, s[1]);
    const times = [...new Set([].concat(...chart.lines.map(l => r[l].map(s => s[0])), r.marks.map(m => m.at)))].sort((a, b) => a - b);
    const row = { r, e, box, read, most, times, seen: false, cursor: null, svg: null };
    const point = x => { const b = box.getBoundingClientRect(); return view[0] + (x - b.left - chart.LEFT) / Math.max(1, b.width - chart.LEFT) * (view[1] - view[0]); };
    box.addEventListener('pointermove', ev => tell(row, point(ev.clientX)));
    box.addEventListener('pointerdown', ev => tell(row, point(ev.clientX)));
    box.addEventListener('pointerleave', () => tell(row, null));
    box.addEventListener('keydown', ev => key(row, ev));
    return row;
  });

  const shadesOf = r => data.shades.filter(s => s.nodes.length === 0 || s.nodes.includes(r.node));

  // Tell what holds in a row at a time; null ends it.
  function tell(row, ms) {
    row.cursor = ms === null ? null : Math.min(Math.max(ms, view[0]), view[1]);
    if (row.cursor === null) { row.read.textContent = ''; chart.cursor(row); return; }
    const near = (view[1] - view[0]) / 100, parts = [time(row.cursor)];
    for (const l in names) parts.push(names[l] + ' ' + value(chart.valueAt(row.r[l], row.cursor)));
    const marks = row.r.marks.filter(m => Math.abs(m.at - row.cursor) <= near).sort((a, b) => Math.abs(a.at - row.cursor) - Math.abs(b.at - row.cursor));
    for (const m of marks.slice(0, 3)) parts.push(time(m.at) + ' ' + m.text);
    if (marks.length > 3) parts.push('and ' + (marks.length - 3) + ' more marks');
    for (const s of shadesOf(row.r)) if (s.from <= row.cursor && row.cursor <= s.to) parts.push(s.text);
    row.read.textContent = parts.join(' · ');
    chart.cursor(row);
  }
  function key(row, ev) {
    const step = (view[1] - view[0]) / 4;
    if (ev.shiftKey && ev.key === 'ArrowLeft') pan(-step);
    else if (ev.shiftKey && ev.key === 'ArrowRight') pan(step);
    else if (ev.key === '+' || ev.key === '=') zoom(0.5, row.cursor);
    else if (ev.key === '-') zoom(2, row.cursor);
    else if (ev.key === '0') show(0, data.duration);
    else if (ev.key === 'ArrowRight' || ev.key === 'ArrowLeft') {
      const from = row.cursor === null ? (ev.key === 'ArrowRight' ? view[0] - 1 : view[1] + 1) : row.cursor;
      const next = ev.key === 'ArrowRight' ? row.times.find(t => t > from) : row.times.findLast(t => t < from);
      if (next !== undefined) {
        if (next < view[0] || next > view[1]) pan(next - (view[0] + view[1]) / 2);
        tell(row, next);
      }
    } else return;
    ev.preventDefault();
  }

  // Draw a row as the view and the chosen verdict have it.
  function paint(row) {
    const mine = e => e.at >= 0 && (e.node ? e.node === row.r.node : subject(chosen, row));
    chart.paint(row, view, shadesOf(row.r), chosen ? chosen.evidence.filter(mine).map(e => e.at) : []);
  }

  // The view.
  function show(from, to) {
    const span = Math.min(Math.max(to - from, MIN_SPAN), data.duration);
    from = Math.min(Math.max(0, (from + to) / 2 - span / 2), data.duration - span);
    view = [from, from + span];
    at('window').textContent = time(view[0]) + ' to ' + time(view[1]);
    for (const row of rows) if (row.seen) paint(row);
  }
  const pan = by => show(...by < 0 ? [Math.max(0, view[0] + by), Math.max(0, view[0] + by) + view[1] - view[0]]
    : [Math.min(data.duration, view[1] + by) - (view[1] - view[0]), Math.min(data.duration, view[1] + by)]);
  function zoom(by, around) {
    const mid = around === null || around === undefined ? (view[0] + view[1]) / 2 : around;
    const share = (mid - view[0]) / (view[1] - view[0]), span = Math.max(MIN_SPAN, (view[1] - view[0]) * by);
    show(mid - share * span, mid + (1 - share) * span);
  }
  at('left').onclick = () => pan(-(view[1] - view[0]) / 4);
  at('right').onclick = () => pan((view[1] - view[0]) / 4);
  at('in').onclick = () => zoom(0.5);
  at('out').onclick = () => zoom(2);
  at('all').onclick = () => show(0, data.duration);

  const sight = new IntersectionObserver(changes => {
    for (const c of changes) {
      const row = rows.find(r => r.box === c.target);
      row.seen = c.isIntersecting;
      if (row.seen) paint(row); else { row.svg = null; row.box.replaceChildren(); }
    }
  }, { rootMargin: '300px' });
  for (const row of rows) sight.observe(row.box);
  let width = 0;
  new ResizeObserver(() => {
    if (at('rows').clientWidth !== width) { width = at('rows').clientWidth; show(...view); }
  }).observe(at('rows'));

  // Filters.
  const scope = at('scope');
  scope.append(new Option('all', ''));
  const scopes = [...new Set(data.rows.map(r => r.scope))].filter(s => s).sort();
  for (const s of scopes) scope.append(new Option(specOf[s] ? specOf[s] + ' (' + s + ')' : s, s));
  function filter() {
    const text = at('node').value.trim().toLowerCase();
    let shown = 0;
    for (const row of rows) {
      const r = row.r;
      row.e.hidden = scope.value !== '' && r.scope !== scope.value || text !== '' && !(r.node + ' ' + r.driver).toLowerCase().includes(text);
      if (!row.e.hidden) shown++;
    }
    at('none').hidden = shown > 0;
    if (scope.value) {
      const spec = data.specs.find(s => s.scope === scope.value);
      if (spec) show(spec.from - 1000, spec.to + 1000);
    }
  }
  scope.onchange = filter;
  at('node').oninput = filter;

  // Verdicts.
  const node = s => s.split('/')[0];
  const subject = (v, row) => node(v.subject) === row.r.node || v.scope !== '' && v.scope === row.r.scope;
  const buttons = data.verdicts.map(v => {
    const b = make('button', tone(v.status)), item = make('li');
    b.type = 'button';
    b.setAttribute('aria-pressed', 'false');
    b.append(make('span', 'word', words[v.status] || 'no verdict'), ' ', make('b', '', v.name));
    const more = [v.subject, v.boundary && tone(v.status) === 'bad' ? 'boundary ' + v.boundary : ''].filter(s => s).join(' · ');
    if (more) b.append(make('small', '', more));
    if (v.detail && v.status !== 'Held') b.append(make('small', '', v.detail.length > 160 ? v.detail.slice(0, 160) + '…' : v.detail));
    b.onclick = () => choose(v);
    item.append(b);
    at('verdicts').append(item);
    return b;
  });
  function choose(v) {
    chosen = v;
    buttons.forEach((b, i) => b.setAttribute('aria-pressed', String(data.verdicts[i] === v)));
    at('evidence').hidden = v === null;
    for (const row of rows) row.e.classList.toggle('hit', v !== null && (v.evidence.some(e => e.node === row.r.node) || subject(v, row)));
    if (v === null) { for (const row of rows) if (row.seen) paint(row); return; }
    at('evidence-title').textContent = (words[v.status] || 'no verdict') + ': ' + v.name + (v.subject ? ' of ' + v.subject : '');
    at('evidence-detail').textContent = [v.claim, v.detail].filter(s => s).join(' — ');
    at('evidence-list').replaceChildren(...v.evidence.map(e => {
      const item = make('li');
      if (e.at >= 0) {
        const b = make('button', '', '+' + (e.at / 1000).toFixed(3) + 's');
        b.type = 'button';
        b.onclick = () => jump(e.at, v, e.node);
        item.append(b);
      }
      item.append(e.ref + '  ' + e.text);
      return item;
    }));
    if (v.evidence.length === 0) at('evidence-list').append(make('li', '', 'It names no events.'));
    const proof = v.evidence.filter(e => e.at >= 0), last = proof.find(e => e.at === v.at);
    jump(v.at, v, last ? last.node : '');
    const first = Math.min(...proof.map(e => e.at));
    if (last && v.at - first <= 60000) show(first - 5000, v.at + 5000); // all of it, where that fits
    at('evidence-title').focus({ preventScroll: true });
    at('evidence').scrollIntoView({ block: 'nearest' });
  }
  // Jump to a time: 10 s around it, a whole spec for a requirement, with the row that it is about first in sight.
  function jump(ms, v, where) {
    const row = rows.find(r => r.r.node === where) || rows.find(r => subject(v, r));
    if (row && row.e.hidden) { scope.value = ''; at('node').value = ''; filter(); }
    const spec = data.specs.find(s => s.id === v.name);
    if (spec && ms === v.at) show(spec.from - 1000, spec.to + 1000);
    else if (ms >= 0) show(ms - 10000, ms + 10000);
    else show(...view);
    if (row) {
      if (ms >= 0) tell(row, ms);
      row.e.scrollIntoView({ block: 'center' });
    }
  }
  at('close').onclick = () => { const i = data.verdicts.indexOf(chosen); choose(null); if (i >= 0) buttons[i].focus(); };
  document.addEventListener('keydown', ev => { if (ev.key === 'Escape' && chosen) at('close').click(); });

  for (const s of data.signals) at('signals').append(make('dt', '', s.name), make('dd', '', s.text));
  for (const s of data.leftOut) at('left-out').append(make('li', '', 'left out: ' + s));
  if (matchMedia('(max-width: 899px)').matches && data.rows.length) at('verdicts-box').open = data.verdicts.some(v => tone(v.status) === 'bad');
  if (data.rows.length === 0) {
    at('none').hidden = false;
    at('none').textContent = 'The history shows no driver on any node.';
  }
  show(0, data.duration);
  // A fragment chooses a verdict by its number, for links: timeline.html#verdict-0.
  const wanted = /^#verdict-(\d+)$/.exec(location.hash);
  if (wanted && data.verdicts[+wanted[1]]) choose(data.verdicts[+wanted[1]]);
  document.body.dataset.ready = String(rows.length);
})();
