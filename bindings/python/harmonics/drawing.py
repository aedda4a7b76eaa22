"""Drawings for notebooks and pages: SVG as text, without a library."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

__all__ = ['loss_svg']

_WIDTH, _HEIGHT = 640, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 28, 36
# Points of a line: more are drawn as the mean of neighbours.
MAX_POINTS = 600
_TICKS = 4


def loss_svg(losses: Iterable[Any], title: str = 'loss', steps_each: int = 1) -> str:
    """A line of losses over the steps, as SVG.

    `losses` are numbers, or reports of steps: those of `Runtime.fit` (`report.loss`) and of `train_distributed`
    (`step['loss']`). Steps without a loss are left out. Each stands for `steps_each` steps.
    """
    points = [(step * steps_each, loss) for step, loss in enumerate(map(_loss, losses), 1)
              if loss is not None and math.isfinite(loss)]
    body = _line(_thinned(points)) if points else _text(_WIDTH / 2, _HEIGHT / 2, 'no losses', 'middle')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
            f'height="{_HEIGHT}" role="img" aria-label="{escape(title, quote=True)}" font-family="sans-serif" '
            f'font-size="11"><rect width="100%" height="100%" fill="white"/>{_text(_LEFT, 18, title, "start")}{body}</svg>')


def _loss(one: Any) -> float | None:
    found = one.get('loss') if isinstance(one, dict) else getattr(one, 'loss', one)
    return None if found is None else float(found)


def _thinned(points: Sequence[tuple[int, float]]) -> list[tuple[float, float]]:
    size = math.ceil(len(points) / MAX_POINTS)
    groups = [points[start:start + size] for start in range(0, len(points), size)]
    return [(sum(step for step, _ in group) / len(group), sum(loss for _, loss in group) / len(group)) for group in groups]


def _line(points: Sequence[tuple[float, float]]) -> str:
    first, last = points[0][0], max(points[-1][0], points[0][0] + 1)
    low, high = min(loss for _, loss in points), max(loss for _, loss in points)
    if high - low < 1e-12 * max(1.0, abs(high)):
        low, high = low - 0.5, high + 0.5

    def across(step: float) -> float:
        return _LEFT + (step - first) / (last - first) * (_WIDTH - _LEFT - _RIGHT)

    def down(loss: float) -> float:
        return _TOP + (high - loss) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    made = []
    for tick in range(_TICKS + 1):
        value = low + (high - low) * tick / _TICKS
        made.append(f'<path d="M{_LEFT} {down(value):.1f}H{_WIDTH - _RIGHT}" stroke="#ddd"/>')
        made.append(_text(_LEFT - 6, down(value) + 4, f'{value:.4g}', 'end'))
        step = first + (last - first) * tick / _TICKS
        made.append(_text(across(step), _HEIGHT - _BOTTOM + 16, f'{step:.0f}', 'middle'))
    made.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 6, 'step', 'middle'))
    path = ' '.join(f'{across(step):.1f},{down(loss):.1f}' for step, loss in points)
    made.append(f'<polyline points="{path}" fill="none" stroke="#1f77b4" stroke-width="1.5"/>')
    if len(points) == 1:
        made.append(f'<circle cx="{across(points[0][0]):.1f}" cy="{down(points[0][1]):.1f}" r="3" fill="#1f77b4"/>')
    return ''.join(made)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#444">{escape(text)}</text>'
