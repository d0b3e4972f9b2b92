import { get, hasToken, Lost, Problem, Refused, useToken } from './api.js'
import * as approvals from './approvals.js'
import { say } from './dom.js'
import * as ends from './ends.js'
import * as load from './load.js'
import * as running from './running.js'
import * as sessions from './sessions.js'
import { count, line } from './text.js'

const pause = 1000, hiddenPause = 5000, longestPause = 15_000 // milliseconds

const at = id => document.getElementById(id)
const form = at('login').querySelector('form')

let timer, failures = 0, busy = false, lastGood

// The sections, and what each note says when only that part fails.
const part = (section, what) => what.catch(problem => {
  if (!(problem instanceof Problem)) throw problem
  say(at(section).querySelector('.note'), problem.message)
})

async function refresh() {
  const who = await get('whoami')
  who.can = scope => who.scopes.includes(scope) || who.scopes.includes('admin') || scope === 'read' && who.scopes.includes('run')
  open(who)
  const [asking, runs, ended] = await Promise.all([
    part('waiting', approvals.refresh(who)), part('running', running.refresh(who)),
    part('ends', ends.refresh(who)), part('load', load.refresh(who)),
  ])
  await part('sessions', sessions.refresh(who, runs ?? [], ended ?? []))
  sum(who, asking ?? 0, runs?.filter(x => x.state === 'running').length ?? 0)
}

function sum(who, asking, runs) {
  const quiet = who.can('admin') ? 'All quiet' : who.can('read') ? 'Nothing of yours runs' : who.can('approve') ? 'Nothing waits for you' : ''
  say(at('summary'), asking > 0 ? `${count(asking, 'command waits', 'commands wait')} for you` : runs > 0 ? count(runs, 'command runs', 'commands run') : quiet)
  at('summary').classList.toggle('asks', asking > 0)
  document.title = asking > 0 ? `(${asking}) belljar` : 'belljar' // never what a command says
}

function open(who) {
  at('login').hidden = true
  at('board').hidden = false
  at('leave').hidden = !hasToken()
  say(at('who'), `${line(who.name)} · ${who.scopes.map(line).join(', ') || 'no scopes'}`)
}

// login asks for a token. The reason is the server's, or empty.
function login(reason) {
  clearTimeout(timer)
  document.title = 'belljar'
  for (const id of ['summary', 'who', 'connection', 'news']) say(at(id), '')
  at('board').hidden = true
  at('leave').hidden = true
  at('login').hidden = false
  say(at('reason'), reason)
  at('token').focus()
}

async function run() {
  clearTimeout(timer)
  if (busy) return
  busy = true
  try {
    await refresh()
    failures = 0
    lastGood = new Date()
    say(at('connection'), '')
    next(document.hidden ? hiddenPause : pause)
  } catch (problem) {
    if (problem instanceof Refused) {
      const had = hasToken()
      useToken('')
      login(had ? 'The server refused the token: ' + problem.message : '')
    } else {
      lost(problem instanceof Lost || problem instanceof Problem ? problem.message : 'This page failed: ' + problem.message)
    }
  }
  busy = false
}

// lost keeps what is shown, says how old it is, and tries again later and later.
function lost(why) {
  const wait = Math.min(longestPause, pause * 2 ** failures++)
  say(at('connection'), why + (lastGood ? ` What you see is from ${lastGood.toLocaleTimeString()}.` : '') + ' This page keeps trying.')
  next(wait)
}

function next(wait) { timer = setTimeout(run, wait) }

form.addEventListener('submit', event => {
  event.preventDefault()
  useToken(at('token').value.trim())
  at('token').value = ''
  say(at('reason'), '')
  run()
})

at('leave').addEventListener('click', () => {
  useToken('')
  location.reload() // what was shown goes, too
})

document.addEventListener('answered', run)

document.addEventListener('visibilitychange', () => { if (!document.hidden && at('login').hidden) run() })

run()
