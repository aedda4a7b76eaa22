// Numbers and states in the words of people.
import { h } from './dom.js';

const STATES = {
  active: 'busy', succeeded: 'good', failed: 'bad', dependency_failed: 'bad', cancelled: 'warn', pending: '',
  waiting: '', delayed: 'warn', ready: 'good', draining: 'warn', away: 'bad', expired: 'bad', unable: 'warn',
  submitted: '', started: 'busy', lost: 'bad', requeued: 'warn', connected: 'good',
};

export function badge(state) {
  return h('span', {class: 'badge ' + (STATES[state] || '')}, String(state).replaceAll('_', ' '));
}

export function hasEnded(task) {
  return ['succeeded', 'failed', 'cancelled', 'dependency_failed'].includes(task.state);
}

export function duration(seconds) {
  if (!Number.isFinite(seconds)) return '–';
  const whole = Math.max(0, Math.floor(seconds));
  if (seconds < 10) return Math.max(0, seconds).toFixed(1) + ' s';
  if (whole < 60) return whole + ' s';
  if (whole < 3600) return Math.floor(whole / 60) + ' min ' + (whole % 60) + ' s';
  if (whole < 86400) return Math.floor(whole / 3600) + ' h ' + Math.floor(whole % 3600 / 60) + ' min';
  return Math.floor(whole / 86400) + ' d ' + Math.floor(whole % 86400 / 3600) + ' h';
}

export function clock(seconds) {
  const day = new Date(seconds * 1000);
  const two = (number) => String(number).padStart(2, '0');
  return two(day.getHours()) + ':' + two(day.getMinutes()) + ':' + two(day.getSeconds());
}

export function moment(seconds) {
  const day = new Date(seconds * 1000);
  const two = (number) => String(number).padStart(2, '0');
  return day.getFullYear() + '-' + two(day.getMonth() + 1) + '-' + two(day.getDate()) + ' ' + clock(seconds);
}

export function byteText(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = bytes;
  let unit = 0;
  for (; value >= 1024 && unit < units.length - 1; ++unit) value /= 1024;
  return (unit === 0 ? value : value.toFixed(value < 10 ? 2 : 1)) + ' ' + units[unit];
}

export function milliseconds(seconds) {
  return Number.isFinite(seconds) ? (seconds * 1e3).toFixed(3) + ' ms' : '–';
}

export function figure(number) {
  if (typeof number !== 'number') return String(number);
  if (Number.isInteger(number)) return String(number);
  const size = Math.abs(number);
  return size !== 0 && (size < 1e-3 || size >= 1e6) ? number.toExponential(3) : String(Number(number.toPrecision(4)));
}

export function plural(count, one, many) {
  return count + ' ' + (count === 1 ? one : many || one + 's');
}

export function meter(share, label) {
  const percent = Math.round(Math.min(1, Math.max(0, share)) * 100);
  const inner = h('i', {});
  inner.style.width = percent + '%';
  return h('div', {class: 'meter', role: 'progressbar', 'aria-valuenow': percent, 'aria-valuemin': 0,
    'aria-valuemax': 100, 'aria-label': label}, inner);
}

/** "worker-1: 0, 1" */
export function placeText(task) {
  return (task.members || []).map((member) => member.worker
    + (member.devices.length ? ': ' + member.devices.join(', ') : '')).join('  ') || '–';
}

/** What a task says of itself, but for how far it is. */
export function progressText(progress) {
  if (!progress || typeof progress !== 'object' || Array.isArray(progress)) return '';
  return Object.entries(progress)
    .filter(([key, value]) => key !== 'progress' && key !== 'micro_batch_s' && (typeof value !== 'object'))
    .map(([key, value]) => {
      if (key === 'period_s') return 'period ' + milliseconds(value);
      if (key === 'samples_per_second') return figure(value) + ' samples/s';
      if ((key === 'busy' || key === 'waiting') && typeof value === 'number') return key + ' ' + Math.round(value * 100) + ' %';
      return key + ' ' + figure(value);
    }).join('  ');
}

export function endText(task) {
  return task.end ? task.end.message || task.end.kind : '';
}
