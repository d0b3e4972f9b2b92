// What commands, callers and images say is hostile. Everything of it that the page shows
// passes through visible, line or output, and then becomes a text node.

// As view.Safe of belljar: characters that act, hide or show as others become an escape.
const unseen = /[[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]--[\n\t\u200d\ufe0e\ufe0f]]|(?<![\p{Extended_Pictographic}\u{1f3fb}-\u{1f3ff}\ufe0f])\u200d|(?<![^\s\ufe0e\ufe0f])[\ufe0e\ufe0f]/gv

function escaped(character) {
  if (character === '\r') return '\\r'
  const code = character.codePointAt(0)
  if (code < 0x80) return '\\x' + code.toString(16).padStart(2, '0')
  return code < 0x10000 ? '\\u' + code.toString(16).padStart(4, '0') : '\\U' + code.toString(16).padStart(8, '0')
}

export const visible = text => String(text).replace(unseen, escaped)

// line is visible text that stays on its line.
export const line = text => visible(text).replaceAll('\n', '\\n').replaceAll('\t', '\\t')

// first is the first line of a text, with a mark where there is more.
export function first(text, most = 200) {
  const end = text.indexOf('\n')
  const begin = text.slice(0, Math.min(end < 0 ? text.length : end, most))
  return line(begin) + (begin === text ? '' : ' …')
}

// Colors say nothing that a person needs, and without them hidden text shows.
const colors = /\x1b\[[0-9:;]*[mK]/g

// output is what a command wrote. A return that would overwrite a line begins a new one.
export const output = text => visible(text.replace(colors, '').replaceAll('\r\n', '\n').replace(/\r+(?=.)/gs, '\\r\n'))

export function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB']
  let unit = 0
  for (; n >= 1024 && unit < 3; unit++) n /= 1024
  return (unit === 0 || n >= 10 ? Math.round(n) : n.toFixed(1)) + ' ' + units[unit]
}

export function span(seconds) {
  if (seconds < 1) return Math.max(0, Math.round(seconds * 1000)) + ' ms'
  if (seconds < 10) return seconds.toFixed(1) + ' s'
  return whole(seconds)
}

// whole is a time that counts: its text has no fractions that jump.
export function whole(seconds) {
  const s = Math.max(0, Math.round(seconds))
  if (s < 60) return s + ' s'
  if (s < 3600) return Math.floor(s / 60) + ' min ' + s % 60 + ' s'
  if (s < 86400) return Math.floor(s / 3600) + ' h ' + Math.floor(s % 3600 / 60) + ' min'
  return Math.floor(s / 86400) + ' d ' + Math.floor(s % 86400 / 3600) + ' h'
}

// rough changes seldom.
export const rough = seconds => seconds < 60 ? Math.max(0, Math.floor(seconds / 5) * 5) + ' s' : whole(Math.floor(seconds / 60) * 60).replace(' 0 s', '')

export const ago = seconds => seconds < 5 ? 'now' : rough(seconds) + ' ago'

export const count = (n, one, many = one + 's') => n + ' ' + (n === 1 ? one : many)

export const words = name => name.replaceAll('_', ' ')
