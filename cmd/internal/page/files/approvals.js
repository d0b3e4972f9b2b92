import { get, now, post } from './api.js'
import { el, facts, List, say, Section } from './dom.js'
import { first, line, visible, whole } from './text.js'

const section = new Section('waiting')
const news = document.getElementById('news')

// settle is how long after the list moved a click counts for nothing, in milliseconds: it may
// be meant for the card that was there before. The keyboard acts on what has the focus.
const settle = 500
let moved = 0

const list = new List(section.list, section.title, card)

// refresh returns how many questions wait.
export async function refresh(who) {
  if (!who.can('approve')) {
    section.closed('Hidden: this token may not see or answer approvals. A token with the scope approve or admin may.')
    list.show([], q => q.question)
    return 0
  }
  const { approvals } = await get('approvals')
  // Those that are shown stay where they are: what is about to be clicked does not move.
  const shown = [...list.shown.keys()]
  const place = q => list.shown.has(q.question) ? shown.indexOf(q.question) : shown.length
  const added = list.show(approvals.sort((a, b) => place(a) - place(b)), q => q.question)
  if (added.length > 0 || list.shown.size !== shown.length) moved = performance.now()
  if (approvals.length === 0) say(news, '')
  if (added.length > 0) say(news, (added.length === 1 ? 'A command waits for your answer: ' : added.length + ' commands wait for your answer. The first: ') + first(added[0].command))
  section.is(approvals.length, 'Nothing waits. Commands for which the policy says ask appear here.')
  return approvals.length
}

function card(q) {
  const time = el('span', { class: 'deadline' })
  const failed = el('p', { class: 'failed', role: 'alert' })
  const buttons = [
    ['once', 'Allow once', 'main'],
    ...q.always ? [['always', 'Allow always', '']] : [],
    ['deny', 'Deny', 'danger'],
  ].map(([answer, label, kind]) => el('button', { type: 'button', class: kind, 'data-answer': answer, click: event => {
    if (event.detail > 0 && performance.now() - moved < settle) return
    send(answer)
  } }, label))
  const id = 'asks-' + q.id
  const node = el('article', { class: 'card asks', tabindex: '-1', 'aria-labelledby': id },
    el('h3', { id, class: 'heard' }, 'Command: ' + first(q.command)),
    el('p', { class: 'why' }, el('strong', {}, line(because(q))), ' ', time),
    el('pre', { class: 'script', tabindex: '0', role: 'region', 'aria-label': 'The whole command', dir: 'ltr' }, ...marked(q)),
    q.description ? el('p', { class: 'purpose' }, 'The caller says: ', el('q', {}, line(q.description))) : null,
    facts(settings(q)),
    q.always ? el('p', { class: 'always' }, 'Allow always covers ' + covers(q) + '.') : null,
    failed,
    el('div', { class: 'answers', role: 'group', 'aria-label': 'Answer' }, ...buttons))

  async function send(answer) {
    for (const button of buttons) button.setAttribute('aria-disabled', 'true')
    if (node.dataset.sent) return
    node.dataset.sent = answer
    try {
      await post('approvals/' + encodeURIComponent(q.id), { answer, question: q.question })
      say(failed, '')
      document.dispatchEvent(new Event('answered'))
    } catch (problem) {
      say(failed, problem.message)
      delete node.dataset.sent
      for (const button of buttons) button.removeAttribute('aria-disabled')
    }
  }

  return { node, update: () => say(time, node.dataset.sent ? 'answered' : 'denied in ' + whole(Date.parse(q.deadline) / 1000 - now())) }
}

function because(q) {
  const { rule, reason } = q.verdict
  return (rule ? `Rule "${rule}" asks` : 'The policy asks by default') + (reason ? ': ' + reason : '')
}

const asks = q => (q.verdict.commands ?? []).filter(command => command.decision === 'ask')

// marked is the script with the parts that need the approval marked. Spans count bytes.
function marked(q) {
  const script = new TextEncoder().encode(q.command)
  const text = (from, to) => visible(new TextDecoder('utf-8', { ignoreBOM: true }).decode(script.subarray(from, to)))
  const parts = []
  let at = 0
  for (const { span } of asks(q).sort((a, b) => a.span.start - b.span.start)) {
    const start = Math.max(at, span.start)
    if (span.end <= start) continue
    parts.push(text(at, start), el('mark', {}, text(start, span.end)))
    at = span.end
  }
  return [...parts, text(at, script.length)]
}

function covers(q) {
  const all = new Set(asks(q).map(({ program, rule }) => `${line(program || 'commands without a program')} by ${rule ? `rule "${line(rule)}"` : 'the default'}`))
  return [...all].join(', ') + (q.session ? `, until session ${line(q.session)} ends` : ', for this caller, until the server ends')
}

const mount = m => el('span', {}, line(`${m.source} at ${m.target}, `), m.writable ? el('strong', { class: 'warns' }, 'can be written') : 'read only')

function settings(q) {
  return [
    ['Directory', line(q.dir)],
    ['Mounts', ...q.mounts?.length ? q.mounts.map(mount) : ['none']],
    ['Network', q.network === 'none' ? 'none' : el('strong', { class: 'warns' }, line(q.network))],
    ['Image', line(q.image)],
    ['User', line(q.user)],
    ['Profile', line(q.profile)],
    ['Session', ...q.session ? [line(q.session)] : []],
    ['Shell', ...q.shell === 'sh' ? [] : [line(q.shell)]],
    ['Runtime', ...q.runtime ? [line(q.runtime)] : []],
    ['In memory', ...(q.tmpfs ?? []).map(line)],
    ['Variables', ...(q.env ?? []).map(v => line(v) + (v.includes('=') ? '' : ', from the caller'))],
    ['Files', ...(q.files ?? []).map(line)],
    ['Input', ...q.stdin ? ['The command reads input that is not shown here.'] : []],
  ]
}
