// Pictures out of numbers: curves, time lines, graphs. SVG made of elements, so that nothing in it is markup of others.
import { h, s, shown } from './dom.js';
import { figure, milliseconds } from './words.js';

/** How wide a picture is that takes this share of the page: so that its text is as large as other text. */
function room(share) {
  const page = Math.min(window.innerWidth, 1440) - 76;
  return Math.round(Math.max(290, window.innerWidth <= 900 ? page : page * share));
}

const COLOURS = 6;

export function colour(index) {
  return 'c' + index % COLOURS;
}

function extent(values) {
  let least = Infinity;
  let most = -Infinity;
  for (const value of values) {
    if (value < least) least = value;
    if (value > most) most = value;
  }
  return [least, most];
}

/** About `count` round numbers from `least` to `most`. */
function ticks(least, most, count) {
  const raw = (most - least) / count || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= raw);
  const found = [];
  for (let tick = Math.ceil(least / step) * step; tick <= most + step / 1e6; tick += step) found.push(Number(tick.toPrecision(10)));
  return found;
}

/** At most `most` points of a series, with the highest and lowest of each stretch, so that peaks stay. */
function thinned(points, most) {
  if (points.length <= most) return points;
  const stretch = points.length / (most / 2);
  const kept = [];
  for (let begin = 0; begin < points.length; begin += stretch) {
    const part = points.slice(Math.floor(begin), Math.floor(begin + stretch));
    const order = [...part].sort((a, b) => a[1] - b[1]);
    const pair = [order[0], order[order.length - 1]].sort((a, b) => a[0] - b[0]);
    kept.push(...(pair[0] === pair[1] ? [pair[0]] : pair));
  }
  return kept;
}

/**
 * Curves over a common x: series are {name, points: [[x, y], …]}. `options`: label (what it shows, for those who do
 * not see it), x and y (what the axes are), zero (y begins at 0), xText (of a number), height, area.
 */
export function curves(series, options) {
  const height = options.height || 220;
  const width = room(options.share || 0.48);
  const left = 58;
  const bottom = 26;
  const drawn = series.map((one) => ({name: one.name, points: thinned(one.points.filter(([x, y]) =>
    Number.isFinite(x) && Number.isFinite(y)), 800)}));
  const all = drawn.flatMap((one) => one.points);
  if (all.length === 0) return h('p', {class: 'empty'}, options.empty || 'No numbers yet.');
  let [x0, x1] = extent(all.map((point) => point[0]));
  let [y0, y1] = extent(all.map((point) => point[1]));
  if (options.zero) y0 = Math.min(0, y0);
  if (x1 === x0) x1 = x0 + 1;
  if (y1 === y0) y1 = y0 + (Math.abs(y0) || 1);
  const px = (x) => left + (x - x0) / (x1 - x0) * (width - left - 12);
  const py = (y) => 12 + (1 - (y - y0) / (y1 - y0)) * (height - bottom - 12);
  const parts = [];
  for (const tick of ticks(y0, y1, 4)) {
    parts.push(s('line', {class: 'axis', x1: left, x2: width - 12, y1: py(tick), y2: py(tick)}),
      s('text', {x: left - 7, y: py(tick) + 4, 'text-anchor': 'end'}, options.yText ? options.yText(tick) : figure(tick)));
  }
  for (const tick of ticks(x0, x1, width / 110)) {
    parts.push(s('text', {x: px(tick), y: height - 8, 'text-anchor': 'middle'}, options.xText ? options.xText(tick) : figure(tick)));
  }
  drawn.forEach((one, index) => {
    if (one.points.length === 0) return;
    const line = one.points.map(([x, y]) => px(x).toFixed(1) + ',' + py(y).toFixed(1)).join(' ');
    if (options.area) {
      const floor = py(y0).toFixed(1);
      parts.push(s('polygon', {class: 'area ' + colour(index), points: px(one.points[0][0]).toFixed(1) + ',' + floor + ' ' + line
        + ' ' + px(one.points[one.points.length - 1][0]).toFixed(1) + ',' + floor}));
    }
    if (one.points.length === 1) {
      parts.push(s('circle', {class: 'span ' + colour(index), cx: px(one.points[0][0]), cy: py(one.points[0][1]), r: 3}));
    }
    parts.push(s('polyline', {class: 'curve ' + colour(index), points: line}));
  });
  const last = drawn.filter((one) => one.points.length).map((one) => one.name + ' ' + figure(one.points[one.points.length - 1][1]));
  const picture = s('svg', {class: 'chart', viewBox: '0 0 ' + width + ' ' + height, role: 'img',
    'aria-label': shown(options.label + ': ' + last.join(', '))}, parts);
  if (drawn.length < 2 && !options.legend) return picture;
  return h('div', {}, picture, legend(drawn.map((one) => one.name)));
}

