import { line } from './text.js'

// Refused is a token that the server does not take.
export class Refused extends Error {}

// Lost is a server that does not answer, or not now.
export class Lost extends Error {}

// Problem is a refusal of one request.
export class Problem extends Error {}

const base = new URL('../v1/', location.href)
const patience = 30_000 // milliseconds for one request

let token = sessionStorage.getItem('token') ?? ''
let ahead = 0 // milliseconds that the server's clock is ahead of this one

export const hasToken = () => token !== ''

export function useToken(text) {
  token = text
  if (text === '') sessionStorage.removeItem('token')
  else sessionStorage.setItem('token', text)
}

// now is the server's time in seconds.
export const now = () => (Date.now() + ahead) / 1000

export const since = time => now() - Date.parse(time) / 1000

export async function request(path, options = {}) {
  const headers = { ...options.headers }
  if (token !== '') headers.Authorization = 'Bearer ' + token
  let answer
  try {
    answer = await fetch(new URL(path, base), { ...options, headers, cache: 'no-store', credentials: 'same-origin', redirect: 'error', signal: AbortSignal.timeout(patience) })
  } catch {
    throw new Lost('The server does not answer.')
  }
  const date = Date.parse(answer.headers.get('Date'))
  if (!Number.isNaN(date) && Math.abs(Date.now() + ahead - date) > 2000) ahead = date - Date.now()
  if (answer.ok) return answer
  const problem = await read(answer, 'json').catch(() => ({}))
  const why = line(problem.detail ?? 'The server answered with status ' + answer.status) + (problem.hint ? ' (' + line(problem.hint) + ')' : '')
  if (answer.status === 401) throw new Refused(why)
  if (answer.status === 503 || answer.status === 504 || problem.detail === undefined) throw new Lost(why)
  throw new Problem(why)
}

export const get = async path => read(await request(path), 'json')

export const post = (path, body) => request(path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) })

async function read(answer, how) {
  try {
    return await answer[how]()
  } catch {
    throw new Lost('The answer was cut.')
  }
}

// piece reads an execution's output from an offset on, up to a number of bytes. The offset
// of what it returns is larger where the bytes before it are no longer kept.
export async function piece(id, offset, most) {
  const answer = await request(`executions/${encodeURIComponent(id)}/output?stream=merged&offset=${offset}`, { headers: { Accept: 'application/octet-stream' } })
  const reader = answer.body.getReader()
  const parts = []
  let size = 0
  try {
    while (size < most) {
      const { done, value } = await reader.read()
      if (done) break
      parts.push(value.subarray(0, most - size))
      size += parts.at(-1).length
    }
  } catch {
    throw new Lost('The output was cut.')
  }
  reader.cancel().catch(() => {})
  const all = new Uint8Array(size)
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return { offset: Number(answer.headers.get('Belljar-Offset')), data: all }
}
