// One run: its page events in order, the position of the slider in them, and the pieces that are being written now.
import { defineStore } from 'pinia'
import { computed, ref, shallowRef, triggerRef } from 'vue'
import type { PageEvent, PageItem } from '@/api/page_events'
import { ApiError, api, runPath } from '@/api/client'
import { RunSocket, type Connection } from '@/api/socket'
import { useFold, type Fold } from '@/state/fold'
import { live } from '@/state/live'
import { summary } from '@/state/summary'

/** The order of page events: by number, then by index. */
const isAfter = (event: PageEvent, last: PageEvent | undefined) =>
  !last || event.number > last.number || (event.number === last.number && event.index > last.index)

function setup(runId: string) {
  const events = shallowRef<PageEvent[]>([])
  const connection = ref<Connection>('connecting')
  /** How many events are shown; `null` follows the run. */
  const position = ref<number | null>(null)
  const count = computed(() => Math.min(position.value ?? Infinity, events.value.length))
  const isLive = computed(() => position.value === null)
  const writing = shallowRef(live.initial())
  let socket: RunSocket | null = null

  /** Add items in order; those that are there already are dropped. */
  function add(items: Iterable<PageItem>): void {
    const known = events.value
    for (const item of items) {
      if (item.kind === 'delta') {
        live.write(writing.value, item)
      } else if (isAfter(item, known.at(-1))) {
        known.push(item)
        live.apply(writing.value, item)
      }
    }
    triggerRef(events)
    triggerRef(writing)
  }

  /** Read what is recorded, in one answer, and follow the run from there; one that has ended needs no socket. */
  async function follow(): Promise<void> {
    if (socket) return
    const mine = (socket = new RunSocket(runId, { onItems: add, onConnection: (state) => (connection.value = state) }))
    const last = () => events.value.at(-1)
    try {
      add(await api.get<PageEvent[]>(runPath(runId, '/page-events'), { after: Math.max(0, (last()?.number ?? 0) - 1) }))
    } catch (failure) {
      // The socket says what is wrong, and tries again.
      if (failure instanceof ApiError && failure.status === 404) connection.value = 'refused'
    }
    if (socket !== mine || connection.value === 'refused') return
    const event = events.value.findLast((one) => one.kind === 'run')
    if (event?.kind === 'run' && event.state === 'ended') connection.value = 'ended'
    else mine.open(last()?.number ?? 0)
  }

  function leave(): void {
    socket?.close()
    socket = null
  }

  const retry = () => socket?.retry()

  /** Show the first `shown` events; all of them follows the run. */
  function seek(shown: number): void {
    position.value = shown >= events.value.length ? null : Math.max(1, shown)
  }

  /** What a fold makes of the events up to the slider. */
  const folded = <S extends object>(fold: Fold<S>) => useFold(fold, events, count)
  const overview = folded(summary)

  return { runId, events, count, position, isLive, connection, writing, overview, add, follow, leave, retry, seek, folded }
}

export type RunStore = ReturnType<ReturnType<typeof makeStore>>
const makeStore = (runId: string) => defineStore(`run/${runId}`, () => setup(runId))
const stores = new Map<string, ReturnType<typeof makeStore>>()

/** The store of a run. */
export function useRun(runId: string): RunStore {
  let found = stores.get(runId)
  if (!found) stores.set(runId, (found = makeStore(runId)))
  return found()
}
