// A pipeline: its graph with the cut, where each stage runs, what was planned and what is measured.
import { foreign, h, put, shown } from './dom.js';
import { ask } from './net.js';
import { byteText, hasEnded, milliseconds, meter } from './words.js';
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

/** What each stage hands to the next. */
function boundariesOf(stages, rows) {
  return stages.slice(0, -1).map((stage, rank) => ({rank, layer: stage.to, from: stage.worker, to: stages[rank + 1].worker,
    bytes: stage.send_bytes, send: stage.send_s, period: rows[rank].period}));
}

/** Whose signature is on what crosses a boundary, and who has looked at it: known from the task alone. */
function checkedText(task, row) {
  const ran = task.attempts > 0 && task.state !== 'pending';
  if (!ran) return 'nothing has crossed it yet';
  const problem = task.end && /custody|link|signature|signer/i.test(task.end.message || '');
  if (problem) return 'a check failed: see Last end';
  return 'by stage ' + (row.rank + 1) + ' on ' + row.to + ', each before its use' + (hasEnded(task) ? '' : ', so far');
}

function custodyPart() {
  const table = makeTable([
    {name: 'boundary', text: (row) => row.layer, node: (row) => foreign(row.layer, 60)},
    {name: 'signed by', text: (row) => 'stage ' + row.rank + ' on ' + row.from, node: (row) => ['stage ' + row.rank + ' on ', machineLink(row.from)]},
    {name: 'checked', text: (row) => row.checked},
  ], {label: 'Custody of boundaries', key: (row) => row.rank, empty: 'There is one stage: nothing crosses a boundary.'});
  const text = h('p', {});
  const element = h('div', {}, h('h3', {}, 'Custody'), text, table.element);
  function update(task, boundaries) {
    element.hidden = !(task.spec && task.spec.pipeline && task.spec.pipeline.secure);
    if (element.hidden) return;
    const kept = task.plan && (task.plan.checkpoint || task.plan.results);
    const folder = kept && kept.replace(/\/[^/]*$/, '');  // the chains lie beside it
    put(text, 'Every tensor between stages is signed, linked to what came before and checked by its receiver; a check that fails ends the run and names the link. ',
      folder ? ['The chains lie in ', foreign(folder, 300), ': ', h('code', {}, 'harmonics verify ' + shown(folder) + '/*.chain'), ' checks them again without trust in any stage.']
        : 'harmonics verify checks the chains again without trust in any stage.');
    table.update(boundaries.map((row) => ({...row, checked: checkedText(task, row)})));
  }
  return {element, update};
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
  const crossing = makeTable([
    {name: 'boundary', text: (row) => row.layer, node: (row) => foreign(row.layer, 60)},
    {name: 'from', text: (row) => row.from, node: (row) => machineLink(row.from)},
    {name: 'to', text: (row) => row.to, node: (row) => machineLink(row.to)},
    {name: 'bytes a micro-batch', right: true, text: (row) => row.bytes === undefined ? '–' : byteText(Math.round(row.bytes))},
    {name: 'planned', right: true, text: (row) => milliseconds(row.send)},
    {name: 'measured rate', right: true, text: (row) => row.bytes && row.period ? byteText(Math.round(row.bytes / row.period)) + '/s' : '–'},
  ], {label: 'Boundaries', key: (row) => row.rank, empty: 'Nothing crosses from stage to stage.'});
  const custody = custodyPart();
  const element = h('section', {class: 'card'}, h('h2', {}, 'Pipeline'), summary, picture, names, h('h3', {}, 'Stages'), table.element,
    h('h3', {}, 'Boundaries'), crossing.element, custody.element,
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
    const boundaries = boundariesOf(stages, rows);
    crossing.update(boundaries);
    custody.update(task, boundaries);
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
