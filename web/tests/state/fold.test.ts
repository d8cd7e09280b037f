import { expect, test } from 'vitest'
import { computed, nextTick, ref, shallowRef, triggerRef } from 'vue'
import type { PageEvent } from '@/api/page_events'
import { foldAll, useFold, type Fold } from '@/state/fold'

const event = (number: number) => ({ number, index: 0, kind: 'note' }) as unknown as PageEvent
const numbers: Fold<number[]> = { initial: () => [], apply: (state, { number }) => void state.push(number) }

test('a state is what all events make of it', () => {
  expect(foldAll(numbers, [event(1), event(2)])).toEqual([1, 2])
})

test('new events are added, and a position in the past starts anew', async () => {
  const events = shallowRef([event(1), event(2)])
  const count = ref(2)
  const state = useFold(numbers, events, count)
  expect(state.value).toEqual([1, 2])
  events.value.push(event(3))
  triggerRef(events)
  count.value = 3
  await nextTick()
  expect(state.value).toEqual([1, 2, 3])
  count.value = 1
  await nextTick()
  expect(state.value).toEqual([1])
})

test('what is computed from a state follows new events', async () => {
  const events = shallowRef([event(1)])
  const count = ref(1)
  const state = useFold(numbers, events, count)
  const passedOn = computed(() => state.value)
  const length = computed(() => passedOn.value.length)
  expect(length.value).toBe(1)
  events.value.push(event(2))
  triggerRef(events)
  count.value = 2
  await nextTick()
  expect(length.value).toBe(2)
})
