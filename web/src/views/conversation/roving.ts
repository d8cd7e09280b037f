// One stop of the Tab key for a stream of any length: the row with the focus has its controls, the others none.
// Their controls can be clicked as before, and what is wider than its frame stays a stop. Rows are marked by `data-index`.
import { onBeforeUnmount, ref, watch, type Ref } from 'vue'

const CONTROLS = 'a[href], button, input, select, textarea, summary, [tabindex]:not([data-index])'

const FRAMES = 'pre, [role=group]'
/** Whether a part of an element is out of sight, for which the keyboard has to reach it. */
const isScrolled = (one: Element) => one.matches(FRAMES) && (one.scrollWidth > one.clientWidth || one.scrollHeight > one.clientHeight)

/** Take the controls of a row out of the order of the Tab key, or put them back. */
function setStops(row: Element, isOpen: boolean): void {
  for (const one of row.querySelectorAll<HTMLElement>(CONTROLS)) {
    const before = one.dataset['tab']
    const isStop = isOpen || isScrolled(one)
    if (isStop && before !== undefined) {
      before ? one.setAttribute('tabindex', before) : one.removeAttribute('tabindex')
      delete one.dataset['tab']
    } else if (!isStop && before === undefined) {
      one.dataset['tab'] = one.getAttribute('tabindex') ?? ''
      one.setAttribute('tabindex', '-1')
    }
  }
}

export function useRovingFocus(root: Ref<HTMLElement | null>, focused: Ref<number>) {
  /** Whether the focus is in the stream: then the stream itself is no stop, so that Shift and Tab lead out of it. */
  const isInside = ref(false)

  function update(): void {
    // A row that is scrolled out of sight is no longer drawn, and the focus is lost with it.
    if (isInside.value && !root.value?.contains(document.activeElement)) isInside.value = false
    for (const row of root.value?.querySelectorAll<HTMLElement>('[data-index]') ?? []) {
      setStops(row, isInside.value && Number(row.dataset['index']) === focused.value)
    }
  }
  const observer = new MutationObserver(update)
  const sizes = new ResizeObserver(update)
  watch(root, (element) => {
    observer.disconnect()
    sizes.disconnect()
    if (element) observer.observe(element, { childList: true, subtree: true })
    if (element) sizes.observe(element)
    update()
  })
  watch([isInside, focused], update, { flush: 'sync' })
  onBeforeUnmount(() => (observer.disconnect(), sizes.disconnect()))

  function onFocusIn(event: FocusEvent): void {
    const row = (event.target as HTMLElement).closest<HTMLElement>('[data-index]')
    if (!row) return
    focused.value = Number(row.dataset['index'])
    isInside.value = true
  }
  function onFocusOut(event: FocusEvent): void {
    if (!root.value?.contains(event.relatedTarget as Node | null)) isInside.value = false
  }
  /** The stream got the focus itself: a key leads on to a row, a mouse stays. */
  function enter(toRow: () => void): void {
    if (root.value?.matches(':focus-visible')) toRow()
  }
  return { isInside, enter, onFocusIn, onFocusOut }
}
