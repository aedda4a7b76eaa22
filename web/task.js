// One task: where it stands, why, what it reports and prints, and what can be done with it.
import { foreign, h, put, say, shown } from './dom.js';
import { ask, change, focusOn, live, problemText, report, serverNow } from './net.js';
import { badge, duration, endText, hasEnded, meter, moment, plural, progressText } from './words.js';
import { curves, timeLine } from './charts.js';
import { artifactCard, followOutput, outputCard, outputPath } from './output.js';
import { pipelineCard } from './pipeline.js';
import { machineLink, taskColumns } from './overview.js';
import { makeTable } from './tables.js';

/** Numbers of progress lines by key: [[x, y], …], x being the step, the epoch or the line. */
export class Metrics {
  constructor() {
    this.series = new Map();
    this.partial = '';
    this.count = 0;
  }

  take(text) {
    const lines = (this.partial + text).split('\n');
    this.partial = lines.pop();
    for (const line of lines) this.takeLine(line);
  }

  takeLine(line) {
    let told;
    try {
      told = JSON.parse(line);
    } catch (error) {
      return;  // A program may write what it likes.
    }
    if (!told || typeof told !== 'object') return;
    this.count += 1;
    // A line without a step, such as one at an epoch's end, stands where the last one with a step was.
    const x = [told.step, this.step, told.epoch, told.rows].find((one) => typeof one === 'number') ?? this.count;
    if (typeof told.step === 'number') this.step = told.step;
    for (const [key, value] of Object.entries(told)) {
      if (typeof value !== 'number' || ['step', 'epoch', 'rows', 'progress'].includes(key)) continue;
      if (!this.series.has(key)) {
        if (this.series.size >= 40) continue;
        this.series.set(key, []);
      }
      const points = this.series.get(key);
      points.push([x, value]);
      if (points.length > 50000) points.splice(0, 10000);
    }
  }
}

function curveCard(id) {
  const loss = h('div', {});
  const pace = h('div', {});
  const other = h('select', {onchange: () => draw()});
  const more = h('div', {hidden: true}, h('div', {class: 'tools'}, h('label', {}, 'Also', other)));
  const third = h('div', {});
  more.append(third);
  const element = h('section', {class: 'card'}, h('h2', {}, 'Curves'), h('div', {class: 'even'}, h('div', {}, h('h3', {}, 'Loss'), loss),
    h('div', {}, h('h3', {}, 'Throughput'), pace)), more);
  let metrics = new Metrics();
  let stop = () => {};
  let started = '';

  function draw() {
    const losses = [...metrics.series.keys()].filter((key) => key.includes('loss'));
    const paces = [...metrics.series.keys()].filter((key) => key.endsWith('_per_second'));
    put(loss, curves(losses.map((name) => ({name, points: metrics.series.get(name)})), {label: 'Loss by step', empty: 'It has told no loss.'}));
    put(pace, curves(paces.map((name) => ({name, points: metrics.series.get(name)})), {label: 'Throughput by step', zero: true, empty: 'It has told no throughput.'}));
    const rest = [...metrics.series.keys()].filter((key) => !losses.includes(key) && !paces.includes(key));
    more.hidden = rest.length === 0;
    if (other.options.length !== rest.length) {
      const chosen = other.value;
      put(other, rest.map((name) => h('option', {value: name}, shown(name))));
      if (rest.includes(chosen)) other.value = chosen;
    }
    if (rest.length) put(third, curves([{name: other.value, points: metrics.series.get(other.value) || []}], {label: other.value, share: 1}));
  }

  function update(task) {
    // The last rank of a pipeline knows the loss.
    const rank = task.spec && task.spec.pipeline ? Math.max(0, task.members.length - 1) : 0;
    const choice = task.attempts + ' ' + rank;
    if (task.attempts === 0 || choice === started) return;
    started = choice;
    stop();
    metrics = new Metrics();
    draw();
    stop = followOutput(outputPath(id, 'metrics', 0, rank), false, (text) => {
      metrics.take(text);
      if (text) draw();
    }, () => {});
  }
  draw();
  return {element, update, close: () => stop()};
}

