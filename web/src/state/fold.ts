// A fold reads page events in order and keeps what a view shows. Its state depends on the events alone, so that a view
// can be shown as it was at any event.
import { shallowRef, watch, type Ref, type ShallowRef } from 'vue'
import type { PageEvent } from '@/api/page_events'

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

/** A copy one level deep: Vue passes a state on only where it is another object than before. */
const copyOf = <S extends object>(state: S): S => (Array.isArray(state) ? state.slice() : { ...state }) as S

/** The state after the first `count` events, kept up to date: new events are added to it, going back starts anew. */
export function useFold<S extends object>(
  fold: Fold<S>,
  events: Readonly<Ref<readonly PageEvent[]>>,
  count: Readonly<Ref<number>>,
): Readonly<ShallowRef<S>> {
  const state = shallowRef(fold.initial()) as ShallowRef<S>
  let applied = 0
  watch(
    [events, count],
    () => {
      if (count.value < applied) applied = 0
      const next = applied === 0 ? fold.initial() : copyOf(state.value)
      while (applied < count.value) fold.apply(next, events.value[applied++]!)
      state.value = next
    },
    { immediate: true },
  )
  return state
}
