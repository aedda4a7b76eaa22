// What a task prints: followed as it comes, searched, shown as text whatever it holds.
import { foreign, h, put, shown } from './dom.js';
import { askOutput, problemText, report } from './net.js';
import { hasEnded } from './words.js';

const MOST_LINES = 5000;
const LONG_LINE = 2000;
const PERIOD_MS = 1000;

export function outputPath(task, stream, attempt, rank) {
  return '/api/output?id=' + task + '&stream=' + stream + '&attempt=' + attempt + '&rank=' + rank;
}

/** Reads a stream from its tail on, again and again; `take` gets texts, `failed` why there are none. Call stop(). */
export function followOutput(path, fromTail, take, failed) {
  const decoder = new TextDecoder();
  let offset = fromTail ? -1 : 0;
  let over = false;
  let timer = 0;
  async function read() {
    try {
      const piece = await askOutput(path, offset);
      if (over) return;
      const skipped = offset >= 0 ? piece.offset - offset : piece.offset;
      offset = piece.offset + piece.bytes.length;
      take(decoder.decode(piece.bytes, {stream: true}), skipped);
      // There may be more at once.
      if (piece.bytes.length >= 1 << 20) return read();
    } catch (error) {
      if (over) return;
      failed(problemText(error));
    }
    if (!report && !over) timer = setTimeout(read, PERIOD_MS);
  }
  read();
  return () => { over = true; clearTimeout(timer); };
}

function lineElement(text) {
  if (text.length <= LONG_LINE) return h('div', {}, shown(text));
  const line = h('div', {}, shown(text.slice(0, LONG_LINE)), '… ');
  line.append(h('button', {type: 'button', onclick: () => { line.textContent = shown(text); }}, 'all ' + text.length + ' characters'));
  return line;
}

/** A card with the output of a task: streams, attempts, ranks, search. */
export function outputCard(id) {
  let task = null;
  let stop = () => {};
  let lines = [];
  let partial = '';
  let started = '';
  const state = {stream: 'out', attempt: 0, rank: 0};
  const log = h('div', {class: 'log', tabindex: 0, role: 'log', 'aria-label': 'Output', 'aria-live': 'off'});
  const note = h('p', {class: 'soft'});
  const find = h('input', {type: 'search', placeholder: 'text', oninput: () => mark()});
  const only = h('input', {type: 'checkbox', onchange: () => mark()});
  const keep = h('input', {type: 'checkbox', checked: true});
  const hits = h('span', {class: 'soft', role: 'status'});
  const streams = h('select', {onchange: (event) => { state.stream = event.target.value; restart(); }},
    ['out', 'err', 'metrics'].map((name) => h('option', {value: name}, {out: 'standard output', err: 'standard error', metrics: 'progress lines'}[name])));
  const attempts = h('select', {onchange: (event) => { state.attempt = Number(event.target.value); restart(); }});
  const ranks = h('select', {onchange: (event) => { state.rank = Number(event.target.value); restart(); }});
  const rankLabel = h('label', {}, 'Rank', ranks);
  const element = h('section', {class: 'card'}, h('h2', {}, 'Output'), h('div', {class: 'tools'},
    h('label', {}, 'Stream', streams), h('label', {}, 'Attempt', attempts), rankLabel,
    h('label', {}, 'Search', find), h('label', {}, only, 'matches only'), h('label', {}, keep, 'follow'), hits), note, log);

  function matches(text) {
    const wanted = find.value.toLowerCase();
    return wanted !== '' && text.toLowerCase().includes(wanted);
  }

  function mark() {
    let count = 0;
    for (const line of lines) {
      const hit = matches(line.text);
      count += hit ? 1 : 0;
      line.element.className = hit ? 'hit' : '';
      line.element.hidden = only.checked && find.value !== '' && !hit;
    }
    hits.textContent = find.value === '' ? '' : count + (count === 1 ? ' line' : ' lines');
  }

  function add(text) {
    const line = {text, element: lineElement(text)};
    lines.push(line);
    log.append(line.element);
  }

  function take(text, skipped) {
    if (skipped > 0) add('[' + skipped + ' bytes before this are not shown]');
    const parts = (partial + text).split('\n');
    partial = parts.pop();
    const closing = report || (task && task.attempts !== state.attempt && state.attempt !== 0);
    for (const part of parts) add(part.replace(/\r$/, ''));
    if (closing && partial) { add(partial); partial = ''; }
    while (lines.length > MOST_LINES) lines.shift().element.remove();
    note.textContent = lines.length === 0 && !partial ? 'It has printed nothing here.' : '';
    if (find.value) mark();
    if (keep.checked && (parts.length > 0)) log.scrollTop = log.scrollHeight;
  }

  function restart() {
    stop();
    lines = [];
    partial = '';
    put(log);
    note.textContent = 'Reading…';
    stop = followOutput(outputPath(id, state.stream, state.attempt, state.rank), true, take, (problem) => { note.textContent = problem; });
  }

  function options(select, values, chosen, text) {
    put(select, values.map((value) => h('option', {value}, text(value))));
    select.value = String(chosen);
  }

  function update(next) {
    task = next;
    const choice = task.attempts + ' ' + task.members.length;
    if (choice === started) return;
    const first = started === '';
    started = choice;
    const numbers = [0];
    if (!report) for (let attempt = task.attempts; attempt >= 1 && numbers.length < 17; --attempt) numbers.push(attempt);
    options(attempts, numbers, state.attempt, (value) => value === 0 ? 'latest' : value);
    options(ranks, [...Array(Math.max(1, task.members.length)).keys()], state.rank, (value) => value
      + (task.members[value] ? ': ' + shown(task.members[value].worker).slice(0, 40) : ''));
    rankLabel.hidden = task.members.length < 2;
    if (task.attempts === 0) note.textContent = 'It has not started yet.';
    else if (first || state.attempt === 0) restart();
  }
  return {element, update, close: () => stop()};
}

/** The files that a task left. */
export function artifactCard(id) {
  const list = h('ul', {});
  const note = h('p', {class: 'soft'}, 'Files are gathered when an attempt has ended.');
  const element = h('section', {class: 'card', hidden: true}, h('h2', {}, 'Artifacts'), note, list);
  let looked = '';
  async function update(task) {
    const wanted = (task.spec.artifacts || []).length > 0;
    element.hidden = !wanted;
    const when = task.state + task.attempts;
    if (!wanted || looked === when || !hasEnded(task) || task.attempts === 0) return;
    looked = when;
    const stop = followOutput(outputPath(id, 'artifacts', 0, 0), false, (text) => {
      stop();
      const files = text.split('\n').filter(Boolean).map((line) => JSON.parse(line));
      note.textContent = files.length === 0 ? 'It left none of those that it names.' : '';
      put(list, files.slice(0, 1000).map((file) => h('li', {}, report ? foreign(file.path) : h('a', {
        href: outputPath(id, 'artifact', 0, 0) + '&path=' + encodeURIComponent(file.path), download: file.path.split('/').pop()},
      foreign(file.path)), ' ', h('span', {class: 'soft'}, file.bytes + ' bytes'))));
    }, (problem) => { note.textContent = problem; stop(); });
  }
  return {element, update};
}
