// Which view is shown, the login, and the bar on top.
import { foreign, h, put, s, shown } from './dom.js';
import { ask, change, follow, live, problemText, report, unfollow, watch } from './net.js';
import { experimentsView } from './experiments.js';
import { machineView, machinesView } from './machine.js';
import { overviewView } from './overview.js';
import { peopleView } from './people.js';
import { submitView } from './submit.js';
import { tasksView, taskView } from './task.js';

const PLACES = [['#/', 'Overview'], ['#/machines', 'Machines'], ['#/tasks', 'Tasks'], ['#/experiments', 'Experiments'], ['#/people', 'People'], ['#/submit', 'Submit']];
let view = null;

function mark() {
  return s('svg', {viewBox: '0 0 32 32', 'aria-hidden': 'true'}, s('rect', {width: 32, height: 32, rx: 7, fill: '#2456c7'}),
    s('g', {fill: 'none', stroke: '#fff', 'stroke-width': 2.6, 'stroke-linecap': 'round'}, s('path', {d: 'M5 16c3.7-9 7.3-9 11 0s7.3 9 11 0'}),
      s('path', {d: 'M5 16c3.7 5 7.3 5 11 0s7.3-5 11 0', opacity: 0.55})));
}

function routed() {
  const words = location.hash.replace(/^#\/?/, '').split('/');
  if (words[0] === 'machines') return machinesView();
  if (words[0] === 'machine') return machineView(decodeURIComponent(words.slice(1).join('/')));
  if (words[0] === 'tasks') return tasksView();
  if (words[0] === 'task' && /^\d+$/.test(words[1] || '')) return taskView(Number(words[1]));
  if (words[0] === 'experiments') return experimentsView();
  if (words[0] === 'people') return peopleView();
  if (words[0] === 'submit') return submitView();
  return overviewView();
}

function show(made, focus) {
  if (view && view.close) view.close();
  view = made;
  const content = document.getElementById('content');
  put(content, view.element);
  document.title = shown(view.title) + ' – Harmonics';
  if (view.update) view.update();
  if (focus) content.focus({preventScroll: true});
  window.scrollTo(0, 0);
}

function turnTheme() {
  const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  document.documentElement.dataset.theme = dark ? 'light' : 'dark';
}

async function leave() {
  try {
    await change('/api/logout', {});
  } catch (error) {
    // Without a server there is nothing to leave.
  }
  unfollow();
  login();
}

let topDrawn = '';
function drawTop() {
  const here = location.hash || '#/';
  const current = PLACES.find(([href]) => href !== '#/' && (here + '/').startsWith(href.replace(/s$/, '')))?.[0] || '#/';
  const session = live.session;
  const text = JSON.stringify([current, session, live.connected]);
  if (text === topDrawn) return;
  topDrawn = text;
  put(document.getElementById('top'), h('div', {class: 'bar'}, h('a', {class: 'brand', href: report ? undefined : '#/'}, mark(), report ? 'Harmonics report' : 'Harmonics'),
    session && h('nav', {'aria-label': 'Views'}, PLACES.map(([href, name]) => h('a', {href, 'aria-current': href === current ? 'page' : undefined}, name))),
    h('div', {class: 'who'}, session && h('span', {class: 'live' + (live.connected ? '' : ' away'), role: 'status'}, h('i', {}), live.connected ? 'live' : 'reconnecting'),
      session && foreign(session.user, 30), h('button', {class: 'act', type: 'button', onclick: turnTheme, 'aria-label': 'Light or dark'}, '◐'),
      session && h('button', {class: 'act', type: 'button', onclick: leave}, 'Log out'))));
}

function login() {
  live.session = null;
  drawTop();
  const token = h('input', {type: 'password', name: 'token', autocomplete: 'current-password', required: true});
  const problem = h('p', {class: 'problem', role: 'alert', hidden: true});
  const form = h('form', {onsubmit: async (event) => {
    event.preventDefault();
    try {
      live.session = await change('/api/login', {token: token.value.trim()});
      enter();
    } catch (error) {
      problem.hidden = false;
      problem.textContent = problemText(error);
      token.select();
    }
  }}, h('label', {}, 'Token', token), h('button', {class: 'act main', type: 'submit'}, 'Log in'));
  show({element: h('section', {class: 'card login'}, h('h1', {}, 'Log in'),
    h('p', {class: 'soft'}, 'With a token of this cluster: the text in the file “token” of your configuration or of the server’s state folder.'), problem, form), title: 'Log in'});
  token.focus();
}

function enter() {
  drawTop();
  follow(login);
  show(routed(), true);
}

/** Called once, when all of the page is there. */
export async function start() {
  window.addEventListener('hashchange', () => {
    if (!live.session && !report) return;
    drawTop();
    show(routed(), true);
  });
  watch(() => {
    drawTop();
    if (view && view.update && live.session) view.update();
  });
  if (report) {
    document.body.className = 'report';
    drawTop();
    show(taskView(report.task));
    return;
  }
  try {
    live.session = await ask('/api/session');
    enter();
  } catch (error) {
    login();
  }
}
