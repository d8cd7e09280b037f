import { expect, test } from 'vitest'
import { highlight } from '@/components/highlight'
import { renderMarkdown } from '@/components/markdown'

const plain = (html: string) => html.replace(/<\/?span[^>]*>/g, '')

test('comments, strings, numbers and keywords have a class each', () => {
  const html = highlight('def f():  # why\n    return "a" + 12', (text) => text)
  expect(html).toContain('<span class="hl-k">def</span>')
  expect(html).toContain('<span class="hl-c"># why</span>')
  expect(html).toContain('<span class="hl-s">"a"</span>')
  expect(html).toContain('<span class="hl-n">12</span>')
})

test('nothing of the code is lost, and nothing of it is markup', () => {
  const code = 'if (a < b && "<img onerror=x>") { /* </code> */ }'
  const html = renderMarkdown('```js\n' + code + '\n```')
  expect(html).not.toContain('<img')
  const element = document.createElement('div')
  element.innerHTML = html
  expect(element.textContent?.trim()).toBe(code)
  expect(plain(highlight('a\n'.repeat(40_000), (text) => text))).toBe('a\n'.repeat(40_000))
})

test('a fence can name no class of the page', () => {
  expect(renderMarkdown('```unseen\nx\n```')).not.toContain('class')
})

test.each(['"' + '\\"'.repeat(24_000), "'" + "\\'".repeat(24_000), '/*'.repeat(24_000)])('open strings and comments are passed in linear time', (code) => {
  const fastest = (text: string) => {
    const times = Array.from({ length: 9 }, () => {
      const start = performance.now()
      highlight(text, (one) => one)
      return performance.now() - start
    })
    return Math.min(...times)  // of a busy machine, that of a quiet moment
  }
  expect(fastest(code)).toBeLessThan(40 * fastest(code.slice(0, code.length / 8)) + 10)
}, 60_000)