function factList(task) {
  const now = serverNow();
  const spec = task.spec || {};
  const began = hasEnded(task) || task.state === 'active' ? task.changed : 0;
  const facts = [
    ['User', foreign(task.user)],
    ['Submitted', moment(task.submitted) + ', ' + duration(now - task.submitted) + ' ago'],
    began && [hasEnded(task) ? 'Ended' : 'Running since', moment(began) + ', ' + duration(now - began) + ' ago'],
    ['Attempts', task.attempts + ' (' + task.failures + ' failed, ' + task.losses + ' lost, ' + task.preemptions + ' preempted)'],
    task.refusals > 0 && ['Refusals', task.refusals + ' that a worker could not start'],
    ['Where', task.members.length ? task.members.map((member, index) => [index > 0 && ', ', machineLink(member.worker),
      member.devices.length > 0 && ' (' + shown(member.devices.join(', ')) + ')']) : '–'],
    ['Asks for', plural(spec.required_gpus ?? 0, 'device') + ', ' + plural(spec.cpus || 0, 'core') + ', ' + (spec.memory_mb || 0) + ' MB'],
    ['Priority', spec.priority || 0],
    task.first !== task.id && ['Array', h('a', {href: '#/task/' + task.first}, 'of task ' + task.first)],
    spec.params && Object.keys(spec.params).length > 0 && ['Parameters', foreign(Object.entries(spec.params).map(([key, value]) => key + '=' + value).join('  '), 600)],
    (spec.command || []).length > 0 && ['Command', foreign(spec.command.join(' '), 600)],
    endText(task) && ['Last end', foreign(endText(task), 4000)],
    task.plan && task.plan.checkpoint && ['Checkpoint', foreign(task.plan.checkpoint)],
    task.plan && task.plan.results && ['Results', foreign(task.plan.results)],
    spec.pipeline && ['Custody', spec.pipeline.secure
      ? 'every stage signs what it hands on and its receiver checks it: see Pipeline'
      : 'not asked for (submit --secure)'],
  ];
  return h('dl', {class: 'facts'}, facts.filter(Boolean).map(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]));
}

/** Waiting and running of the task as it is known. */
function taskTime(task) {
  const now = serverNow();
  const begin = task.submitted;
  const bars = [];
  const started = task.state === 'active' ? task.changed : 0;
  const end = hasEnded(task) ? task.changed : now;
  if (started) {
    bars.push({begin, end: started, colour: 5, faint: true, title: 'waited ' + duration(started - begin)});
    bars.push({begin: started, end, colour: 0, title: 'attempt ' + task.attempts + ' runs for ' + duration(end - started)});
  } else {
    bars.push({begin, end, colour: task.state === 'succeeded' ? 2 : hasEnded(task) ? 4 : 5, faint: !hasEnded(task),
      title: (hasEnded(task) ? 'from submission to its end ' : 'waits for ') + duration(end - begin)});
  }
  return timeLine([{name: 'task ' + task.id, bars}], {label: 'Time line of task ' + task.id, text: duration, share: 1});
}

