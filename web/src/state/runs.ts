// The list of runs: what the server's socket sends of the newest, and pages of older ones, found by words, filters and order.
import { defineStore } from 'pinia'
import { computed, ref, shallowRef, watch } from 'vue'
import { api, runPath } from '@/api/client'
import { credential } from '@/api/credential'
import { route, setQuery } from '@/router'

export interface RunRow {
  id: string
  team: string
  status: string
  stop_reason: string | null
  task: string
  started_at: string
  seconds: number
  total_tokens: number
  usd: number | null
  conversation: string
  damage: string | null
}

type Message = { kind: 'row'; run_id: string; run: RunRow } | { kind: 'deleted'; run_id: string } | { kind: 'ready' | 'heartbeat' }

const RETRY = 2000
const PAUSE = 250
/** How many of the newest runs the socket sends, and how many a page has. */
const NEWEST = 500
const PAGE = 100
export const ORDERS = ['started', 'seconds', 'tokens', 'usd'] as const
export type Order = (typeof ORDERS)[number]

export function matches(row: RunRow, words: readonly string[], status: string, team: string): boolean {
  if ((status && row.status !== status) || (team && row.team !== team)) return false
  const text = `${row.id} ${row.team} ${row.conversation} ${row.task}`.toLowerCase()
  return words.every((word) => text.includes(word))
}

/** The newest first. Times in ISO 8601 compare as plain text; the collator of a locale takes long to load. */
const byStart = (a: RunRow, b: RunRow) => (a.started_at < b.started_at ? 1 : a.started_at > b.started_at ? -1 : 0)

/** A part of the filter, kept in the address of the list, so that it can be linked to. */
const NONE = new URLSearchParams()
const field = (name: string) => computed({ get: () => (route.value.page === '' ? route.value.query : NONE).get(name) ?? '', set: (value: string) => setQuery({ [name]: value }) })

export const useRuns = defineStore('runs', () => {
  const live = shallowRef(new Map<string, RunRow>())
  /** What pages have brought since the filter was changed, in the order of the server. */
  const found = shallowRef(new Map<string, RunRow>())
  const next = ref('')
  const isRead = ref(false)
  const error = ref<unknown>(null)
  const search = field('q')
  const status = field('status')
  const team = field('team')
  const order = field('order')
  let socket: WebSocket | null = null
  let timer: ReturnType<typeof setTimeout> | undefined
  let pending: Message[] = []

  const words = computed(() => search.value.toLowerCase().split(/\s+/).filter(Boolean))
  const isFiltered = computed(() => words.value.length > 0 || status.value !== '' || team.value !== '')
  const isPlain = computed(() => !isFiltered.value && !order.value)
  const newestFirst = computed(() => [...new Map([...found.value, ...live.value]).values()].sort(byStart))
  const shown = computed(() => {
    // The newest runs come by themselves; in another order a row stays where the server has it.
    const all = order.value ? [...found.value.keys()].map((id) => live.value.get(id) ?? found.value.get(id)!) : newestFirst.value
    return all.filter((row) => matches(row, words.value, status.value, team.value))
  })
  const teams = computed(() => [...new Set([team.value, ...newestFirst.value.map((row) => row.team)])].filter(Boolean).sort())
  const hasMore = computed(() => next.value !== '' || (isPlain.value && found.value.size === 0 && live.value.size >= NEWEST))

  function follow(): void {
    if (socket) return
    const address = new URL('/api/socket', location.href)
    address.protocol = address.protocol.replace('http', 'ws')
    socket = new WebSocket(address, credential.protocols())
    socket.onmessage = (message) => {
      const item = JSON.parse(String(message.data)) as Message
      pending.push(item)
      if (item.kind === 'ready') flush()
      else timer ??= setTimeout(flush, 30)
    }
    socket.onclose = () => {
      if (!socket) return
      socket = null
      setTimeout(() => socket ?? (wanted && follow()), RETRY)
    }
  }

  function flush(): void {
    clearTimeout(timer)
    timer = undefined
    const rows = new Map(live.value)
    for (const message of pending) {
      if (message.kind === 'row') rows.set(message.run_id, message.run)
      if (message.kind === 'deleted') rows.delete(message.run_id)
      if (message.kind === 'ready') isRead.value = true
    }
    pending = []
    live.value = rows
  }

  let wanted = false
  function open(): void {
    wanted = true
    follow()
    if (!isPlain.value) void find()
  }
  function close(): void {
    wanted = false
    const open = socket
    socket = null
    open?.close()
  }

  let asked = 0
  /** Read a page of the runs that fit: the first, or the one after what is there. */
  async function read(after: string): Promise<void> {
    const mine = ++asked
    const query = { search: search.value || undefined, status: status.value || undefined, team: team.value || undefined, order: order.value || undefined, after: after || undefined, limit: PAGE }
    try {
      const page = await api.page<RunRow>('/api/runs', query)
      if (mine !== asked) return
      const rows = page.items.map((row) => [row.id, row] as const)
      found.value = new Map(after ? [...found.value, ...rows] : rows)
      next.value = page.next
      error.value = null
    } catch (failure) {
      if (mine === asked) error.value = failure
    }
    isRead.value = true
  }
  const find = () => read('')
  const more = () => read(next.value || (shown.value.at(-1)?.id ?? ''))

  let typing: ReturnType<typeof setTimeout> | undefined
  watch([search, status, team, order], () => {
    clearTimeout(typing)
    asked++
    found.value = new Map()
    next.value = ''
    if (!isPlain.value) typing = setTimeout(() => void find(), PAUSE)
  })

  function clear(): void {
    setQuery({ q: '', status: '', team: '' })
  }

  /** Do something with each of these runs, and return what went wrong, by the run. */
  async function each(ids: readonly string[], act: (id: string) => Promise<unknown>): Promise<Map<string, unknown>> {
    const failed = new Map<string, unknown>()
    for (const id of ids) await act(id).catch((failure: unknown) => failed.set(id, failure))
    return failed
  }
  const cancel = (ids: readonly string[]) => each(ids, (id) => api.post(runPath(id, '/cancel')))
  const remove = (ids: readonly string[]) =>
    each(ids, async (id) => {
      await api.delete(runPath(id))
      for (const rows of [live, found]) rows.value = new Map([...rows.value].filter(([one]) => one !== id))
    })

  return { live, shown, teams, isRead, isFiltered, hasMore, error, search, status, team, order, open, close, find, more, clear, cancel, remove }
})
