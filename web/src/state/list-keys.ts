// Keys that move through the entries of a list: the focus goes from one to the next.
import type { Ref } from 'vue'
import { t } from '@/i18n'
import { useShortcuts, type Shortcut } from '@/state/shortcuts'

/** Move with `j` and `k` between what `selector` finds in a list; `more` are keys for the entry in focus. */
export function useListKeys(list: Readonly<Ref<HTMLElement | null>>, selector: string, more: Shortcut[] = []): void {
  function move(by: 1 | -1): void {
    const entries = [...(list.value?.querySelectorAll<HTMLElement>(selector) ?? [])]
    const at = entries.findIndex((one) => one === document.activeElement || one.contains(document.activeElement))
    const entry = entries[at < 0 ? (by > 0 ? 0 : entries.length - 1) : at + by]
    entry?.focus()
    entry?.scrollIntoView({ block: 'nearest' })
  }
  useShortcuts([
    { keys: 'j', title: () => t('keys.nextEntry'), run: () => move(1) },
    { keys: 'k', title: () => t('keys.previousEntry'), run: () => move(-1) },
    ...more,
  ])
}
