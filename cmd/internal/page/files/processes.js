import { el, List, say } from './dom.js'
import { bytes, first, line, whole } from './text.js'

// starts are the commands that the page has seen, by the ID of their execution: a process
// names the one that started it by that.
export const starts = new Map()
const most = 1000 // of them

export function remember(x) {
  starts.delete(x.id)
  starts.set(x.id, x.command)
  if (starts.size > most) starts.delete(starts.keys().next().value)
}

const startedBy = id => starts.has(id) ? first(starts.get(id) ?? id, 40) : line(id)

// Processes is a table of them.
export class Processes {
  constructor() {
    this.title = el('caption')
    const rows = el('tbody')
    this.list = new List(rows, rows, row)
    this.node = el('table', { class: 'processes' }, this.title,
      el('thead', {}, el('tr', {}, ...['PID', 'Command', 'Age', 'Memory'].map(name => el('th', { scope: 'col' }, name)))), rows)
  }

  // show takes the IDs of what runs, in a session where that matters.
  show(title, all, running) {
    say(this.title, title)
    this.list.show(all.map(p => ({ ...p, runs: running?.has(p.command_id), inSession: running !== undefined })), p => [p.pid, p.host_pid, p.command, p.command_id].join())
  }
}

function row(p) {
  const tag = el('span', { class: 'tag' }), age = el('td', { class: 'number' }), memory = el('td', { class: 'number' })
  return {
    node: el('tr', {}, el('td', { class: 'number' }, String(p.pid || '?')), el('th', { scope: 'row' }, el('code', {}, line(p.command)), tag), age, memory),
    update(p) {
      say(tag, !p.inSession ? '' : p.runs ? 'of a running command' : p.command_id ? 'left by: ' + startedBy(p.command_id) : 'left behind')
      tag.classList.toggle('warns', !p.runs)
      say(age, whole(p.elapsed_seconds))
      say(memory, bytes(p.rss_bytes))
    },
  }
}
