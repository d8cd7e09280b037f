// The list of runs: what the server's socket sends, and for words and filters what its search finds among older ones.
import { defineStore } from 'pinia'
import { computed, ref, shallowRef, watch } from 'vue'
import { api } from '@/api/client'
import { credential } from '@/api/credential'

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

export function matches(row: RunRow, words: readonly string[], status: string, team: string): boolean {
  if ((status && row.status !== status) || (team && row.team !== team)) return false
  const text = `${row.id} ${row.team} ${row.conversation} ${row.task}`.toLowerCase()
  return words.every((word) => text.includes(word))
}

/** The newest first. Times in ISO 8601 compare as plain text; the collator of a locale takes long to load. */
const byStart = (a: RunRow, b: RunRow) => (a.started_at < b.started_at ? 1 : a.started_at > b.started_at ? -1 : 0)

export const useRuns = defineStore('runs', () => {
  const rows = shallowRef(new Map<string, RunRow>())
  const isRead = ref(false)
  const error = ref<unknown>(null)
  const search = ref('')
  const status = ref('')
  const team = ref('')
  let socket: WebSocket | null = null
  let timer: ReturnType<typeof setTimeout> | undefined
  let pending: Message[] = []

  const words = computed(() => search.value.toLowerCase().split(/\s+/).filter(Boolean))
  const isFiltered = computed(() => words.value.length > 0 || status.value !== '' || team.value !== '')
  const newestFirst = computed(() => [...rows.value.values()].sort(byStart))
  const shown = computed(() => newestFirst.value.filter((row) => matches(row, words.value, status.value, team.value)))
  const teams = computed(() => [...new Set(newestFirst.value.map((row) => row.team))].sort())

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
    const next = new Map(rows.value)
    for (const message of pending) {
      if (message.kind === 'row') next.set(message.run_id, message.run)
      if (message.kind === 'deleted') next.delete(message.run_id)
      if (message.kind === 'ready') isRead.value = true
    }
    pending = []
    rows.value = next
  }

  let wanted = false
  function open(): void {
    wanted = true
    follow()
  }
  function close(): void {
    wanted = false
    const open = socket
    socket = null
    open?.close()
  }

  let asked = 0
  async function find(): Promise<void> {
    const mine = ++asked
    const query = { search: search.value || undefined, status: status.value || undefined, team: team.value || undefined }
    try {
      const found = await api.get<RunRow[]>('/api/runs', query)
      if (mine !== asked) return
      rows.value = new Map([...found.map((row) => [row.id, row] as const), ...rows.value])
      error.value = null
    } catch (failure) {
      error.value = failure
    }
    isRead.value = true
  }

  let typing: ReturnType<typeof setTimeout> | undefined
  watch([search, status, team], () => {
    clearTimeout(typing)
    if (isFiltered.value) typing = setTimeout(() => void find(), PAUSE)
  })

  function clear(): void {
    search.value = status.value = team.value = ''
  }

  return { rows, shown, teams, isRead, isFiltered, error, search, status, team, open, close, find, clear }
})
