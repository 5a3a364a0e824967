// The chat widget of Uniflow: <script src="https://HOST/chat/widget.js" async></script>.
// Attributes: data-title, data-accent (a color), data-open; data-page fills the page.
// It speaks the language of the page (lang), or else of the browser, if that is in texts.
// All that is said becomes text nodes: nothing is read as HTML.
(() => {
'use strict'
const script = document.currentScript
const base = new URL('.', script.src)
const key = 'uniflow chat ' + base
const full = 'page' in script.dataset

// The texts in other languages than English, which has them as keys.
const texts = {
  ko: {
    'Chat': '채팅', 'Message': '메시지', 'Write a message': '메시지를 입력하세요', 'Send': '보내기', 'Close': '닫기', 'You': '나',
    'Send again': '다시 보내기', 'A message was not answered.': '답변을 받지 못한 메시지가 있습니다.',
    'The message was refused.': '메시지가 거부되었습니다.', 'Connecting again…': '다시 연결하는 중…',
  },
}
const lang = (document.documentElement.lang || navigator.language).toLowerCase().split('-')[0]
const say = text => texts[lang]?.[text] || text
if (full && !document.documentElement.lang) document.documentElement.lang = texts[lang] ? lang : 'en'
let title = script.dataset.title || say('Chat')

const css = `
:host{all:initial;--accent:#1d4ed8;--back:#fff;--front:#1a1d21;--soft:#eef0f3;--line:#d5d9df;--quiet:#59616b;--bad:#b3261e;color-scheme:light dark;font:15px/1.45 system-ui,sans-serif}
@media(prefers-color-scheme:dark){:host{--back:#17191d;--front:#e9ebee;--soft:#2a2e35;--line:#3b4048;--quiet:#a8b0ba;--bad:#ff9a92}}
*{box-sizing:border-box;font:inherit}
[hidden]{display:none!important}
:focus-visible{outline:2px solid;outline-offset:2px}
::placeholder{color:var(--quiet);opacity:1}
button{cursor:pointer}
.launch,form button,.user{border:0;background:var(--accent);color:#fff}
.launch,.panel{position:fixed;right:20px;bottom:20px;z-index:2147483000;box-shadow:0 4px 24px #0004}
.launch{width:56px;height:56px;padding:16px;border-radius:50%}
.icon{height:18px;border-radius:6px;background:currentColor;position:relative}
.icon:after{content:"";position:absolute;left:4px;top:16px;border:4px solid;border-color:currentColor #0000 #0000 currentColor}
.panel{bottom:88px;width:380px;height:min(600px,100dvh - 108px);display:flex;flex-direction:column;overflow:hidden;background:var(--back);color:var(--front);border:1px solid var(--line);border-radius:14px;animation:rise .15s ease-out}
.full .panel{inset:0;width:100%;height:100%;border:0;border-radius:0;animation:none}
.full .panel>*{width:min(760px,100%);margin-inline:auto}
header{display:flex;align-items:center;gap:8px;padding:12px 16px;border-bottom:1px solid var(--line)}
h2{flex:1;margin:0;font-size:1.05em;font-weight:600}
header button{border:0;background:none;color:var(--quiet)}
ol{flex:1;list-style:none;margin:0;padding:16px;overflow-y:auto;display:flex;flex-direction:column;gap:10px}
ol:focus-visible{outline-offset:-3px}
li{max-width:85%;padding:8px 12px;border-radius:14px;background:var(--soft);align-self:flex-start;overflow-wrap:anywhere;white-space:pre-wrap}
.user{align-self:flex-end}
.sending{opacity:.65}
.failed{background:none;border:1px solid var(--bad);color:var(--bad)}
.more{display:flex;flex-wrap:wrap;gap:6px;margin-top:8px}
.more>*{border:1px solid currentColor;border-radius:16px;padding:3px 12px;background:none;color:inherit;text-decoration:none}
.dots{color:var(--quiet);padding:0 28px 8px;letter-spacing:3px;animation:blink 1.2s infinite}
.note{padding:4px 16px;color:var(--quiet);font-size:.9em;text-align:center}
form{display:flex;gap:8px;align-items:flex-end;padding:12px 16px;border-top:1px solid var(--line)}
textarea{flex:1;resize:none;max-height:8em;padding:8px 12px;border:1px solid var(--quiet);border-radius:12px;background:var(--back);color:inherit;field-sizing:content}
form button{border-radius:12px;padding:9px 16px;font-weight:600}
.sr{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
@keyframes rise{from{opacity:0;transform:translateY(8px)}}
@keyframes blink{50%{opacity:.3}}
@media(prefers-reduced-motion:reduce){*{animation:none!important}}
@media(forced-colors:active){li,.launch,form button{border:1px solid}}
@media(max-width:480px){.panel{inset:0;width:100%;height:100%;border:0;border-radius:0}}`

// make creates an element. Texts among its children become text nodes.
const make = (name, attributes, ...children) => {
  const element = document.createElement(name)
  for (const [k, v] of Object.entries(attributes)) {
    if (typeof v == 'function') element['on' + k] = v
    else if (v != null && v !== false) element.setAttribute(k, v)
  }
  element.append(...children)
  return element
}

const heading = make('h2', {id: 'title'}, title)
const log = make('ol', {role: 'log', 'aria-live': 'off', 'aria-labelledby': 'title', tabindex: 0})
const voice = make('div', {class: 'sr', role: 'status', 'aria-live': 'polite'}) // says whole messages, not pieces
const dots = make('div', {class: 'dots', 'aria-hidden': true, hidden: ''}, '●●●')
const note = make('div', {class: 'note', role: 'status', hidden: ''})
const input = make('textarea', {rows: 1, 'aria-label': say('Message'), placeholder: say('Write a message'), dir: 'auto', keydown: e => {
  if (e.key == 'Enter' && !e.shiftKey && !e.isComposing) { e.preventDefault(); submit() }
}})
const form = make('form', {submit: e => { e.preventDefault(); submit() }}, input, make('button', {}, say('Send')))
const close = make('button', {type: 'button', 'aria-label': say('Close'), click: () => show(false)}, '✕')
const panel = make('section', {class: 'panel', id: 'panel', role: full ? 'main' : 'dialog', 'aria-labelledby': 'title', hidden: '', keydown: e => {
  if (e.key == 'Escape' && !full) show(false)
}}, make('header', {}, heading, full ? '' : close), log, dots, note, form, voice)
const launch = make('button', {class: 'launch', type: 'button', 'aria-controls': 'panel', 'aria-expanded': 'false', click: () => show(panel.hidden)}, make('div', {class: 'icon'}))
const host = make('div', {})
const root = host.attachShadow({mode: 'open'})
const sheet = new CSSStyleSheet()
sheet.replaceSync(css)
root.adoptedStyleSheets = [sheet]
root.append(make('div', {class: full && 'full'}, full ? '' : launch, panel))
if (script.dataset.accent) host.style.setProperty('--accent', script.dataset.accent)

const named = name => {
  title = script.dataset.title || name || title
  heading.textContent = title
  launch.setAttribute('aria-label', title)
}
const show = open => {
  panel.hidden = !open
  launch.setAttribute('aria-expanded', open)
  if (open) { connect(); input.focus() } else launch.focus()
}

// The messages, by id.
const lines = new Map()
const mine = new Map() // sent by this page, and not answered as far as it knows

// follow changes the log, and keeps its end in sight if it is.
const follow = (change, always) => {
  const stays = always || log.scrollHeight - log.scrollTop - log.clientHeight < 60
  change()
  if (stays) log.scrollTop = log.scrollHeight
}

const render = m => follow(() => {
  let line = lines.get(m.id)
  if (!line) {
    line = {item: make('li', {dir: 'auto'}), text: document.createTextNode('')}
    lines.set(m.id, line)
    log.append(line.item)
  }
  const {item, text} = line
  line.open = m.open
  item.className = [m.from, m.failed && 'failed', m.sending && 'sending'].filter(Boolean).join(' ')
  if (text.data != m.text) text.data = m.text
  const more = [...m.buttons || [], ...m.files || []].map(b => b.url
    ? /^https?:/i.test(b.url) && make('a', {href: b.url, target: '_blank', rel: 'noopener noreferrer'}, b.text || b.name)
    : make('button', {type: 'button', click: b.press || (() => send(b.text, b.data))}, b.text)).filter(Boolean)
  item.replaceChildren(make('span', {class: 'sr'}, m.from == 'user' ? say('You') + ': ' : title + ': '), text,
    ...more.length ? [make('div', {class: 'more'}, ...more)] : [])
}, m.from == 'user')
const voiced = m => { if (m.from == 'bot' && !m.open) voice.textContent = m.text }
let busy = false
const wait = () => { dots.hidden = !busy || [...lines.values()].some(l => l.open) }

// failed shows that a message was not taken, or not answered.
const failed = (m, why) => {
  mine.delete(m.id)
  render({id: 'u' + m.id, from: 'user', text: m.text, failed: true, buttons: [{text: say('Send again'), press: () => {
    lines.get('u' + m.id)?.item.remove()
    lines.delete('u' + m.id)
    send(m.text, m.data)
  }}]})
  notify(say(why))
}

// What the server says.
const receive = f => {
  if (f.type == 'hello') hello(f)
  else if (f.type == 'message') {
    const id = f.message.id.slice(1)
    if (mine.has(id)) mine.get(id).taken = true
    render(f.message)
    voiced(f.message)
  } else if (f.type == 'append') follow(() => lines.get(f.id)?.text.appendData(f.text))
  else if (f.type == 'busy') {
    if (!(busy = !!f.busy)) for (const [id, m] of mine) if (m.taken) mine.delete(id)
  } else if (f.type == 'error') {
    const m = mine.get((f.id || '').slice(1))
    if (f.code == 'token') keep('')
    if (m) failed(m, f.text)
    else notify(say(f.text))
  }
  wait()
}

// hello shows the conversation as the server knows it, and sends what it does not know.
const hello = f => {
  keep(f.conversation)
  named(f.title)
  fails = 0
  notify('')
  busy = !!f.busy
  const all = f.messages || []
  if (f.greeting) all.unshift({id: 'greeting', from: 'bot', text: f.greeting})
  const ids = new Set(all.map(m => m.id))
  for (const [id, line] of lines) if (!ids.has(id)) {
    line.open = false
    if (!f.partial) { line.item.remove(); lines.delete(id) } // otherwise the page alone has it
  }
  for (const m of all) { render(m); log.append(lines.get(m.id).item) }
  for (const m of [...mine.values()]) {
    if (ids.has('u' + m.id) || all.some(l => l.from == 'user' && l.text == m.text)) {
      m.taken = true
      if (!busy) mine.delete(m.id)
    } else if (m.taken) failed(m, 'A message was not answered.')
    else post(m)
  }
}

const submit = () => {
  const text = input.value.trim()
  if (text) send(text)
  input.value = ''
  input.focus()
}
const send = (text, data) => {
  const m = {id: crypto.getRandomValues(new Uint32Array(4)).join('-'), text, data}
  mine.set(m.id, m)
  post(m)
}
const post = m => {
  render({id: 'u' + m.id, from: 'user', text: m.text, sending: true})
  if (token) link?.send({id: m.id, text: m.text, data: m.data})
}

// The connection: a WebSocket, or where these do not work a stream of events.
let token = '', link, timer, fails = 0, sockets = false
try { token = localStorage[key] || '' } catch { /* the browser keeps nothing */ }
const keep = t => {
  token = t
  try { t ? localStorage[key] = t : delete localStorage[key] } catch { /* as above */ }
}
const notify = text => { note.textContent = text; note.hidden = !text }
const lost = which => {
  if (which != link) return
  link = null
  if (++fails > 1) notify(say('Connecting again…'))
  timer = setTimeout(connect, Math.min(15000, 300 * 2 ** fails) * (.5 + Math.random() / 2))
}
const connect = () => {
  if (link) return
  clearTimeout(timer)
  link = !sockets && fails % 2 ? stream() : socket()
}
const socket = () => {
  const url = new URL('socket', base)
  url.protocol = url.protocol.replace('http', 'ws')
  const ws = new WebSocket(url)
  const self = {send: m => ws.readyState == 1 && ws.send(JSON.stringify(m)), close: () => ws.close()}
  ws.onopen = () => ws.send(JSON.stringify(token ? {conversation: token} : {}))
  ws.onmessage = e => { if (self == link) { sockets = true; receive(JSON.parse(e.data)) } }
  ws.onclose = () => lost(self)
  return self
}
const stream = () => {
  const stop = new AbortController()
  const fetchAt = (where, body) => fetch(new URL(where, base), {method: 'POST', body: JSON.stringify(body), signal: stop.signal})
  const self = {close: () => stop.abort(), send: async m => {
    try {
      const answer = await fetchAt('messages', {...m, conversation: token})
      if (!answer.ok) receive({type: 'error', id: 'u' + m.id, text: 'The message was refused.'})
    } catch { self.close() } // it is sent again
  }}
  const read = async () => {
    const answer = await fetchAt('events', token ? {conversation: token} : {})
    if (answer.status == 403) keep('')
    if (!answer.ok) return
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
    for (let rest = ''; ;) {
      const {value, done} = await reader.read()
      if (done) return
      const events = (rest + value).split('\n\n')
      rest = events.pop()
      for (const e of events) if (self == link && e.startsWith('data: ')) receive(JSON.parse(e.slice(6)))
    }
  }
  read().catch(() => {}).then(() => lost(self))
  return self
}
addEventListener('online', () => panel.hidden || connect())
addEventListener('storage', e => { // another tab has begun a conversation
  if (e.key != key || !e.newValue || e.newValue == token) return
  token = e.newValue
  link?.close()
})

const start = () => {
  document.body.append(host)
  named()
  if (full || 'open' in script.dataset) show(true)
}
document.body ? start() : addEventListener('DOMContentLoaded', start)
})()
