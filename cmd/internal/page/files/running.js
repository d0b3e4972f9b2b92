import { get, Problem, since } from './api.js'
import { el, List, say, Section } from './dom.js'
import { Output } from './output.js'
import { remember } from './processes.js'
import { bytes, first, line, visible, whole } from './text.js'

const most = 50 // commands that are listed
const opened = 6 // of them that show their output without being asked

const section = new Section('running')
const list = new List(section.list, section.title, card)

// refresh returns what runs.
export async function refresh(who) {
  if (!who.can('read')) {
    section.closed('Hidden: this token may not look at commands. A token with the scope read, run or admin may.')
    list.show([], x => x.id)
    return []
  }
  // What waits for an approval is shown as a question to those who may answer it.
  const states = ['running', 'queued', ...who.can('approve') ? [] : ['waiting']]
  const lists = await Promise.all(states.map(async state => (await get(`executions?state=${state}&limit=${most}`)).executions))
  const all = lists.flat().sort((a, b) => a.started < b.started ? -1 : a.started > b.started ? 1 : 0)
  all.forEach(remember)
  list.show(all, x => x.id)
  section.is(all.length, who.can('admin') ? 'Nothing runs. Try: belljar run -H ADDRESS \'sleep 60\'' : `Nothing of ${line(who.name)} runs. A token with the scope admin sees what all callers run.`)
  await Promise.all(all.map(x => list.shown.get(x.id).tail(x)))
  return all
}

const pending = { queued: 'waits for its turn', waiting: 'waits for an approval' }

function card(x) {
  const label = first(x.command ?? x.id)
  const out = new Output(x.id, 'Output of ' + label)
  const facts = el('span', { class: 'facts-line' })
  const script = el('pre', { class: 'script', tabindex: '0', role: 'region', 'aria-label': 'The command', dir: 'ltr' }, visible(x.command ?? ''))
  const silent = el('p', { class: 'silent' }, 'No output yet.')
  out.node.hidden = true
  const node = el('details', { class: 'card runs', tabindex: '-1', 'aria-label': label },
    el('summary', {}, el('code', { class: 'name' }, label), facts),
    x.command?.includes('\n') ? script : null, silent, out.node)
  node.open = list.shown.size < opened
  return {
    node,
    update(x) {
      say(facts, [
        pending[x.state] ?? 'for ' + whole(since(x.started)),
        x.output_bytes > 0 ? bytes(x.output_bytes) : '',
        x.session ? 'session ' + line(x.session) : '', x.profile ? 'profile ' + line(x.profile) : '', 'by ' + line(x.owner),
        x.description ? '“' + line(x.description) + '”' : '',
      ].filter(Boolean).join(' · '))
    },
    async tail(x) {
      silent.hidden = x.state !== 'running' || out.to > 0
      if (!node.open || x.state !== 'running') return
      try {
        await out.follow(x.output_bytes ?? 0, () => {
          silent.hidden = true
          out.node.hidden = false
        })
      } catch (problem) {
        if (!(problem instanceof Problem)) throw problem
        say(silent, problem.message) // it ended just now
      }
    },
  }
}
