// Elements, and text of others: whatever is shown is made of text nodes, never of markup.

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'value' || name === 'checked' || name === 'disabled') element[name] = value;
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

/** An element of HTML: h('a', {href: '#/'}, 'text', element, …). */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An element of SVG. */
export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Puts these children in place of what is there. */
export function put(element, ...children) {
  element.replaceChildren();
  return fill(element, {}, children);
}

// Controls, what turns the direction of a line, and what has no width.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** The text with what cannot be seen, or turns a line, spelt out. */
export function shown(text) {
  return String(text).replace(UNSEEN, (one) => {
    const code = one.codePointAt(0);
    return code < 256 ? '\\x' + code.toString(16).padStart(2, '0') : '\\u' + code.toString(16).padStart(4, '0');
  });
}

/** Text of others on one line, cut where it is very long. */
export function foreign(text, most = 300) {
  const all = shown(String(text).replace(/[\r\n\t]+/g, ' '));
  const cut = all.length > most ? all.slice(0, most) + '…' : all;
  return h('span', {class: 'text', title: all.length > most ? all.slice(0, 2000) : undefined}, cut);
}

/** Says something to whoever looks or listens; it goes after a while. */
export function say(text) {
  const place = document.getElementById('said');
  place.textContent = shown(text);
  clearTimeout(say.timer);
  say.timer = setTimeout(() => { place.textContent = ''; }, 6000);
}
