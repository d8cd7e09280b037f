// A list of buttons with one stop of the Tab key, which arrows, Home and End move: a long list does not hold up a keyboard.
import { onBeforeUnmount, onMounted, type Ref } from 'vue'

const STEPS: Record<string, number> = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, Home: -Infinity, End: Infinity }

/** Keep one stop among the buttons inside `root`: the one that had the focus, else the current one, else the first. */
export function useOneStop(root: Ref<HTMLElement | null>): void {
  let last: HTMLElement | null = null
  const buttons = () => [...(root.value?.querySelectorAll<HTMLElement>('button') ?? [])]

  function update(): void {
    const all = buttons()
    const stop = all.find((one) => one === last) ?? all.find((one) => one.hasAttribute('aria-current')) ?? all[0]
    for (const one of all) {
      const wanted = one === stop ? '0' : '-1'
      if (one.getAttribute('tabindex') !== wanted) one.setAttribute('tabindex', wanted)
    }
  }
  function onFocus(event: FocusEvent): void {
    last = event.target as HTMLElement
    update()
  }
  function onKey(event: KeyboardEvent): void {
    const step = STEPS[event.key]
    if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return
    const all = buttons()
    const at = all.indexOf(event.target as HTMLElement)
    if (at < 0) return
    event.preventDefault()
    all[Math.min(Math.max(at + step, 0), all.length - 1)]?.focus()
  }

  const observer = new MutationObserver(update)
  onMounted(() => {
    root.value?.addEventListener('focusin', onFocus)
    root.value?.addEventListener('keydown', onKey)
    if (root.value) observer.observe(root.value, { childList: true, subtree: true })
    update()
  })
  onBeforeUnmount(() => observer.disconnect())
}
