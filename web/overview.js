// The cluster at a glance: machines, devices, load, queue, events.
import { foreign, h, put } from './dom.js';
import { badge, clock, duration, hasEnded, meter, moment, placeText, plural, progressText, endText } from './words.js';
import { live, serverNow } from './net.js';
import { curves } from './charts.js';
import { makeTable } from './tables.js';

const MACHINES_SHOWN = 60;

export function taskLink(task) {
  return h('a', {href: '#/task/' + task.id}, foreign(task.name || 'task ' + task.id, 80));
}

export function machineLink(name) {
  return h('a', {href: '#/machine/' + encodeURIComponent(name)}, foreign(name, 80));
}

function shareOf(task) {
  const share = task.progress && task.progress.progress;
  return typeof share === 'number' ? share : null;
}

export function progressCell(task) {
  const share = shareOf(task);
  const text = hasEnded(task) ? endText(task) : progressText(task.progress);
  return h('div', {}, share !== null && !hasEnded(task) && meter(share, 'progress of task ' + task.id), foreign(text, 120));
}

/** Columns of tables of tasks, by name. */
export const taskColumns = {
  id: {name: 'id', right: true, text: (task) => task.id, sort: (task) => task.id},
  name: {name: 'name', wide: true, text: (task) => task.name, node: taskLink, sort: (task) => task.name},
  user: {name: 'user', text: (task) => task.user, node: (task) => foreign(task.user, 40), sort: (task) => task.user},
  state: {name: 'state', text: (task) => task.state, node: (task) => badge(task.state), sort: (task) => task.state},
  tries: {name: 'tries', right: true, text: (task) => task.attempts, sort: (task) => task.attempts},
  where: {name: 'where', wide: true, text: placeText, node: (task) => foreign(placeText(task), 60), sort: placeText},
  since: {name: 'since', right: true, sort: (task) => task.changed || task.submitted,
    text: (task) => clock(task.changed || task.submitted),
    node: (task) => h('time', {title: moment(task.changed || task.submitted)}, clock(task.changed || task.submitted))},
  progress: {name: 'progress or end', text: (task) => JSON.stringify(task.progress) + task.state, node: progressCell},
  priority: {name: 'priority', right: true, text: (task) => (task.spec && task.spec.priority) || 0, sort: (task) => (task.spec && task.spec.priority) || 0},
};

function tile(label, number, of, share) {
  return h('div', {class: 'tile'}, h('div', {class: 'label'}, label),
    h('div', {class: 'number'}, number, of !== undefined && h('small', {}, ' of ' + of)),
    share !== undefined && meter(share, label));
}

function deviceSquares(worker) {
  const busy = worker.devices.filter((device) => !device.free).length;
  return h('div', {class: 'devices', role: 'img', 'aria-label': worker.devices.length
    ? busy + ' of ' + plural(worker.devices.length, 'device') + ' busy' : 'no devices'},
  worker.devices.slice(0, 16).map((device) => h('i', {class: device.free ? '' : 'busy'})));
}

function machineTile(worker) {
  return h('a', {class: 'machine', href: '#/machine/' + encodeURIComponent(worker.name)},
    h('div', {class: 'row'}, h('b', {}, foreign(worker.name, 40)), badge(worker.state)), deviceSquares(worker),
    h('div', {class: 'soft'}, plural(worker.task_count, 'task') + ', ' + plural(worker.cpus, 'core')));
}

// Those that need a look first, then the busy ones.
function worth(worker) {
  return (worker.state === 'ready' ? 0 : 1e6) + worker.task_count;
}

