// What the server tells: answers, and the live picture with what changes in it.
import { shown } from './dom.js';

const kept = document.getElementById('report');
/** The data of a page that stands alone; null where there is a server. */
export const report = kept ? JSON.parse(kept.textContent) : null;

/** All that views look at. */
export const live = {
  session: null, status: null, workers: new Map(), tasks: new Map(), happened: [], load: [], task: null,
  connected: false, offset: 0,
};
const watchers = new Set();

/** Calls `changed` after each change, until the function that it gives is called. */
export function watch(changed) {
  watchers.add(changed);
  return () => watchers.delete(changed);
}

function tell() {
  for (const changed of [...watchers]) changed();
}

/** Now, as the server counts. */
export function serverNow() {
  return report ? report.now : Date.now() / 1000 + live.offset;
}

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

async function failure(answer) {
  let text = answer.status + ' ' + answer.statusText;
  try {
    text = (await answer.json()).error || text;
  } catch (error) {
    // It was no JSON: the status has to do.
  }
  return new Refused(answer.status, text);
}

/** The JSON at a path. */
export async function ask(path) {
  if (report) {
    if (!(path in report.answers)) throw new Refused(404, 'the report does not hold this');
    return report.answers[path];
  }
  const answer = await fetch(path, {headers: {Accept: 'application/json'}});
  if (!answer.ok) throw await failure(answer);
  return answer.json();
}

/** Bytes of a task's output from an offset on: {offset, bytes}. */
export async function askOutput(path, offset) {
  if (report) {
    const held = report.answers[path];
    if (!held || offset > 0) return {offset, bytes: new Uint8Array()};
    return {offset: held.offset, bytes: new TextEncoder().encode(held.text)};
  }
  const answer = await fetch(path + (offset < 0 ? '&tail=1' : '&offset=' + offset));
  if (!answer.ok) throw await failure(answer);
  const bytes = new Uint8Array(await answer.arrayBuffer());
  return {offset: Number(answer.headers.get('X-Harmonics-Offset')), bytes};
}

/** Changes something; the JSON of the answer. */
export async function change(path, body) {
  const answer = await fetch(path, {
    method: 'POST', body: JSON.stringify(body),
    headers: {'Content-Type': 'application/json', 'X-Harmonics-Action': live.session ? live.session.action : ''},
  });
  if (!answer.ok) throw await failure(answer);
  return answer.json();
}

function noteLoad() {
  const status = live.status;
  const at = serverNow();
  live.load.push({at, leased: status.devices ? status.devices_leased / status.devices : 0, active: status.tasks.active,
    queued: status.tasks.pending + status.tasks.waiting + status.tasks.delayed});
  if (live.load.length > 600) live.load.shift();
}

function merge(into, entries) {
  for (const [key, value] of Object.entries(entries)) {
    if (value === null) into.delete(key);
    else into.set(key, value);
  }
}

function take(kind, data) {
  if (kind === 'snapshot') {
    live.offset = data.now - Date.now() / 1000;
    live.status = data.status;
    live.workers = new Map(Object.entries(data.workers));
    live.tasks = new Map(Object.entries(data.tasks));
    live.happened = data.happened;
  } else if (kind === 'delta') {
    if (data.status) live.status = data.status;
    if (data.workers) merge(live.workers, data.workers);
    if (data.tasks) merge(live.tasks, data.tasks);
    if (data.happened) live.happened = live.happened.concat(data.happened).slice(-200);
  } else {
    live.task = data;
  }
  if (live.status && kind !== 'task') noteLoad();
  tell();
}

let source = null;
let again = 0;
let lastId = '';
let focus = 0;
let lost = null;

function open() {
  clearTimeout(again);
  const words = [];
  if (focus) words.push('task=' + focus);
  if (lastId) words.push('last=' + encodeURIComponent(lastId));
  source = new EventSource('/api/events' + (words.length ? '?' + words.join('&') : ''));
  for (const kind of ['snapshot', 'delta', 'task']) {
    source.addEventListener(kind, (event) => {
      if (event.lastEventId) lastId = event.lastEventId;
      live.connected = true;
      take(kind, JSON.parse(event.data));
    });
  }
  source.onopen = () => { live.connected = true; tell(); };
  source.onerror = () => {
    live.connected = false;
    tell();
    // The browser tries again by itself unless the server refused: then we look whether we are still known.
    if (source && source.readyState === EventSource.CLOSED) {
      source = null;
      again = setTimeout(look, 1000);
    }
  };
}

async function look() {
  try {
    live.session = await ask('/api/session');
    open();
  } catch (error) {
    if (error.status === 401) lost();
    else again = setTimeout(look, 1000);
  }
}

/** Follows the cluster from here on; `unknown` is called when the session is over. */
export function follow(unknown) {
  lost = unknown;
  open();
}

/** All of this task is told too, from now on; 0: of none. */
export function focusOn(task) {
  if (report || focus === task) return;
  focus = task;
  live.task = null;
  if (source) {
    source.close();
    open();
  }
}

export function unfollow() {
  clearTimeout(again);
  if (source) source.close();
  source = null;
  lastId = '';
  live.session = null;
}

export function problemText(error) {
  return shown(error instanceof Refused ? error.message : 'the server cannot be reached: ' + error.message);
}
