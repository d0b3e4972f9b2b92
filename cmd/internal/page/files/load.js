import { get } from './api.js'
import { el, List, say, Section, svg } from './dom.js'
import { line, whole } from './text.js'

const most = 300 // values of each plot
const width = 300, height = 48 // of a plot, in its own units

const section = new Section('load')
const list = new List(section.list, section.title, plot)
const history = new Map() // of each plot: {name, lines: [[{at, value}]]}

export async function refresh(who) {
  if (!who.can('admin')) {
    section.closed('Hidden: this token may not see the load of all callers. A token with the scope admin may.')
    return list.show([], p => p.key)
  }
  const [load, { pools }] = await Promise.all([get('load'), get('pools')])
  const at = Date.now() / 1000
  const plots = [
    record(at, 'queue', 'Commands', [['running', load.running], ['waiting', load.waiting]], load.asking > 0 ? `${load.asking} waiting for an approval` : ''),
    ...pools.map(p => record(at, 'pool-' + p.profile, 'Pool ' + line(p.profile), [['ready', p.ready], ['wanted', p.target]],
      p.error ? 'failing: ' + line(p.error) : `${p.used} used, ${p.missed} found it empty` + (p.lost > 0 ? `, ${p.lost} lost` : ''), p.error)),
  ]
  list.show(plots, p => p.key)
  section.is(1, '')
  say(section.title, section.name)
  if (pools.length === 0) say(section.note, 'No pool. Set pool.min in sandbox.yaml, and commands start in milliseconds.')
}

function record(at, key, name, values, note, failing) {
  const past = history.get(key) ?? []
  past.push({ at, values: values.map(([, value]) => value) })
  if (past.length > most) past.shift()
  history.set(key, past)
  return { key, name, labels: values.map(([label]) => label), past, note, failing: Boolean(failing) }
}

// plot is a figure, whose caption says in words what it shows.
function plot({ name, labels }) {
  const lines = labels.map((_, i) => svg('polyline', { class: 'line line-' + i, fill: 'none', 'vector-effect': 'non-scaling-stroke' }))
  const picture = svg('svg', { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' })
  picture.append(...lines)
  const values = labels.map((label, i) => el('span', { class: 'value value-' + i }, el('b', {}), ' ' + label))
  const top = el('span', { class: 'top' })
  const note = el('span', { class: 'plot-note' })
  return {
    node: el('figure', { tabindex: '-1' }, el('figcaption', {}, el('span', { class: 'plot-name' }, name), ...values, top, note), picture),
    update({ past, note: text, failing }) {
      const high = Math.max(1, ...past.flatMap(p => p.values))
      const from = past[0].at, long = Math.max(60, past.at(-1).at - from)
      labels.forEach((_, i) => {
        say(values[i].firstChild, String(past.at(-1).values[i]))
        lines[i].setAttribute('points', past.map(p => `${((p.at - from) / long * width).toFixed(1)},${(height - 2 - p.values[i] / high * (height - 4)).toFixed(1)}`).join(' '))
      })
      say(top, `at most ${labels.map((label, i) => Math.max(...past.map(p => p.values[i])) + ' ' + label).join(', ')} in the last ${whole(Math.max(1, past.at(-1).at - from))}`)
      say(note, text)
      note.classList.toggle('failed', failing)
    },
  }
}
