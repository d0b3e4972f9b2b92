import { piece } from './api.js'
import { el } from './dom.js'
import { bytes, output } from './text.js'

const tailSize = 64 << 10 // bytes that are shown at first, and of a running command at most
const stepSize = 256 << 10 // that are loaded at a time
const mostShown = 1 << 20 // that are shown at most

const text = data => new TextDecoder().decode(data)

// Output shows bytes [from, to) of what a command wrote, in one text node.
export class Output {
  constructor(id, label) {
    this.id = id
    this.from = this.to = 0
    this.data = new Uint8Array()
    this.text = document.createTextNode('')
    this.node = el('pre', { class: 'output', tabindex: '0', role: 'region', 'aria-label': label, dir: 'ltr' }, this.text)
    this.follows = true // until a person scrolls up
    this.node.addEventListener('scroll', () => { this.follows = this.below() < 24 })
  }

  below() { return this.node.scrollHeight - this.node.scrollTop - this.node.clientHeight }

  // follow shows the end of what was written so far. It calls begins before it shows more.
  async follow(written, begins) {
    const start = Math.max(this.to, written - tailSize)
    const got = await piece(this.id, start, stepSize)
    if (got.data.length === 0) return
    begins()
    const apart = got.offset !== this.to
    this.keep(apart ? got.data : joined(this.data, got.data), got.offset + got.data.length)
    if (this.data.length > tailSize) this.keep(this.data.slice(-tailSize), this.to)
    this.show(true)
  }

  // last shows the end of a command's whole output.
  async last(total) {
    const got = await piece(this.id, Math.max(0, total - tailSize), tailSize)
    this.keep(got.data, got.offset + got.data.length)
    this.show(true)
  }

  // earlier shows more of what is before it, and returns whether there is still more.
  async earlier() {
    const start = Math.max(0, this.from - stepSize)
    const got = await piece(this.id, start, this.from - start)
    const gone = got.data.length === 0 || got.offset + got.data.length !== this.from
    if (!gone) this.keep(joined(got.data, this.data), this.to)
    this.show(false)
    return !gone && got.offset === start
  }

  get more() { return this.from > 0 && this.data.length < mostShown }

  keep(data, to) {
    this.data = data
    this.to = to
    this.from = to - data.length
  }

  // show keeps what a person reads in place: the end, or what was at the top.
  show(atEnd) {
    const { node, follows } = this
    const below = this.below()
    this.text.data = output(text(this.data))
    if (atEnd && follows) node.scrollTop = node.scrollHeight
    else if (!atEnd) node.scrollTop = node.scrollHeight - node.clientHeight - below
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
  if (total === 0) return 'It wrote nothing.'
  const size = shown.data.length
  if (size >= total) return 'All of it: ' + bytes(total)
  const what = `The last ${bytes(size)} of ${bytes(total)}`
  if (kept === false) return what + '. What is before is no longer kept.'
  return shown.more ? what : `${what}. All of it: belljar logs ${id}`
}
