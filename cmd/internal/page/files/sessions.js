import { get, now, since } from './api.js'
import { el, List, say, Section } from './dom.js'
import { Processes } from './processes.js'
import { ago, count, line, rough } from './text.js'

const seldom = 4 // turns

const section = new Section('sessions')
const list = new List(section.list, section.title, card)

let running = new Set() // IDs of the executions that run

let looked = '', pause = 0

// refresh looks when a command of a session has begun or ended, and now and then: the list
// costs the engine a call for each session.
export async function refresh(who, runs, ends) {
  const state = runs.concat(ends).filter(x => x.session).map(x => x.id + x.state).join()
  if (state === looked && --pause > 0) return
  looked = state
  pause = seldom
  running = new Set(runs.map(x => x.id))
  if (!who.can('read')) {
    section.closed('Hidden: this token may not look at sessions.')
    return list.show([], s => s.name)
  }
  const { sessions } = await get('sessions')
  list.show(sessions, s => s.name)
  section.is(sessions.length, 'No sessions. A command with a session name makes one: belljar run --session dev …')
}

const remaining = s => Math.min(Date.parse(s.idle_end), Date.parse(s.deadline)) / 1000 - now()

function card(s) {
  const title = 'session-' + s.name
  const state = el('p', { class: 'facts-line' })
  const note = el('p', { class: 'silent' })
  const table = new Processes()
  return {
    node: el('article', { class: 'card', tabindex: '-1', 'aria-labelledby': title }, el('h3', { id: title }, line(s.name)), state, note, table.node),
    update(s) {
      const all = s.runs ?? []
      const left = all.filter(p => !running.has(p.command_id)).length
      say(state, s.lost ? 'lost: ' + line(s.lost) : `used ${ago(since(s.last_used))} · ends in ${rough(remaining(s))} · ${line(s.image)}`)
      say(note, s.lost || all.length > 0 ? '' : s.runs ? 'Nothing runs in it.' : 'What runs in it is not known now.')
      table.node.hidden = all.length === 0
      table.show(left > 0 ? count(left, 'process', 'processes') + ' left by commands that ended' : 'What runs in it', all, running)
    },
  }
}
