// The search of the site: all words must be in a passage, as beginnings of words; titles count more, and
// pages in the language of the open page come first.
const form = document.querySelector('form[role=search]')
const input = form.querySelector('input')
const found = document.getElementById('found')
const most = 12

// Narrow screens open with the navigation folded.
if (matchMedia('(max-width: 54rem)').matches) document.querySelector('nav details').open = false

const words = text => text.toLowerCase().split(/[^\p{L}\p{N}_]+/u).filter(Boolean)
const korean = href => href.split('#')[0].endsWith('.ko.html')
const here = document.documentElement.lang === 'ko'
const prepared = passages.map(p => ({...p, same: korean(p.href) === here, titles: words(p.title), lower: ' ' + words(p.text).join(' '), name: words(p.page)}))

function search(query) {
  const terms = words(query)
  if (!terms.length) return []
  const hits = []
  for (const p of prepared) {
    let score = 0
    for (const t of terms) {
      let s = 0
      if (p.titles.includes(t)) s += 12
      else if (p.titles.some(w => w.startsWith(t))) s += 6
      if (p.name.some(w => w.startsWith(t))) s += 2
      if (p.lower.includes(' ' + t)) s += 1 + Math.min(4, p.lower.split(' ' + t).length - 2)
      if (!s) { score = 0; break }
      score += s
    }
    if (score) hits.push({p, score})
  }
  return hits.sort((a, b) => b.p.same - a.p.same || b.score - a.score).slice(0, most).map(h => h.p)
}

// excerpt returns the text around the first term, with the terms marked.
function excerpt(text, terms) {
  const at = Math.max(0, ...[terms.map(t => text.toLowerCase().indexOf(t)).find(i => i >= 0) ?? 0])
  const from = Math.max(0, at - 50)
  const small = document.createElement('small')
  const piece = (from ? '…' : '') + text.slice(from, from + 160) + (from + 160 < text.length ? '…' : '')
  const pattern = new RegExp('(' + terms.join('|') + ')', 'giu') // terms are letters, digits and _
  piece.split(pattern).forEach((part, i) => {
    if (i % 2) small.appendChild(document.createElement('mark')).textContent = part
    else small.append(part)
  })
  return small
}

let chosen = -1
function show() {
  const terms = words(input.value)
  const hits = search(input.value)
  found.replaceChildren(...hits.map(p => {
    const a = document.createElement('a')
    a.href = form.dataset.root + p.href
    a.append(p.title === p.page ? p.title : p.page + ' › ' + p.title, excerpt(p.text, terms))
    const li = document.createElement('li')
    li.append(a)
    return li
  }))
  if (terms.length && !hits.length) {
    const li = document.createElement('li')
    li.className = 'none'
    li.textContent = 'Nothing was found.'
    found.append(li)
  }
  found.hidden = !terms.length
  choose(hits.length ? 0 : -1)
}

function choose(i) {
  const links = found.querySelectorAll('a')
  chosen = Math.max(-1, Math.min(i, links.length - 1))
  links.forEach((a, n) => a.classList.toggle('chosen', n === chosen))
  links[chosen]?.scrollIntoView({block: 'nearest'})
}

input.addEventListener('input', show)
input.addEventListener('focus', show)
form.addEventListener('submit', e => {
  e.preventDefault()
  found.querySelectorAll('a')[chosen]?.click()
  found.hidden = true
})
input.addEventListener('keydown', e => {
  if (e.key === 'ArrowDown' || e.key === 'ArrowUp') {
    e.preventDefault()
    choose(chosen + (e.key === 'ArrowDown' ? 1 : -1))
  }
  if (e.key === 'Escape') { found.hidden = true; input.blur() }
})
document.addEventListener('click', e => { if (!form.contains(e.target) || e.target.closest('#found a')) found.hidden = true })
document.addEventListener('keydown', e => {
  if (e.key === '/' && !/^(input|textarea|select)$/i.test(e.target.tagName)) { e.preventDefault(); input.focus() }
})