export function overviewView() {
  const tiles = h('div', {class: 'tiles'});
  const machines = h('div', {class: 'machines'});
  const rest = h('p', {class: 'soft'});
  const load = h('div', {});
  const events = h('ol', {class: 'events'});
  const columns = taskColumns;
  const running = makeTable([columns.id, columns.name, columns.where, columns.since, columns.progress],
    {label: 'Running tasks', key: (task) => task.id, most: 15, empty: 'Nothing runs.'});
  const queue = makeTable([columns.id, columns.name, columns.user, columns.state, columns.since],
    {label: 'Queue', key: (task) => task.id, most: 10, empty: 'Nobody waits.'});
  const element = h('div', {},
    h('h1', {}, 'Overview'), h('p', {class: 'lead', id: 'about'}), tiles,
    h('div', {class: 'two'},
      h('div', {},
        h('section', {class: 'card'}, h('h2', {}, 'Machines'), machines, rest),
        h('section', {class: 'card'}, h('h2', {}, 'Running'), running.element),
        h('section', {class: 'card'}, h('h2', {}, 'Queue'), queue.element)),
      h('div', {},
        h('section', {class: 'card'}, h('h2', {}, 'Load since this page was opened'), load),
        h('section', {class: 'card'}, h('h2', {}, 'Events'), events))));

  let drawn = {};
  // Only what changed is drawn anew.
  function when(part, value, draw) {
    const text = JSON.stringify(value);
    if (drawn[part] === text) return;
    drawn[part] = text;
    draw();
  }

  function update() {
    const status = live.status;
    if (!status) return;
    const counts = status.tasks;
    const queued = counts.pending + counts.waiting + counts.delayed;
    when('status', status, () => {
      element.querySelector('#about').textContent = 'Harmonics ' + status.version + ', policy ' + status.policy;
      put(tiles, tile('Machines connected', status.workers_connected, status.workers),
        tile('Devices leased', status.devices_leased, status.devices, status.devices ? status.devices_leased / status.devices : 0),
        tile('Running', counts.active), tile('Queued', queued), tile('Ended', counts.ended));
    });
    const workers = [...live.workers.values()].sort((a, b) => worth(b) - worth(a)).slice(0, MACHINES_SHOWN);
    when('machines', workers.map((one) => [one.name, one.state, one.task_count, one.devices.map((device) => device.free)]), () => {
      put(machines, workers.map(machineTile));
      put(rest, live.workers.size === 0 ? 'No machine has joined yet: start one with harmonics worker.'
        : live.workers.size > workers.length && h('a', {href: '#/machines'}, 'All ' + live.workers.size + ' machines'));
    });
    const tasks = [...live.tasks.values()];
    running.update(tasks.filter((task) => task.state === 'active').sort((a, b) => b.id - a.id));
    queue.update(tasks.filter((task) => ['pending', 'waiting', 'delayed'].includes(task.state)).sort((a, b) => a.id - b.id));
    when('events', live.happened.slice(-40).map((one) => one.number), () => {
      put(events, live.happened.length === 0 && h('li', {}, h('span', {class: 'soft'}, 'Nothing has happened yet.')),
        live.happened.slice(-40).reverse().map((one) => h('li', {}, h('time', {}, clock(one.at)), badge(one.kind),
          one.task ? h('span', {}, h('a', {href: '#/task/' + one.task}, one.task + ' '), foreign(one.name, 60)) : machineLink(one.name))));
    });
    const now = serverNow();
    when('load', live.load.length, () => live.load.length < 2 ? put(load, h('p', {class: 'empty'}, 'No numbers yet.')) : put(load, curves([
      {name: 'devices leased', points: live.load.map((one) => [one.at - now, one.leased * 100])}],
    {label: 'Share of devices leased', zero: true, area: true, height: 150, share: 0.38, yText: (y) => y + ' %', xText: (x) => duration(-x) + ' ago'}),
    curves([{name: 'running', points: live.load.map((one) => [one.at - now, one.active])},
      {name: 'queued', points: live.load.map((one) => [one.at - now, one.queued])}],
    {label: 'Tasks', zero: true, height: 150, share: 0.38, xText: (x) => duration(-x) + ' ago', legend: true})));
  }
  return {element, update, title: 'Overview'};
}