export function legend(names) {
  return h('div', {class: 'legend'}, names.map((name, index) =>
    h('span', {}, h('i', {class: colour(index)}), h('span', {class: 'text'}, shown(name)))));
}

/** Rows of bars in time: rows are {name, bars: [{begin, end, colour, title}]}. `text` says a time. */
export function timeLine(rows, options) {
  const left = Math.min(130, room(1) / 4);
  const width = room(options.share || 0.48);
  const height = rows.length * 30 + 30;
  const bars = rows.flatMap((row) => row.bars);
  if (bars.length === 0) return h('p', {class: 'empty'}, 'Nothing has run yet.');
  const begin = Math.min(...bars.map((bar) => bar.begin));
  const end = Math.max(...bars.map((bar) => bar.end), begin + 1e-9);
  const px = (time) => left + (time - begin) / (end - begin) * (width - left - 12);
  const parts = [];
  rows.forEach((row, index) => {
    const name = shown(row.name);
    parts.push(s('text', {x: 4, y: index * 30 + 21}, name.length > 19 ? name.slice(0, 18) + '…' : name));
    for (const bar of row.bars) {
      parts.push(s('rect', {class: 'span ' + colour(bar.colour), x: px(bar.begin), y: index * 30 + 6,
        width: Math.max(px(bar.end) - px(bar.begin) - 0.6, 0.8), height: 21, rx: 3, opacity: bar.faint ? 0.45 : undefined},
      s('title', {}, shown(bar.title))));
    }
  });
  for (const tick of ticks(0, end - begin, width / 130)) {
    parts.push(s('line', {class: 'axis', x1: px(begin + tick), x2: px(begin + tick), y1: height - 24, y2: height - 20}),
      s('text', {x: px(begin + tick), y: height - 8, 'text-anchor': 'middle'}, options.text(tick)));
  }
  return s('svg', {class: 'chart', viewBox: '0 0 ' + width + ' ' + height, role: 'img', 'aria-label': shown(options.label)}, parts);
}

/** A few micro-batches through stages that take `times[i]` for one and `sends[i]` to hand it on. */
export function pipelineRows(names, times, sends, batches) {
  let before = new Array(batches).fill(0);
  return names.map((name, stage) => {
    let ready = 0;
    const handed = [];
    const bars = [];
    for (let batch = 0; batch < batches; ++batch) {
      const begin = Math.max(ready, before[batch]);
      ready = begin + times[stage];
      handed.push(ready + (sends[stage] || 0));
      bars.push({begin, end: ready, colour: batch, title: 'micro-batch ' + batch + ' on ' + name + ': ' + milliseconds(times[stage])});
    }
    before = handed;
    return {name, bars};
  });
}

/** Where each layer stands: by its longest way from the inputs. */
function ranksOf(graph) {
  const ranks = new Map(graph.inputs.map((name) => [name, 0]));
  for (const layer of graph.layers) {
    ranks.set(layer.name, 1 + Math.max(0, ...layer.inputs.map((input) => ranks.get(input) ?? 0)));
  }
  return ranks;
}

const MOST_BOXES = 400;

