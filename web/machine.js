// All machines, and one.
import { foreign, h, put, say } from './dom.js';
import { ask, change, live, problemText, report, serverNow } from './net.js';
import { badge, duration, plural } from './words.js';
import { makeTable } from './tables.js';
import { machineLink, taskColumns } from './overview.js';

export function machinesView() {
  const filter = h('input', {type: 'search', placeholder: 'name or state', oninput: () => update()});
  const table = makeTable([
    {name: 'machine', wide: true, text: (one) => one.name, node: (one) => machineLink(one.name), sort: (one) => one.name},
    {name: 'state', text: (one) => one.state, node: (one) => badge(one.state), sort: (one) => one.state},
    {name: 'devices', right: true, text: (one) => one.devices.length, sort: (one) => one.devices.length},
    {name: 'free', right: true, text: (one) => one.devices.filter((device) => device.free).length,
      sort: (one) => one.devices.filter((device) => device.free).length},
    {name: 'cores', right: true, text: (one) => one.cpus, sort: (one) => one.cpus},
    {name: 'memory MB', right: true, text: (one) => one.memory_mb, sort: (one) => one.memory_mb},
    {name: 'tasks', right: true, text: (one) => one.task_count, sort: (one) => one.task_count},
    {name: 'problem', text: (one) => one.problem || '', node: (one) => foreign(one.problem || '', 120)},
  ], {label: 'Machines', key: (one) => one.name, most: 100, empty: 'No machine fits.'});
  const count = h('p', {class: 'lead'});
  const element = h('div', {}, h('h1', {}, 'Machines'), count, h('section', {class: 'card'},
    h('div', {class: 'tools'}, h('label', {}, 'Find', filter)), table.element));
  function update() {
    const wanted = filter.value.trim().toLowerCase();
    const all = [...live.workers.values()];
    count.textContent = plural(all.length, 'machine');
    table.update(all.filter((one) => !wanted || one.name.toLowerCase().includes(wanted) || one.state.includes(wanted)));
  }
  return {element, update, title: 'Machines'};
}

function machineFacts(worker) {
  return h('dl', {class: 'facts'},
    h('dt', {}, 'Address'), h('dd', {}, foreign(worker.address)),
    h('dt', {}, 'Cores'), h('dd', {}, worker.cpus),
    h('dt', {}, 'Memory'), h('dd', {}, worker.memory_mb + ' MB'),
    h('dt', {}, 'Tasks'), h('dd', {}, worker.task_count),
    h('dt', {}, 'Stages of pipelines'), h('dd', {}, worker.stages ? 'yes' : 'no'),
    h('dt', {}, 'Heard'), h('dd', {}, duration(serverNow() - worker.heard) + ' ago'),
    worker.problem && [h('dt', {}, 'Problem'), h('dd', {}, foreign(worker.problem, 2000))]);
}

export function machineView(name) {
  const head = h('div', {class: 'head'});
  const facts = h('section', {class: 'card'}, h('h2', {}, 'Machine'));
  const body = h('div', {});
  facts.append(body);
  const devices = makeTable([
    {name: 'device', text: (one) => one.name, node: (one) => foreign(one.name)},
    {name: 'model', text: (one) => one.model, node: (one) => foreign(one.model)},
    {name: 'memory MB', right: true, text: (one) => one.memory_mb},
    {name: 'state', text: (one) => one.free, node: (one) => badge(one.free ? 'free' : 'leased')},
  ], {label: 'Devices', key: (one) => one.name, empty: 'It offers no devices: it takes tasks that need none.'});
  const tasks = makeTable([taskColumns.id, taskColumns.name, taskColumns.user, taskColumns.state, taskColumns.since, taskColumns.progress],
    {label: 'Tasks of this machine', key: (task) => task.id, most: 50, empty: 'It has run nothing that is still known.'});
  const element = h('div', {}, head, h('div', {class: 'even'}, facts,
    h('section', {class: 'card'}, h('h2', {}, 'Devices'), devices.element)),
  h('section', {class: 'card'}, h('h2', {}, 'Tasks here, the newest first'), tasks.element));
  let listed = [];
  let over = false;

  async function look() {
    try {
      listed = (await ask('/api/tasks?limit=50&worker=' + encodeURIComponent(name))).tasks;
      update();
    } catch (error) {
      if (!over) say(problemText(error));
    }
  }

  async function drain(wish) {
    try {
      await change('/api/drain', {worker: name, drain: wish});
      say(wish ? name + ' gets no further tasks' : name + ' gets tasks again');
    } catch (error) {
      say(problemText(error));
    }
  }

  let drawn = '';
  function update() {
    const worker = live.workers.get(name);
    if (!worker) {
      put(head, h('h1', {}, foreign(name)), h('p', {class: 'lead'}, 'There is no such machine.'));
      return;
    }
    const text = worker.state + worker.draining + (live.session && live.session.admin);
    if (drawn !== text) {
      drawn = text;
      put(head, h('div', {}, h('h1', {}, foreign(name), ' ', badge(worker.state))),
        !report && live.session && live.session.admin && h('div', {class: 'acts'},
          h('button', {class: 'act', type: 'button', onclick: () => drain(!worker.draining)}, worker.draining ? 'Give it tasks again' : 'Drain')));
    }
    put(body, machineFacts(worker));
    devices.update(worker.devices);
    tasks.update(listed.map((task) => live.tasks.get(String(task.id)) || task));
  }
  look();
  const timer = setInterval(look, 5000);
  return {element, update, title: name, close: () => { over = true; clearInterval(timer); }};
}
