// A fold reads page events in order and keeps what a view shows. Its state depends on the events alone, so that a view
// can be shown as it was at any event.
import { computed, shallowRef, triggerRef, watch, type ComputedRef, type Ref } from 'vue'
import type { PageEvent } from '@/api/page-events'

export interface Fold<S> {
  initial(): S
  /** Changes `state`, which belongs to the fold alone. */
  apply(state: S, event: PageEvent): void
}

/** The state after these events. */
export function foldAll<S>(fold: Fold<S>, events: Iterable<PageEvent>): S {
  const state = fold.initial()
  for (const event of events) fold.apply(state, event)
  return state
}

/** The state after the first `count` events, kept up to date: new events are added to it, going back starts anew. */
export function useFold<S>(fold: Fold<S>, events: Readonly<Ref<readonly PageEvent[]>>, count: Readonly<Ref<number>>): ComputedRef<S> {
  const state = shallowRef(fold.initial())
  let applied = 0
  watch(
    [events, count],
    () => {
      if (count.value < applied) {
        state.value = fold.initial()
        applied = 0
      }
      while (applied < count.value) fold.apply(state.value, events.value[applied++]!)
      triggerRef(state)
    },
    { immediate: true },
  )
  return computed(() => state.value)
}
