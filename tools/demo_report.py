"""The page that tells of a run of tools/demo.py: plans, loss, passes and proof, drawn from its files."""

import html
import json
import os
import pathlib
import statistics
import sys

COLOURS = ['#2f6fab', '#c8682b', '#3d8f5f', '#8a5aa8', '#a83a4a', '#5c6b73']
WIDTH = 880
# Steps of an attempt that are not measured: memory and connections are new then.
WARM_UP = 10
LEFT = 150
STYLE = '''
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 60em; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.7em } h2 { font-size: 1.2em; margin-top: 2em }
table { border-collapse: collapse } td, th { padding: .2em .8em; text-align: left; border-bottom: 1px solid #ddd }
td.number { text-align: right; font-variant-numeric: tabular-nums }
svg { display: block; margin: .5em 0; width: 100%; height: auto } text { font: 12px system-ui, sans-serif; fill: #333 }
code { font-size: .9em; overflow-wrap: anywhere } .note { color: #555 }
'''


def percent(share):
    return f'{share * 100:.2f} %'


def milliseconds(seconds):
    return f'{seconds * 1e3:.3f} ms'


def text(x, y, words, anchor='start'):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(str(words))}</text>'


def bar(row, span, colour, title, opacity=1.0):
    """A bar in a row of a time line, from `span[0]` to `span[1]`."""
    width = max(span[1] - span[0] - 0.5, 0.4)
    return (f'<rect x="{span[0]:.2f}" y="{8 + row * 30}" width="{width:.2f}" height="22" fill="{colour}" '
            f'opacity="{opacity}"><title>{html.escape(title)}</title></rect>')


def svg(height, parts):
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(parts)}</svg>'


def axis(begin, end, y, unit, scale):
    """Five ticks along a time axis."""
    span = (end - begin) * scale
    parts = [f'<line x1="{LEFT}" y1="{y}" x2="{WIDTH - 10}" y2="{y}" stroke="#999"/>']
    for tick in range(5):
        anchor = ('start', 'middle', 'middle', 'middle', 'end')[tick]
        parts.append(text(LEFT + tick / 4 * (WIDTH - 10 - LEFT), y + 16, f'{span * tick / 4:.3g} {unit}', anchor))
    return parts


def time_line(plan, batches=6):
    """The plan as it would run: a row per stage, a bar per micro-batch (forward and back together)."""
    stages = plan['stages']
    ends, bars, previous = {}, [], [0.0] * batches
    for row, stage in enumerate(stages):
        ready = 0.0
        for batch in range(batches):
            begin = max(ready, previous[batch])
            ready = begin + stage['compute_s']
            previous[batch] = ready + stage['send_s']
            bars.append((row, batch, begin, ready))
        ends[row] = ready
    total = max(ends.values())
    scale = (WIDTH - LEFT - 10) / total
    parts = []
    for row, stage in enumerate(stages):
        parts.append(text(4, 24 + row * 30, f'{row}: {stage["worker"]}'))
    for row, batch, begin, end in bars:
        parts.append(bar(row, (LEFT + begin * scale, LEFT + end * scale),
                         COLOURS[batch % len(COLOURS)],
                         f'micro-batch {batch} on {stages[row]["worker"]}: {milliseconds(end - begin)}'))
    height = 8 + len(stages) * 30 + 24
    return svg(height, parts + axis(0, total, height - 20, 'ms', 1e3))


def plan_table(plan):
    measured = {worker['worker']: worker for worker in plan['workers']}
    rows = ['<tr><th>stage</th><th>worker</th><th>layers</th><th>computes</th><th>sends</th>'
            '<th>whole graph there</th></tr>']
    for row, stage in enumerate(plan['stages']):
        worker = measured[stage['worker']]
        layers = stage['from'] if stage['from'] == stage['to'] else f'{stage["from"]} to {stage["to"]}'
        how = 'measured' if worker['measured'] else 'estimated'
        rows.append(f'<tr><td>{row}</td><td>{html.escape(stage["worker"])}</td><td>{html.escape(layers)}</td>'
                    f'<td class="number">{milliseconds(stage["compute_s"])}</td>'
                    f'<td class="number">{milliseconds(stage["send_s"])}</td>'
                    f'<td class="number">{milliseconds(worker["whole_graph_s"])}, {how}</td></tr>')
    return f'<table>{"".join(rows)}</table>'


