// The teams that this server may start, the experts that teams are formed of, and what a run will probably spend.
import { ApiError, api, runPath } from '@/api/client'

export interface Member {
  name: string
  description: string
  colour?: string
  avatar?: string
}

export interface Team {
  id: string
  name?: string
  description?: string
  strategy?: string
  members?: Member[]
  /** The models that its manifest names. */
  models?: string[]
  /** Why it can't be loaded. */
  problem?: string
}

/** A template of an expert. */
export interface Expert {
  name: string
  description?: string
  capabilities?: string[]
  color?: string
  avatar?: string
}

export interface Role {
  name: string
  template?: string
  description?: string
  instructions?: string
  /** Its part of the task. */
  task?: string
  /** Why the team needs it. */
  reason?: string
}

/** A team that is formed for one task; it works with a model of one of the server's teams. */
export interface Draft {
  roles: Role[]
  lead: string
  strategy: 'expert' | 'collaborate'
  team: string
  model: string
  how: 'named' | 'automatic'
  notes: string[]
}

/** A limit as the reader typed it; the server says what is wrong with it. */
export type Limits = { [Unit in 'tokens' | 'usd' | 'seconds']?: number | string }

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

/** A file of the task: its content in base64, or the hash of a file of the run that the new one is like. */
export interface TaskFile {
  name: string
  size: number
  content?: string
  hash?: string
}

/** What a run is asked for: a team of the server, that of another run, or one that is formed. */
export interface RunRequest {
  team?: string
  like?: string
  formed?: Draft
  task: string
  limits: Limits
  attachments: { name: string; content?: string; hash?: string }[]
}

/** What a run was started with. */
export interface PastRequest {
  run_id: string
  team: string
  task: string
  strategy: string | null
  members: Member[]
  limits: { [Name in keyof Amounts]: Amounts[Name] | null }
  attachments: { hash: string; name: string; size: number }[]
}

export const readTeams = () => api.get<Team[]>('/api/teams')
export const readForecast = (asked: RunRequest) => api.post<Forecast>('/api/runs/forecast', asked)
export const startRun = (asked: RunRequest) => api.post<{ run_id: string }>('/api/runs', asked)
export const readRequest = (runId: string) => api.get<PastRequest>(runPath(runId, '/request'))

/** The experts that teams can be formed of; null where the server forms none. */
export async function readExperts(team: string): Promise<Expert[] | null> {
  try {
    return await api.get<Expert[]>('/api/experts', { team })
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null
    throw error
  }
}

/** Draft a team for a task: by its words, or by asking a model, which costs a call. */
export const draftTeam = (task: string, team: string, model: string, by: 'words' | 'model', limits: Limits) =>
  api.post<Pick<Draft, 'roles' | 'lead' | 'notes' | 'how'>>('/api/experts/drafts', { task, team, model: model || undefined, by, limits })

/** The word that forms a team of experts, as in `teamwright ask`. */
export const FORM = 'team'

export interface Line {
  team: string
  task: string
  /** Whether a team of experts is to be formed, and of whom; none are named where the task decides. */
  forms?: string[]
}

/** Read a line such as `@team what to do`, or `@team:analyst,editor what to do`. */
export function parseLine(text: string, teams: readonly Team[] = []): Line {
  const found = /^\s*@([^\s:：]+)(?:[:：]([^\s]*))?\s*([\s\S]*)$/.exec(text)
  if (!found) return { team: '', task: text.trim() }
  const [, team = '', names, rest = ''] = found
  const task = rest.trim()
  if (team !== FORM || (names === undefined && teams.some((one) => one.id === FORM))) return { team: names === undefined ? team : `${team}:${names}`, task }
  const named = (names ?? '').split(/[,，]/).filter(Boolean)
  return { team: '', task, forms: [...new Set(named)] }
}

export interface Completion {
  /** What is inserted, without `@`. */
  name: string
  description: string
}

/** What `@…` before the cursor may become: teams at the beginning of the line, then members of that team; experts after `@team:`. */
export function completionsAt(
  text: string,
  cursor: number,
  teams: readonly Team[],
  chosen: string,
  experts: readonly Expert[] = [],
  forms = '',
): { start: number; found: Completion[]; ends: string } {
  const word = /(?:^|\s)@(\S*)$/.exec(text.slice(0, cursor))
  if (!word) return { start: -1, found: [], ends: ' ' }
  const list = new RegExp(`^${FORM}[:：](?:.*[,，])?([^,，]*)$`).exec(word[1]!)
  const typed = (list?.[1] ?? word[1]!).toLowerCase()
  const start = cursor - typed.length
  const isFirst = text.slice(0, cursor - word[1]!.length - 1).trim() === ''
  const fits = (all: Completion[]) => all.filter((one) => one.name.toLowerCase().includes(typed)).slice(0, 8)
  if (isFirst && list) return { start, found: fits(experts.map((one) => ({ name: one.name, description: one.description ?? '' }))), ends: '' }
  const team = teams.find((one) => one.id === (parseLine(text, teams).team || chosen))
  const known = teams.filter((one) => !one.problem).map((one) => ({ name: one.id, description: one.description ?? '' }))
  const all: Completion[] = isFirst ? [...known, ...(experts.length ? [{ name: FORM, description: forms }] : [])] : (team?.members ?? [])
  return { start, found: fits(all), ends: ' ' }
}
