// What an operator looks after beside single runs: figures over time, the cluster, memories, and templates of experts.
import { onScopeDispose, ref, shallowRef, type Ref } from 'vue'
import { api } from '@/api/client'
import type { MessageKey } from '@/i18n'

export const PARTS = ['figures', 'evaluations', 'cluster', 'memory', 'experts'] as const
export type Part = (typeof PARTS)[number]
export const TITLES: Record<Part, MessageKey> = { figures: 'operations.figures', evaluations: 'operations.evaluations', cluster: 'operations.cluster', memory: 'operations.memory', experts: 'operations.experts' }

/** The parts that this server has, in the order of the tabs. */
export async function readParts(): Promise<Part[]> {
  const { parts } = await api.get<{ parts: string[] }>('/api/operations')
  return PARTS.filter((one) => parts.includes(one))
}

interface Counted {
  runs: number
  ended: number
  completed: number
  tokens: number
  usd: number
  /** Runs that used tokens without a known price. */
  unpriced: number
  steps: number
  passed: number
  judged: number
}
const COUNTS = ['runs', 'ended', 'completed', 'tokens', 'usd', 'unpriced', 'steps', 'passed', 'judged'] as const

export interface Asked {
  requests: number
  tokens: number
  usd: number | null
}

export interface Figures {
  since: string
  until: string
  runs: number
  is_cut: boolean
  measured: number
  /** Runs whose events are not read yet. */
  unread: number
  teams: (Counted & { day: string; team: string })[]
  models: (Asked & { day: string; team: string; model: string })[]
}

function sum(rows: Counted[]): Counted {
  const total = Object.fromEntries(COUNTS.map((name) => [name, 0])) as unknown as Counted
  for (const row of rows) for (const name of COUNTS) total[name] += row[name]
  return total
}

function grouped<T>(rows: T[], key: (row: T) => string): Map<string, T[]> {
  const found = new Map<string, T[]>()
  for (const row of rows) found.set(key(row), [...(found.get(key(row)) ?? []), row])
  return found
}

/** Every day of the figures, also those without runs. */
export function daysOf({ since, until }: { since: string; until: string }): string[] {
  const days: string[] = []
  for (let at = Date.parse(since); at <= Date.parse(until); at += 86_400_000) days.push(new Date(at).toISOString().slice(0, 10))
  return days
}

/** The figures of each day, of one team or of all. */
export function byDay(figures: Figures, team = ''): (Counted & { day: string })[] {
  const found = grouped(figures.teams.filter((row) => !team || row.team === team), (row) => row.day)
  return daysOf(figures).map((day) => ({ day, ...sum(found.get(day) ?? []) }))
}

export function byTeam(figures: Figures, team = ''): (Counted & { team: string })[] {
  const found = grouped(figures.teams.filter((row) => !team || row.team === team), (row) => row.team)
  return [...found].map(([name, rows]) => ({ team: name, ...sum(rows) })).sort((a, b) => b.runs - a.runs)
}

/** What each model was asked for; a price that is not known for a part of it is not known. */
export function byModel(figures: Figures, team = ''): (Asked & { model: string })[] {
  const found = grouped(figures.models.filter((row) => !team || row.team === team), (row) => row.model)
  const total = (rows: Asked[]): Asked => ({
    requests: rows.reduce((all, one) => all + one.requests, 0),
    tokens: rows.reduce((all, one) => all + one.tokens, 0),
    usd: rows.some((one) => one.usd === null && one.tokens > 0) ? null : rows.reduce((all, one) => all + (one.usd ?? 0), 0),
  })
  return [...found].map(([model, rows]) => ({ model, ...total(rows) })).sort((a, b) => b.tokens - a.tokens)
}

export const totalOf = (figures: Figures, team = '') => sum(figures.teams.filter((row) => !team || row.team === team))
/** Null without steps, and where no evaluator has judged those that passed. */
export const passRate = (one: Counted) => (one.steps && (one.judged || !one.passed) ? one.passed / one.steps : null)
/** What is known of the cost; null where no run has a price. */
export const costOf = (one: Counted) => (one.unpriced && !one.usd ? null : one.usd)

export interface Worker {
  id: string
  name: string
  queue: string
  state: 'ready' | 'draining' | 'lost'
  at_once: number
  driving: string[]
  finished: number
  version: string
  seconds: number
  seen: number
}

export interface Queue {
  name: string
  queued: number
  claimed: number
  oldest: number | null
  at_once: number | null
  per_minute: number | null
}

export interface Schedule {
  name: string
  cron: string
  time_zone: string
  queue: string
  next: string
  last_run: string | null
}

export interface Budget {
  name: string
  per: 'day' | 'week' | 'month' | 'ever'
  until: string | null
  runs: number
  usd: number | null
  spent_usd: number
  reserved_usd: number
  tokens: number | null
  spent_tokens: number
  reserved_tokens: number
}

export interface Cluster {
  open_runs: number
  oldest: number | null
  parked: number
  workers: Worker[]
  queues: Queue[]
  set_aside: { run_id: string; reason: string }[]
  schedules: Schedule[]
  budgets: Budget[]
}

export interface Note {
  id: number
  text: string
  author: string
  run_id: string
  time: string
}

/** What the server says now, asked again every so many milliseconds while the page is seen. */
export function usePolled<T>(read: () => Promise<T>, every: number): { found: Ref<T | null>; error: Ref<unknown>; load: () => Promise<void> } {
  const found = shallowRef<T | null>(null)
  const error = ref<unknown>(null)
  async function load(): Promise<void> {
    try {
      found.value = await read()
      error.value = null
    } catch (failure) {
      error.value = failure
    }
  }
  void load()
  const timer = setInterval(() => document.hidden || void load(), every)
  onScopeDispose(() => clearInterval(timer))
  return { found, error, load }
}