def loss_curve(points):
    """Loss by step; a colour for each attempt."""
    steps = [step for _, step, _ in points]
    losses = [loss for _, _, loss in points]
    height, top = 240, max(losses)
    first, last = min(steps), max(max(steps), min(steps) + 1)

    def place(step, loss):
        x = LEFT + (step - first) / (last - first) * (WIDTH - LEFT - 10)
        return f'{x:.1f},{10 + (1 - loss / top) * (height - 40):.1f}'
    parts = [text(4, 20, f'loss {top:.3g}'), text(4, height - 26, 'loss 0')]
    attempts = sorted({attempt for attempt, _, _ in points})
    for number, attempt in enumerate(attempts):
        line = ' '.join(place(step, loss) for own, step, loss in points if own == attempt)
        colour = COLOURS[number % len(COLOURS)]
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts.append(f'<text x="{WIDTH - 10}" y="{24 + 16 * number}" text-anchor="end" '
                     f'style="fill:{colour}">attempt {attempt}</text>')
    parts.append(text(LEFT, height - 8, f'step {first}'))
    parts.append(text(WIDTH - 10, height - 8, f'step {last}', 'end'))
    return svg(height, parts)


def step_ends(stages):
    """When each step that all stages made ended, by step."""
    common = set.intersection(*({line['step'] for line in stage} for stage in stages))
    ends = dict.fromkeys(common, 0.0)
    for stage in stages:
        for line in stage:
            if line['step'] in ends:
                ends[line['step']] = max(ends[line['step']], line['end'])
    return ends


