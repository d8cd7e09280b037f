// Markdown of models and people as safe HTML: no HTML of theirs, no images, and links that leave no trace. What
// markdown-it makes is cleaned a second time, so that a mistake in either is not enough.
import DOMPurify from 'dompurify'
import MarkdownIt from 'markdown-it'
import { highlight } from '@/components/highlight'
import { t } from '@/i18n'

const markdown = new MarkdownIt({ html: false, linkify: true, breaks: false })
// An image would tell another host that somebody reads this; its address becomes a link.
markdown.renderer.rules.image = (tokens, index) => {
  const token = tokens[index]!
  const { escapeHtml } = markdown.utils
  const source = String(token.attrGet('src') ?? '')
  return `<a href="${escapeHtml(source)}">${escapeHtml(token.content || source)}</a>`
}

// A fence names a language, which becomes no class: code of any language has the same colours.
markdown.renderer.rules.fence = (tokens, index) => {
  const { content, info } = tokens[index]!
  const { escapeHtml } = markdown.utils
  return `<pre><code>${info ? highlight(content, escapeHtml) : escapeHtml(content)}</code></pre>\n`
}

// The alignment of a table's cells is an inline style, which the policy of the page forbids.
markdown.core.ruler.push('unstyled', ({ tokens }) => {
  for (const token of tokens) if (token.type === 'th_open' || token.type === 'td_open') token.attrs = null
})

// A wide table is scrolled in a frame of its own, also with the keyboard.
markdown.renderer.rules.table_open = () => `<div class="wide" role="group" tabindex="0" aria-label="${markdown.utils.escapeHtml(t('common.table'))}"><table>\n`
markdown.renderer.rules.table_close = () => '</table></div>\n'

const SAFE_LINK = /^(?:https?|mailto):/i
const CONFIG = {
  ALLOWED_TAGS: [
    ...['p', 'br', 'hr', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'ul', 'ol', 'li', 'blockquote', 'pre', 'code'],
    ...['strong', 'em', 's', 'a', 'span', 'div', 'table', 'thead', 'tbody', 'tr', 'th', 'td'],
  ],
  ALLOWED_ATTR: ['href', 'start', 'class', 'role', 'tabindex'],
  ALLOWED_URI_REGEXP: SAFE_LINK,
  ADD_URI_SAFE_ATTR: ['start', 'tabindex'],
}

const CLASS = /^(?:hl-[csnk]|wide)$/

const purifier = DOMPurify(window)
purifier.addHook('afterSanitizeAttributes', (node) => {
  if (!CLASS.test(node.getAttribute('class') ?? '')) node.removeAttribute('class')
  if (node.tagName !== 'A') return
  if (!SAFE_LINK.test(node.getAttribute('href') ?? '')) node.removeAttribute('href')
  node.setAttribute('target', '_blank')
  node.setAttribute('rel', 'noopener noreferrer nofollow')
})

export function renderMarkdown(text: string): string {
  return purifier.sanitize(markdown.render(text), CONFIG)
}
