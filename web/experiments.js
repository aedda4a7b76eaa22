// Tasks beside each other: their parameters, and what they measured in one plot and one table.
import { foreign, h, put, say, shown } from './dom.js';
import { ask, problemText } from './net.js';
import { figure } from './words.js';
import { curves } from './charts.js';
import { followOutput, outputPath } from './output.js';
import { taskColumns } from './overview.js';
import { makeTable } from './tables.js';
import { Metrics } from './task.js';

const MOST_COMPARED = 6;

export function experimentsView() {
  const filter = h('input', {type: 'search', placeholder: 'name or parameter', oninput: () => update()});
  const metric = h('select', {onchange: () => draw()});
  const plot = h('div', {});
  const compared = h('div', {});
  const chosen = new Map();
  let tasks = [];
  const params = (task) => Object.entries(task.spec.params || {}).map(([key, value]) => key + '=' + value).join('  ');
  const table = makeTable([
    {name: 'compare', text: (task) => chosen.has(task.id) + '' + (chosen.size >= MOST_COMPARED), node: (task) => h('input', {type: 'checkbox',
      'aria-label': 'compare task ' + task.id, checked: chosen.has(task.id), disabled: !chosen.has(task.id) && chosen.size >= MOST_COMPARED,
      onchange: (event) => choose(task, event.target.checked)})},
    taskColumns.id, taskColumns.name, taskColumns.state,
    {name: 'parameters', text: params, node: (task) => foreign(params(task), 200), sort: params},
    taskColumns.progress,
  ], {label: 'Tasks to compare', key: (task) => task.id, most: 200, empty: 'No task that has started fits.', sorted: [1, true]});
  const element = h('div', {}, h('h1', {}, 'Experiments'), h('p', {class: 'lead'}, 'Choose up to ' + MOST_COMPARED + ' tasks to compare what they report.'),
    h('section', {class: 'card'}, h('h2', {}, 'Compared'), h('div', {class: 'tools'}, h('label', {}, 'Metric', metric)), plot, compared),
    h('section', {class: 'card'}, h('h2', {}, 'Tasks'), h('div', {class: 'tools'}, h('label', {}, 'Find', filter)), table.element));

  function choose(task, wanted) {
    if (wanted) {
      const entry = {task, metrics: new Metrics()};
      const rank = task.spec.pipeline ? Math.max(0, task.members.length - 1) : 0;
      entry.stop = followOutput(outputPath(task.id, 'metrics', 0, rank), false, (text) => { entry.metrics.take(text); if (text) draw(); }, () => {});
      chosen.set(task.id, entry);
    } else {
      chosen.get(task.id).stop();
      chosen.delete(task.id);
    }
    draw();
    update();
  }

  function draw() {
    const entries = [...chosen.values()];
    const keys = [...new Set(entries.flatMap((entry) => [...entry.metrics.series.keys()]))].sort();
    const wish = keys.includes(metric.value) ? metric.value : keys.find((key) => key.includes('loss')) || keys[0] || '';
    put(metric, keys.map((key) => h('option', {value: key}, shown(key))));
    metric.value = wish;
    put(plot, curves(entries.map((entry) => ({name: entry.task.id + ' ' + entry.task.name, points: entry.metrics.series.get(wish) || []})),
      {label: wish, legend: true, share: 1, empty: entries.length ? 'They have told no numbers.' : 'Nothing is chosen.'}));
    const names = [...new Set(entries.flatMap((entry) => Object.keys(entry.task.spec.params || {})))];
    put(compared, entries.length > 0 && h('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Compared'}, h('table', {'aria-label': 'Compared'},
      h('thead', {}, h('tr', {}, h('th', {scope: 'col'}, 'task'), names.map((name) => h('th', {scope: 'col'}, shown(name))),
        keys.map((key) => h('th', {scope: 'col', class: 'right'}, 'last ' + shown(key))))),
      h('tbody', {}, entries.map((entry) => h('tr', {}, h('td', {}, taskColumns.name.node(entry.task)),
        names.map((name) => h('td', {}, foreign((entry.task.spec.params || {})[name] ?? '–', 60))),
        keys.map((key) => {
          const points = entry.metrics.series.get(key);
          return h('td', {class: 'right'}, points ? figure(points[points.length - 1][1]) : '–');
        })))))));
  }

  function update() {
    const wanted = filter.value.trim().toLowerCase();
    table.update(tasks.filter((task) => !wanted || task.name.toLowerCase().includes(wanted) || params(task).toLowerCase().includes(wanted)));
  }

  async function fetchTasks() {
    try {
      tasks = (await ask('/api/tasks?limit=200')).tasks.filter((task) => task.attempts > 0);
      update();
    } catch (error) {
      say(problemText(error));
    }
  }
  fetchTasks();
  draw();
  return {element, update, title: 'Experiments', close: () => { for (const entry of chosen.values()) entry.stop(); }};
}