/** The layers of a graph from left to right, the parts of a plan behind them in their colours. */
export function graphPicture(graph, stages) {
  if (graph.layers.length > MOST_BOXES) {
    return h('p', {class: 'empty'}, 'The graph has ' + graph.layers.length + ' layers: the table says where they are cut.');
  }
  const ranks = ranksOf(graph);
  const stageOf = (index) => stages.findIndex((stage) => stage.layers && index + 1 >= stage.layers[0] && index + 1 <= stage.layers[1]);
  const rows = new Map();
  const places = new Map();
  const boxes = [...graph.inputs.map((name) => ({name, type: 'input', inputs: [], stage: -1})),
    ...graph.layers.map((layer, index) => ({...layer, stage: stageOf(index)}))];
  const perRow = Math.max(2, Math.floor((room(1) - 28) / 144));
  const width = 108;
  const boxHeight = 44;
  // Long chains turn at the right edge: ranks fill rows of the picture.
  for (const box of boxes) {
    const rank = ranks.get(box.name);
    const lane = rows.get(rank) || 0;
    rows.set(rank, lane + 1);
    places.set(box.name, {rank, lane, box});
  }
  const lines = [];
  const ranked = [...rows.keys()].sort((a, b) => a - b);
  let y = 14;
  for (let first = 0; first < ranked.length; first += perRow) {
    const part = ranked.slice(first, first + perRow);
    const tall = Math.max(...part.map((rank) => rows.get(rank)));
    part.forEach((rank, column) => lines.push([rank, {x: 14 + column * (width + 36), y}]));
    y += tall * (boxHeight + 12) + 20;
  }
  const corner = new Map(lines);
  for (const place of places.values()) {
    const at = corner.get(place.rank);
    place.x = at.x;
    place.y = at.y + place.lane * (boxHeight + 12);
  }
  const parts = [];
  for (const {x, y: top, box} of places.values()) {
    if (box.stage >= 0) parts.push(s('rect', {class: 'stage ' + colour(box.stage), x: x - 7, y: top - 7, width: width + 14, height: boxHeight + 14, rx: 8}));
  }
  for (const place of places.values()) {
    for (const input of place.box.inputs) {
      const from = places.get(input);
      if (!from) continue;
      if (place.x <= from.x) {
        // The next row of the picture: down behind this one, then along between them.
        const lane = place.y - 14;
        parts.push(s('path', {class: 'edge', d: `M${from.x + width / 2} ${from.y + boxHeight}V${lane}H${place.x + width / 2}V${place.y}`}));
        continue;
      }
      const x1 = from.x + width;
      const y1 = from.y + boxHeight / 2;
      const y2 = place.y + boxHeight / 2;
      const bend = (place.x - x1) / 2;
      parts.push(s('path', {class: 'edge', d: `M${x1} ${y1}C${x1 + bend} ${y1} ${place.x - bend} ${y2} ${place.x} ${y2}`}));
    }
  }
  const short = (text, most) => { const all = shown(text); return all.length > most ? all.slice(0, most - 1) + '…' : all; };
  for (const {x, y: top, box} of places.values()) {
    const words = box.type + (box.activation ? ', ' + box.activation : '');
    parts.push(s('g', {}, s('title', {}, shown(box.name + ': ' + words + (box.shape ? ', ' + box.shape : '') + (box.stage >= 0 ? ', stage ' + box.stage : ''))),
      s('rect', {class: 'box', x, y: top, width, height: boxHeight, rx: 6}),
      s('text', {class: 'strong', x: x + 8, y: top + 18}, short(box.name, 15)),
      s('text', {x: x + 8, y: top + 34}, short(words, 17))));
  }
  return s('svg', {class: 'chart', viewBox: '0 0 ' + (28 + perRow * (width + 36)) + ' ' + (y - 4), role: 'img',
    'aria-label': shown('The graph ' + graph.name + ': ' + graph.layers.length + ' layers in ' + (stages.length || 1) + ' stages')}, parts);
}
