// A table that is brought up to date row by row, so that focus and scrolling stay where they are.
import { h, put } from './dom.js';

/**
 * Columns are {name, text(row), node(row), right, sort(row), wide}: `text` says when a cell has changed. Options: label,
 * key(row), empty, most (rows at first), sorted: [column, descending].
 */
export function makeTable(columns, options) {
  const body = h('tbody', {});
  const more = h('button', {class: 'act', type: 'button', onclick: () => { limit += options.most || 200; update(all); }}, 'Show more');
  const nothing = h('p', {class: 'empty'}, options.empty || 'None.');
  let order = options.sorted || null;
  let all = [];
  let limit = options.most || 200;
  const lines = new Map();
  const heads = columns.map((column, index) => h('th', {scope: 'col', class: column.right && 'right'},
    column.sort ? h('button', {type: 'button', onclick: () => sortBy(index)}, column.name) : column.name));
  const table = h('table', {'aria-label': options.label}, h('thead', {}, h('tr', {}, heads)), body);
  const element = h('div', {}, h('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': options.label}, table), nothing, more);

  function sortBy(index) {
    order = [index, order && order[0] === index ? !order[1] : false];
    update(all);
  }

  function ordered(rows) {
    if (!order) return rows;
    const value = columns[order[0]].sort;
    const sign = order[1] ? -1 : 1;
    return [...rows].sort((a, b) => {
      const one = value(a);
      const other = value(b);
      return one < other ? -sign : one > other ? sign : 0;
    });
  }

  function lineOf(row) {
    const key = String(options.key(row));
    const texts = columns.map((column) => String(column.text(row)));
    let line = lines.get(key);
    if (!line) {
      line = {element: h('tr', {}), texts: []};
      for (const column of columns) line.element.append(h('td', {class: column.right ? 'right' : column.wide ? 'name' : undefined}));
      lines.set(key, line);
    }
    texts.forEach((text, index) => {
      if (line.texts[index] === text) return;
      put(line.element.children[index], columns[index].node ? columns[index].node(row) : text);
    });
    line.texts = texts;
    return [key, line];
  }

  function update(rows) {
    all = rows;
    const shownRows = ordered(rows).slice(0, limit);
    const kept = new Set();
    shownRows.forEach((row, index) => {
      const [key, line] = lineOf(row);
      kept.add(key);
      if (body.children[index] !== line.element) body.insertBefore(line.element, body.children[index] || null);
    });
    for (const [key, line] of lines) {
      if (kept.has(key)) continue;
      line.element.remove();
      lines.delete(key);
    }
    heads.forEach((head, index) => {
      if (order && order[0] === index) head.setAttribute('aria-sort', order[1] ? 'descending' : 'ascending');
      else head.removeAttribute('aria-sort');
    });
    table.parentElement.hidden = rows.length === 0;
    nothing.hidden = rows.length !== 0;
    more.hidden = rows.length <= limit;
    more.textContent = 'Show more (' + (rows.length - limit) + ')';
  }

  update([]);
  return {element, update};
}
