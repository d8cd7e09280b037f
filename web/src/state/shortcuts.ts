// Keyboard shortcuts: a part of the page adds its keys while it is shown, and `?` lists those that work now.
import { onScopeDispose, shallowRef, triggerRef } from 'vue'

export interface Shortcut {
  /** A key as `KeyboardEvent.key` has it, or two after each other: `g h`. */
  keys: string
  /** What it does, in the reader's language. */
  title: () => string
  run: () => void
}

export const shortcuts = shallowRef<Shortcut[]>([])
let first = ''
let firstAt = 0
const PAUSE = 1200

export function useShortcuts(added: Shortcut[]): void {
  shortcuts.value.push(...added)
  triggerRef(shortcuts)
  onScopeDispose(() => {
    shortcuts.value = shortcuts.value.filter((one) => !added.includes(one))
  })
}

const isTyping = (target: EventTarget | null) =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))

/** Opens the palette of commands, also while the reader types. */
export const PALETTE = 'Ctrl K'

export function handleKey(event: KeyboardEvent): void {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k' && !event.shiftKey && !event.altKey) {
    event.preventDefault()
    if (!document.querySelector('dialog[open]')) shortcuts.value.find((one) => one.keys === PALETTE)?.run()
    return
  }
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return
  if (document.querySelector('dialog[open]')) return
  const pair = Date.now() - firstAt < PAUSE ? `${first} ${event.key}` : ''
  // What was added last belongs to the view in front.
  const found = shortcuts.value.findLast((one) => one.keys === pair) ?? shortcuts.value.findLast((one) => one.keys === event.key)
  first = found ? '' : event.key
  firstAt = Date.now()
  if (!found) return
  event.preventDefault()
  found.run()
}
