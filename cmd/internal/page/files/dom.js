// el makes an element. Children that are no nodes become text: markup has no way in.
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'click') node.addEventListener('click', value)
    else if (value !== undefined && value !== false) node.setAttribute(name, value === true ? '' : value)
  }
  node.append(...children.filter(child => child !== undefined && child !== null))
  return node
}

export function svg(tag, attributes) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag)
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value)
  return node
}

// say changes a text only if it is another one: a selection in it stays, and screen readers
// do not repeat it.
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text
}

// List shows items under keys, and changes them in place: what has the focus keeps it. An
// item's node that goes gives the focus to the next node, or to the title.
export class List {
  constructor(parent, title, make) {
    this.parent = parent
    this.title = title
    this.make = make // of an item: {node, update(item)}
    this.shown = new Map()
    this.head = parent.lastElementChild // what is always there, as of a table
  }

  // show returns the keys that are new.
  show(items, key) {
    const wanted = new Set(items.map(key))
    for (const [k, { node }] of this.shown) {
      if (wanted.has(k)) continue
      const focused = node.contains(document.activeElement)
      const before = node.previousElementSibling
      const heir = node.nextElementSibling ?? (before === this.head ? this.title : before)
      node.remove()
      this.shown.delete(k)
      if (focused) heir.focus()
    }
    const added = []
    let at = this.head ? this.head.nextElementSibling : this.parent.firstElementChild
    for (const item of items) {
      const k = key(item)
      let entry = this.shown.get(k)
      if (!entry) {
        entry = this.make(item)
        this.shown.set(k, entry)
        added.push(item)
      }
      if (entry.node === at) at = at.nextElementSibling
      else this.parent.insertBefore(entry.node, at)
      entry.update(item)
    }
    return added
  }
}

// facts are pairs of a name and what it is.
export function facts(pairs) {
  const list = el('dl', { class: 'facts' })
  for (const [name, ...values] of pairs) {
    if (values.length > 0) list.append(el('div', {}, el('dt', {}, name), ...values.map(value => el('dd', {}, value))))
  }
  return list
}

// Section is a part of the page, with a note where there is nothing to list.
export class Section {
  constructor(name) {
    this.root = document.getElementById(name)
    this.title = document.getElementById(name + '-title')
    this.name = this.title.textContent
    this.note = this.root.querySelector('.note')
    this.list = this.root.querySelector('.list, table')
  }

  // is shows how many there are, or what to do where there is nothing.
  is(n, empty) {
    say(this.title, n > 0 ? `${this.name} (${n})` : this.name)
    say(this.note, n > 0 ? '' : empty)
    this.list.hidden = n === 0
    this.root.classList.toggle('some', n > 0)
  }

  // closed says why there is nothing to see.
  closed(why) { this.is(0, why) }
}
