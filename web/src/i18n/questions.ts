// Questions that the server words itself, in the reader's language: they are recorded in English.
import { language, t } from '@/i18n'
import { en } from '@/i18n/en'

const ASKED = ['asked.run', 'asked.task', 'asked.reply', 'asked.tool', 'asked.plan'] as const
/** Names are short, so that a hostile text costs no time. */
const PATTERNS = ASKED.map((key) => [key, new RegExp(`^${en[key].replace(/[?.]/g, '\\$&').replace(/\{(\w+)\}/g, '(?<$1>.{1,200}?)')}`)] as const)

/** The text of a question; what follows the server's own words, and every other question, stays as it is. */
export function questionText(text: string): string {
  if (language.value === 'en') return text
  for (const [key, pattern] of PATTERNS) {
    const found = pattern.exec(text)
    if (found) return t(key, found.groups) + text.slice(found[0].length)
  }
  return text
}