export function taskView(id) {
  const head = h('div', {class: 'head'});
  const why = h('div', {class: 'note', role: 'status', hidden: true});
  const facts = h('div', {});
  const bar = h('div', {});
  const time = h('div', {});
  const spec = h('pre', {class: 'json'});
  const cards = {curves: curveCard(id), pipeline: pipelineCard(id), output: outputCard(id), artifacts: artifactCard(id)};
  const element = h('div', {}, head, why,
    h('section', {class: 'card'}, bar, facts, h('h3', {}, 'Time line'), time),
    cards.pipeline.element, cards.curves.element, cards.output.element, cards.artifacts.element,
    h('section', {class: 'card'}, h('details', {}, h('summary', {}, 'As it was submitted (task JSON)'), spec)));
  let task = null;
  let problem = '';
  let drawn = '';
  let over = false;

  async function act(path, body, done) {
    try {
      const answer = await change(path, body);
      say(done(answer));
      return answer;
    } catch (error) {
      say(problemText(error));
      return null;
    }
  }

  async function again() {
    const answer = await act('/api/retry', {task: id}, (made) => 'submitted again as task ' + made.task);
    if (answer) location.hash = '#/task/' + answer.task;
  }

  function reorder(event) {
    event.preventDefault();
    const priority = Number(new FormData(event.target).get('priority'));
    act('/api/priority', {task: id, priority}, () => 'task ' + id + ' has priority ' + priority);
  }

  function priorityForm() {
    const most = live.session.max_priority;
    return h('form', {class: 'acts', onsubmit: reorder},
      h('label', {}, 'Priority ', h('input', {name: 'priority', type: 'number', max: most, value: (task.spec && task.spec.priority) || 0, required: true})),
      h('button', {class: 'act', type: 'submit'}, 'Change the priority'));
  }

  function actions() {
    const session = live.session;
    if (report || !session || !session.submit || (task.user !== session.user && !session.admin)) return null;
    return h('div', {class: 'acts'},
      h('button', {class: 'act', type: 'button', onclick: again}, hasEnded(task) ? 'Retry' : 'Submit again'),
      ['pending', 'waiting', 'delayed'].includes(task.state) && priorityForm(),
      !hasEnded(task) && h('button', {class: 'act danger', type: 'button', onclick: () => act('/api/cancel', {task: id}, () => 'cancelled task ' + id)}, 'Cancel'));
  }

  async function explain() {
    try {
      const answer = await ask('/api/why?id=' + id);
      if (over) return;
      why.hidden = false;
      put(why, h('b', {}, hasEnded(task) ? 'How it is: ' : 'Why: '), foreign(answer.text, 4000));
    } catch (error) {
      why.hidden = true;
    }
  }

  async function look() {
    try {
      const found = await ask('/api/task?id=' + id);
      if (over) return;
      if (!live.task || live.task.id !== id) task = found;
      problem = '';
      update();
      explain();
    } catch (error) {
      problem = problemText(error);
      update();
    }
  }

  function update() {
    if (live.task && live.task.id === id) task = live.task;
    if (!task) {
      put(head, h('h1', {}, 'Task ' + id), problem && h('p', {class: 'problem'}, problem));
      return;
    }
    const text = JSON.stringify([task, live.session && live.session.user]);
    if (text !== drawn) {
      const state = drawn && JSON.parse(drawn)[0].state;
      drawn = text;
      put(head, h('div', {}, h('h1', {}, foreign(task.name || 'task ' + id), ' ', badge(task.state)), h('p', {class: 'lead'}, 'Task ' + id)), actions());
      put(facts, factList(task));
      const share = task.progress && task.progress.progress;
      put(bar, typeof share === 'number' && !hasEnded(task) && meter(share, 'progress'),
        h('p', {}, foreign(progressText(task.progress), 400)));
      put(spec, shown(JSON.stringify(task.spec, null, 2)));
      put(time, taskTime(task));
      if (state && state !== task.state) explain();
    }
    for (const card of Object.values(cards)) card.update(task);
  }
  focusOn(id);
  look();
  const timer = report ? 0 : setInterval(() => { if (task && !hasEnded(task)) explain(); }, 5000);
  return {element, update, title: 'Task ' + id, close: () => {
    over = true;
    clearInterval(timer);
    focusOn(0);
    for (const card of Object.values(cards)) if (card.close) card.close();
  }};
}

const STATES_SHOWN = ['', 'active', 'pending,waiting,delayed', 'succeeded', 'failed,dependency_failed', 'cancelled'];
const STATE_NAMES = ['all', 'running', 'queued', 'succeeded', 'failed', 'cancelled'];

export function tasksView() {
  const states = h('select', {onchange: () => restart()}, STATES_SHOWN.map((value, index) => h('option', {value}, STATE_NAMES[index])));
  const filter = h('input', {type: 'search', placeholder: 'name or user', oninput: () => update()});
  const columns = taskColumns;
  const table = makeTable([columns.id, columns.name, columns.user, columns.state, columns.tries, columns.where, columns.priority, columns.since, columns.progress],
    {label: 'Tasks', key: (task) => task.id, most: 1000, empty: 'No task fits.', sorted: [0, true]});
  const older = h('button', {class: 'act', type: 'button', onclick: () => fetchPage()}, 'Older');
  const element = h('div', {}, h('h1', {}, 'Tasks'), h('section', {class: 'card'},
    h('div', {class: 'tools'}, h('label', {}, 'State', states), h('label', {}, 'Find', filter)), table.element, older));
  let found = new Map();
  let next = 0;

  async function fetchPage() {
    try {
      const page = await ask('/api/tasks?limit=100' + (states.value ? '&state=' + states.value : '') + (next ? '&from=' + next : ''));
      for (const task of page.tasks) found.set(String(task.id), task);
      next = page.next;
      older.hidden = next === 0;
      update();
    } catch (error) {
      say(problemText(error));
    }
  }

  function restart() {
    found = new Map();
    next = 0;
    fetchPage();
  }

  function update() {
    const wanted = filter.value.trim().toLowerCase();
    const allowed = states.value ? states.value.split(',') : null;
    for (const [id, task] of live.tasks) {
      if (found.has(id) || next === 0 || task.id >= next) found.set(id, task);
    }
    table.update([...found.values()].filter((task) => (!allowed || allowed.includes(task.state))
      && (!wanted || task.name.toLowerCase().includes(wanted) || task.user.toLowerCase().includes(wanted))));
  }
  restart();
  return {element, update, title: 'Tasks'};
}
