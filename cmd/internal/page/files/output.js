import { piece } from './api.js'
import { el } from './dom.js'
import { bytes, output } from './text.js'

const tailSize = 64 << 10 // bytes that are shown at first, and of a running command at most
const stepSize = 128 << 10 // that are loaded at a time: a line as long as that takes long to wrap
const mostShown = 1 << 20 // that are shown at most

const text = data => output(new TextDecoder().decode(data))

// Output shows bytes [from, to) of what a command wrote.
export class Output {
  constructor(id, label) {
    this.id = id
    this.from = this.to = 0
    this.node = el('pre', { class: 'output', tabindex: '0', role: 'region', 'aria-label': label, dir: 'ltr' })
    this.follows = true // until a person scrolls up
    this.node.addEventListener('scroll', () => { this.follows = this.below() < 24 })
  }

  below() { return this.node.scrollHeight - this.node.scrollTop - this.node.clientHeight }

  // follow shows the end of what was written so far. It calls begins before it shows more.
  async follow(written, begins) {
    const got = await piece(this.id, Math.max(this.to, written - tailSize), stepSize)
    if (got.data.length === 0) return
    begins()
    this.tail = (got.offset === this.to && this.tail ? joined(this.tail, got.data) : got.data).slice(-tailSize)
    this.to = got.offset + got.data.length
    this.from = this.to - this.tail.length
    const { follows } = this
    this.node.textContent = text(this.tail)
    if (follows) this.node.scrollTop = this.node.scrollHeight
  }

  // last shows the end of a command's whole output.
  async last(total) {
    const got = await piece(this.id, Math.max(0, total - tailSize), tailSize)
    this.to = got.offset + got.data.length
    this.prepend(got)
  }

  // earlier shows more of what is before it, and returns whether all of that was kept.
  async earlier() {
    const start = Math.max(0, this.from - stepSize)
    const got = await piece(this.id, start, this.from - start)
    if (got.data.length === 0 || got.offset + got.data.length !== this.from) return false
    this.prepend(got)
    return got.offset === start
  }

  get size() { return this.to - this.from }

  get more() { return this.from > 0 && this.size < mostShown }

  // prepend shows a piece before the others, from a whole line on unless its first is long.
  // What a person reads stays in place: at first, the end.
  prepend({ offset, data }) {
    const end = offset > 0 ? data.indexOf(10) + 1 : 0
    const cut = end < data.length / 2 ? end : 0
    const below = this.below()
    this.from = offset + cut
    this.node.prepend(el('div', { class: 'piece' }, text(data.subarray(cut))))
    this.node.scrollTop = this.node.scrollHeight - this.node.clientHeight - below
  }
}

function joined(a, b) {
  const all = new Uint8Array(a.length + b.length)
  all.set(a)
  all.set(b, a.length)
  return all
}

// viewer shows an ended command's output from its end on, and more on demand.
export function viewer(id, total, label) {
  const shown = new Output(id, label)
  const note = el('p', { class: 'note', role: 'status' }, 'Loading …')
  const button = el('button', { type: 'button', class: 'quiet', hidden: true, click: () => load(() => shown.earlier()) }, 'Load earlier output')
  const load = async how => {
    const focused = document.activeElement === button
    button.disabled = true
    try {
      const kept = await how()
      note.textContent = said(shown, kept, id, total)
      button.hidden = kept === false || !shown.more
    } catch (problem) {
      note.textContent = problem.message
    }
    button.disabled = false
    if (focused) (button.hidden ? shown.node : button).focus()
  }
  load(() => shown.last(total))
  return el('div', { class: 'viewer' }, el('div', { class: 'bar' }, note, button), shown.node)
}

function said(shown, kept, id, total) {
  const { size } = shown
  if (size >= total) return 'All of it: ' + bytes(total)
  const what = `The last ${bytes(size)} of ${bytes(total)}`
  if (kept === false) return what + '. What is before is no longer kept.'
  return shown.more ? what : `${what}. All of it: belljar logs ${id}`
}
