// Handing in a task: by a form, or as task JSON.
import { foreign, h, put, shown } from './dom.js';
import { change, live, problemText } from './net.js';

function pairs(text) {
  const found = {};
  for (const line of text.split('\n').map((one) => one.trim()).filter(Boolean)) {
    const equals = line.indexOf('=');
    if (equals < 1) throw new Error("'" + line + "' is not of the form KEY=VALUE");
    found[line.slice(0, equals)] = line.slice(equals + 1);
  }
  return found;
}

export function submitView() {
  const field = (name, attributes) => h('input', {name, autocomplete: 'off', ...attributes});
  const inputs = {
    name: field('name', {placeholder: 'my task'}), required_gpus: field('required_gpus', {type: 'number', min: 0, value: '0'}),
    cpus: field('cpus', {type: 'number', min: 0, placeholder: '1 without devices'}), memory_mb: field('memory_mb', {type: 'number', min: 0, value: '0'}),
    priority: field('priority', {type: 'number', value: '0'}), max_retries: field('max_retries', {type: 'number', min: 0, value: '0'}),
    timeout_s: field('timeout_s', {type: 'number', min: 0, value: '0'}),
  };
  const labels = {name: 'Name', required_gpus: 'Devices', cpus: 'Cores', memory_mb: 'Memory, MB', priority: 'Priority', max_retries: 'Retries', timeout_s: 'Time limit, s (0: none)'};
  const command = h('textarea', {name: 'command', rows: 4, spellcheck: 'false', placeholder: 'echo hello from $HARMONICS_WORKER'});
  const params = h('textarea', {name: 'params', rows: 3, spellcheck: 'false', placeholder: 'learning_rate=0.01'});
  const json = h('textarea', {name: 'json', rows: 14, spellcheck: 'false'});
  const said = h('div', {role: 'status'});

  function written() {
    const spec = {name: inputs.name.value || 'task'};
    for (const key of ['required_gpus', 'cpus', 'memory_mb', 'priority', 'max_retries', 'timeout_s']) {
      if (inputs[key].value !== '') spec[key] = Number(inputs[key].value);
    }
    if (params.value.trim()) spec.params = pairs(params.value);
    if (command.value.trim()) spec.command = ['sh', '-c', command.value];
    return spec;
  }

  async function hand(spec) {
    try {
      const answer = await change('/api/submit', spec());
      put(said, h('p', {class: 'note'}, 'Submitted as ', h('a', {href: '#/task/' + answer.task}, 'task ' + answer.task),
        answer.count > 1 && ' and ' + (answer.count - 1) + ' more', '. ', answer.advice && foreign(answer.advice, 2000)));
    } catch (error) {
      put(said, h('p', {class: 'problem', role: 'alert'}, error instanceof SyntaxError ? 'this is no JSON: ' + shown(error.message) : problemText(error)));
    }
  }

  const form = h('form', {onsubmit: (event) => { event.preventDefault(); hand(written); }},
    h('div', {class: 'fields'}, Object.keys(inputs).map((key) => h('label', {}, labels[key], inputs[key])),
      h('label', {class: 'wide'}, 'Shell command (empty: the built-in trainer, from the parameters)', command),
      h('label', {class: 'wide'}, 'Parameters, one KEY=VALUE in each line', params)),
    h('div', {class: 'acts'}, h('button', {class: 'act main', type: 'submit'}, 'Submit'),
      h('button', {class: 'act', type: 'button', onclick: () => {
        try { json.value = JSON.stringify(written(), null, 2); more.open = true; json.focus(); } catch (error) { put(said, h('p', {class: 'problem', role: 'alert'}, shown(error.message))); }
      }}, 'Write it as JSON')));
  const more = h('details', {}, h('summary', {}, 'Task JSON: every field there is'),
    h('form', {onsubmit: (event) => { event.preventDefault(); hand(() => JSON.parse(json.value)); }},
      h('label', {}, 'Task JSON', json), h('p', {class: 'acts'}, h('button', {class: 'act main', type: 'submit'}, 'Submit the JSON'))));
  const element = h('div', {}, h('h1', {}, 'Submit'), said, h('section', {class: 'card'}, form), h('section', {class: 'card'}, more));
  const refused = h('p', {class: 'problem'}, "Your token may look but not hand in: it needs the role 'submit'.");
  element.insertBefore(refused, said);
  function update() {
    refused.hidden = !live.session || live.session.submit;
  }
  return {element, update, title: 'Submit'};
}
