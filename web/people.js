// Users: what they have, and what they may have.
import { foreign, h, say } from './dom.js';
import { ask, change, live, problemText } from './net.js';
import { makeTable } from './tables.js';

const LIMITS = [['max_gpus', 'devices at once'], ['max_active', 'running at once'], ['max_waiting', 'waiting at once'], ['weight', 'weight']];

function used(now, most) {
  return most ? now + ' of ' + most : String(now);
}

export function peopleView() {
  const table = makeTable([
    {name: 'user', text: (one) => one.user, node: (one) => foreign(one.user), sort: (one) => one.user},
    {name: 'devices', right: true, text: (one) => used(one.gpus, one.max_gpus), sort: (one) => one.gpus},
    {name: 'running', right: true, text: (one) => used(one.active, one.max_active), sort: (one) => one.active},
    {name: 'waiting', right: true, text: (one) => used(one.waiting, one.max_waiting), sort: (one) => one.waiting},
    {name: 'weight', right: true, text: (one) => one.weight, sort: (one) => one.weight},
  ], {label: 'Users', key: (one) => one.user, empty: 'No user has a limit or has submitted anything.'});
  const user = h('input', {name: 'user', required: true, autocomplete: 'off'});
  const inputs = LIMITS.map(([name]) => h('input', {name, type: 'number', min: name === 'weight' ? 1 : 0, value: name === 'weight' ? '1' : '0'}));
  const form = h('form', {onsubmit: (event) => { event.preventDefault(); set(); }},
    h('div', {class: 'fields'}, h('label', {}, 'User', user), LIMITS.map(([, text], index) => h('label', {}, text[0].toUpperCase() + text.slice(1)
      + (index < 3 ? ' (0: no limit)' : ''), inputs[index]))),
    h('button', {class: 'act main', type: 'submit'}, 'Set the quota'));
  const admin = h('section', {class: 'card', hidden: true}, h('h2', {}, 'Quota'), form);
  const element = h('div', {}, h('h1', {}, 'People'), h('section', {class: 'card'}, table.element), admin);

  async function look() {
    try {
      table.update(await ask('/api/quotas'));
    } catch (error) {
      say(problemText(error));
    }
  }

  async function set() {
    const body = {user: user.value};
    LIMITS.forEach(([name], index) => { body[name] = Number(inputs[index].value) || 0; });
    try {
      await change('/api/quota', body);
      say('the quota of ' + user.value + ' is set');
      look();
    } catch (error) {
      say(problemText(error));
    }
  }

  function update() {
    admin.hidden = !(live.session && live.session.admin);
  }
  look();
  const timer = setInterval(look, 3000);
  return {element, update, title: 'People', close: () => clearInterval(timer)};
}
