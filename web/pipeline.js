// A pipeline: its graph with the cut, where each stage runs, what was planned and what is measured.
import { foreign, h, put, shown } from './dom.js';
import { ask } from './net.js';
import { milliseconds, meter } from './words.js';
import { graphPicture, legend, pipelineRows, timeLine } from './charts.js';
import { makeTable } from './tables.js';
import { machineLink } from './overview.js';

const BATCHES = 6;

function layerText(stage) {
  return stage.from === stage.to ? stage.from : stage.from + ' to ' + stage.to;
}

/** What a stage has told that it measured: seconds, or nothing. */
function told(task, rank, key) {
  const progress = task.members[rank] && task.members[rank].progress;
  const value = progress && progress[key];
  return typeof value === 'number' && value > 0 ? value : undefined;
}

export function pipelineCard(id) {
  const summary = h('p', {});
  const picture = h('div', {});
  const names = h('div', {});
  const planned = h('div', {});
  const measured = h('div', {});
  const table = makeTable([
    {name: 'stage', right: true, text: (row) => row.rank},
    {name: 'layers', text: (row) => layerText(row.stage), node: (row) => foreign(layerText(row.stage), 80)},
    {name: 'machine', text: (row) => row.stage.worker, node: (row) => machineLink(row.stage.worker)},
    {name: 'planned period', right: true, text: (row) => milliseconds(row.stage.period_s)},
    {name: 'measured period', right: true, text: (row) => milliseconds(row.period)},
    {name: 'computes', right: true, text: (row) => milliseconds(row.stage.compute_s)},
    {name: 'measured busy', right: true, text: (row) => milliseconds(row.busyS)},
    {name: 'sends', right: true, text: (row) => milliseconds(row.stage.send_s)},
    {name: 'busy', text: (row) => row.busy, node: (row) => row.busy === undefined ? '–' : meter(row.busy, 'stage ' + row.rank + ' busy')},
    {name: 'memory MB', right: true, text: (row) => row.stage.memory_mb === undefined ? '–' : Math.round(row.stage.memory_mb)},
  ], {label: 'Stages', key: (row) => row.rank, empty: 'There is no plan yet.'});
  const element = h('section', {class: 'card'}, h('h2', {}, 'Pipeline'), summary, picture, names, h('h3', {}, 'Stages'), table.element,
    h('div', {class: 'even'}, h('div', {}, h('h3', {}, 'As planned: the first micro-batches'), planned),
      h('div', {}, h('h3', {}, 'As measured: the same with what each stage took'), measured)));
  let graph = null;
  let drawn = '';
  let asked = false;

  async function fetchGraph() {
    asked = true;
    try {
      graph = await ask('/api/graph?id=' + id);
      drawn = '';
    } catch (error) {
      put(picture, h('p', {class: 'empty'}, shown(error.message)));
    }
  }

  function update(task) {
    element.hidden = !(task.spec && task.spec.pipeline);
    if (element.hidden) return;
    if (!asked) fetchGraph().then(() => update(task));
    const plan = task.plan || {};
    const stages = plan.stages || [];
    const rows = stages.map((stage, rank) => ({stage, rank, period: told(task, rank, 'period_s'), busyS: told(task, rank, 'micro_batch_s'),
      busy: told(task, rank, 'busy')}));
    table.update(rows);
    const slowest = Math.max(...rows.map((row) => row.period || 0), 0);
    put(summary, plan.measure ? 'This attempt measures the model on its machines; the plan comes after it.'
      : !stages.length ? 'The plan is not made yet.'
        : ['A micro-batch of ' + plan.micro_batch + ' every ', h('b', {}, milliseconds(plan.period_s)), ' planned',
          slowest > 0 && [', ', h('b', {}, milliseconds(slowest)), ' measured'],
          plan.proven ? '; no plan has a shorter period.' : '.']);
    const text = JSON.stringify([plan.plan, stages.length, rows.map((row) => row.busyS), graph !== null]);
    if (drawn === text) return;
    drawn = text;
    if (graph) put(picture, graphPicture(graph, stages));
    put(names, stages.length > 0 && legend(stages.map((stage, rank) => 'stage ' + rank + ' on ' + stage.worker)));
    const labels = stages.map((stage, rank) => rank + ': ' + stage.worker);
    const sends = stages.map((stage) => stage.send_s);
    const options = {text: (time) => (time * 1e3).toPrecision(2) + ' ms'};
    put(planned, timeLine(pipelineRows(labels, stages.map((stage) => stage.compute_s), sends, BATCHES), {...options, label: 'Planned micro-batches by stage'}));
    put(measured, rows.length > 0 && rows.every((row) => row.busyS)
      ? timeLine(pipelineRows(labels, rows.map((row) => row.busyS), sends, BATCHES), {...options, label: 'Measured micro-batches by stage'})
      : h('p', {class: 'empty'}, 'The stages have not told yet what a micro-batch takes them.'));
  }
  return {element, update};
}
