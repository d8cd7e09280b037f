// The width of an element, kept up to date.
import { onScopeDispose, ref, watch, type Ref } from 'vue'

export function useElementWidth(element: Readonly<Ref<HTMLElement | null>>): Ref<number> {
  const width = ref(0)
  const observer = new ResizeObserver(([entry]) => (width.value = Math.round(entry?.contentRect.width ?? 0)))
  watch(
    element,
    (now, before) => {
      if (before) observer.unobserve(before)
      if (now) observer.observe(now)
    },
    { immediate: true, flush: 'post' },
  )
  onScopeDispose(() => observer.disconnect())
  return width
}
