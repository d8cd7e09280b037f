// Marks what a search found, in the text that is drawn: ranges are painted over it, and no element is changed.
import { onBeforeUnmount, watch, type Ref } from 'vue'

const NAME = 'found'

/** Mark these words, which are in lower case, in what is drawn inside an element, also when it changes. */
export function useMarks(inside: Readonly<Ref<HTMLElement | null>>, words: Readonly<Ref<string[]>>): void {
  if (typeof Highlight === 'undefined') return
  let frame = 0
  const later = () => (frame ||= requestAnimationFrame(mark))
  const observer = new MutationObserver(later)

  function mark(): void {
    frame = 0
    const found = new Highlight()
    if (inside.value) for (const range of rangesOf(inside.value, words.value)) found.add(range)
    CSS.highlights.set(NAME, found)
  }

  watch(
    [inside, words],
    () => {
      observer.disconnect()
      if (inside.value && words.value.length) observer.observe(inside.value, { childList: true, subtree: true, characterData: true })
      later()
    },
    { immediate: true, flush: 'post' },
  )
  onBeforeUnmount(() => {
    observer.disconnect()
    cancelAnimationFrame(frame)
    CSS.highlights.delete(NAME)
  })
}

function* rangesOf(element: HTMLElement, words: readonly string[]): Generator<Range> {
  const nodes = document.createTreeWalker(element, NodeFilter.SHOW_TEXT)
  while (nodes.nextNode()) {
    const node = nodes.currentNode as Text
    const text = node.data.toLowerCase()
    if (text.length !== node.data.length) continue // a letter that has two small ones moves all after it
    for (const word of words) {
      for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) {
        const range = new Range()
        range.setStart(node, at)
        range.setEnd(node, at + word.length)
        yield range
      }
    }
  }
}