def measured(stages, steps=2):
    """(seconds a step takes, how many were measured, the steps to show) once an attempt is warm.

    The steps that are shown are those that took about as long as most did."""
    ends = step_ends(stages)
    numbers = sorted(ends)
    warm = [step for step in numbers[min(WARM_UP, len(numbers) // 2):] if step - 1 in ends]
    if len(warm) < steps:
        return None, 0, numbers[-steps:]
    took = {step: ends[step] - ends[step - 1] for step in warm}
    usual = statistics.median(took.values())
    first = min(warm[:len(warm) - steps + 1],
                key=lambda step: abs(sum(took.get(step + k, usual) for k in range(steps)) - steps * usual))
    return usual, len(warm), list(range(first, first + steps))


def pace(plan, stages):
    """What the plan expects of a step and what was measured, and why they differ here."""
    usual, count, _ = measured(stages)
    batches = 1 + max(line['micro_batch'] for stage in stages for line in stage)
    expected = (batches + len(stages) - 1) * plan['period_s']
    if usual is None:
        return '<p class="note">This attempt was too short to be measured after its warm-up.</p>'
    cores = os.cpu_count() or 1
    why = (f'The plan counts on {len(stages)} machines that compute at the same time. Here {len(stages)} processes '
           f'of the stages, the workers and the server share {cores} cores of one machine, so they wait for each '
           'other, and more stages wait longer. On machines of their own they would not.'
           if usual > expected * 1.1 else 'The stages had a core each, as the plan counts on.')
    return (f'<p>A step of {batches} micro-batches: <b>{milliseconds(expected)}</b> planned, '
            f'<b>{milliseconds(usual)}</b> measured (median of {count} steps after the first {WARM_UP}).</p>'
            f'<p class="note">{why}</p>')


def pass_trace(stages, workers):
    """What each stage really did in a few steps: forward passes dark, backward passes light."""
    shown = measured(stages)[2]
    lines = [[line for line in stage if line['step'] in shown] for stage in stages]
    begin = min(line['begin'] for stage in lines for line in stage)
    end = max(line['end'] for stage in lines for line in stage)
    scale = (WIDTH - LEFT - 10) / (end - begin)
    parts = []
    for row, stage in enumerate(lines):
        parts.append(text(4, 24 + row * 30, f'{row}: {workers[row]}'))
        for line in stage:
            parts.append(bar(row, (LEFT + (line['begin'] - begin) * scale,
                                   LEFT + (line['end'] - begin) * scale),
                             COLOURS[line['micro_batch'] % len(COLOURS)],
                             f'step {line["step"]}, micro-batch {line["micro_batch"]}, {line["pass"]}: '
                             f'{milliseconds(line["end"] - line["begin"])}',
                             1.0 if line['pass'] == 'forward' else 0.5))
    height = 8 + len(lines) * 30 + 24
    names = ' and '.join(str(step) for step in shown)
    return names, svg(height, parts + axis(begin, end, height - 20, 'ms', 1e3))


def read_lines(path):
    lines = []
    for line in path.read_text().splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            pass  # The last line of a process that was killed.
    return lines


def plans_of(out):
    """(attempt, plan) of the attempts that trained."""
    return [(int(path.stem.split('-')[1]), json.loads(path.read_text()))
            for path in sorted(out.glob('plan-*.json'), key=lambda one: int(one.stem.split('-')[1]))]


def traces_of(out, task, attempt, stages):
    files = [next(out.glob(f'shared/task-{task}-*/passes-task-{task}.{attempt}-{rank}.jsonl'))
             for rank in range(stages)]
    return [read_lines(path) for path in files]


def sections(out):
    task = json.loads((out / 'task.json').read_text())
    report = json.loads((out / 'report.json').read_text())
    undisturbed = json.loads((out / 'undisturbed.json').read_text())
    same = report['weights_digest'] == undisturbed['weights_digest']
    yield (f'<h1>{html.escape(task["name"])}: a training that lost a machine</h1>'
           f'<p>Accuracy on the held-back digits: <b>{percent(report["test_accuracy"])}</b>, after '
           f'{report["epochs"]} epochs, {report["steps"]} steps and {task["attempts"]} attempts '
           f'({task["losses"]} lost with a machine, {task["failures"]} failed).</p>'
           f'<p>Weights: <code>{report["weights_digest"]}</code><br>One undisturbed process: '
           f'<code>{undisturbed["weights_digest"]}</code> &mdash; <b>{"equal" if same else "NOT EQUAL"}</b></p>')
    if plans_of(out) and plans_of(out)[0][0] > 1:
        yield ('<p class="note">Attempt 1 trained nothing: it measured how long each layer takes on each machine, and the '
               'plan of the next attempt rests on that.</p>')
    for attempt, plan in plans_of(out):
        period = milliseconds(plan['period_s'])
        yield (f'<h2>The plan of attempt {attempt}</h2><p>A micro-batch of {plan["micro_batch"]} every {period}.'
               f'</p>{plan_table(plan)}{time_line(plan)}')
    points = [(line['attempt'], line['step'], line['loss']) for line in read_lines(out / 'loss.jsonl')]
    yield '<h2>The loss, step by step</h2>' + loss_curve(points)
    for attempt, plan in plans_of(out):
        workers = [stage['worker'] for stage in plan['stages']]
        names, picture = pass_trace(traces_of(out, task['id'], attempt, len(workers)), workers)
        yield (f'<h2>What the stages did in attempt {attempt}, steps {names}</h2>{picture}'
               '<p class="note">Dark: forward. Light: backward. A colour per micro-batch.</p>'
               + pace(plan, traces_of(out, task['id'], attempt, len(workers))))
    proof = out / 'proof.txt'
    if proof.exists():
        yield f'<h2>The chain of custody</h2><p>{html.escape(proof.read_text())}</p>'


def write(out):
    """Writes OUT/index.html; its path."""
    page = out / 'index.html'
    page.write_text('<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Harmonics demo</title>'
                    f'<style>{STYLE}</style></head><body>{"".join(sections(out))}</body></html>\n',
                    encoding='utf-8')
    return page


if __name__ == '__main__':
    print(write(pathlib.Path(sys.argv[1])))
