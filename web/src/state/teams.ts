// The teams that this server may start, and what a run of one will probably spend.
import { api } from '@/api/client'

export interface Team {
  id: string
  name?: string
  description?: string
  strategy?: string
  members?: { name: string; description: string }[]
  /** Why it can't be loaded. */
  problem?: string
}

export interface Amounts {
  tokens?: number
  usd?: number
  calls?: number
  seconds?: number
}

interface Quantiles {
  p50: number
  p90: number
}

export interface Forecast {
  basis: 'runs' | 'simulation' | 'unknown'
  runs: number
  tokens: Quantiles | null
  usd: Quantiles | null
  asks: Quantiles | null
  ceiling: { [Name in keyof Amounts]: Amounts[Name] | null }
}

export const readTeams = () => api.get<Team[]>('/api/teams')

export const readForecast = (team: string, task: string, limits: Amounts) => api.post<Forecast>('/api/runs/forecast', { team, task, limits })

export const startRun = (team: string, task: string, limits: Amounts) => api.post<{ run_id: string }>('/api/runs', { team, task, limits })

export interface Line {
  team: string
  task: string
}

/** Read a line such as `@team what to do`. */
export function parseLine(text: string): Line {
  const found = /^\s*@(\S+)\s*([\s\S]*)$/.exec(text)
  return found ? { team: found[1]!, task: found[2]!.trim() } : { team: '', task: text.trim() }
}

export interface Completion {
  /** What is inserted, without `@`. */
  name: string
  description: string
}

/** What `@…` before the cursor may become: teams at the beginning of the line, then members of that team. */
export function completionsAt(text: string, cursor: number, teams: readonly Team[], chosen: string): { start: number; found: Completion[] } {
  const word = /(?:^|\s)@(\S*)$/.exec(text.slice(0, cursor))
  if (!word) return { start: -1, found: [] }
  const start = cursor - word[1]!.length
  const isFirst = text.slice(0, start - 1).trim() === ''
  const team = teams.find((one) => one.id === (parseLine(text).team || chosen))
  const all: Completion[] = isFirst
    ? teams.filter((one) => !one.problem).map((one) => ({ name: one.id, description: one.description ?? '' }))
    : (team?.members ?? [])
  const typed = word[1]!.toLowerCase()
  return { start, found: all.filter((one) => one.name.toLowerCase().includes(typed)).slice(0, 8) }
}
