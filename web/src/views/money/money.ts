// What a run spends: over time, by expert and by purpose; the limits, the forecast, and the rungs of the ladder.
import type { PageAmounts, PageBudget, PageEvent, PageExpert, PageExpertResult, PageForecast, PageVerdict } from '@/api/page_events'
import type { Fold } from '@/state/fold'
import { isCancelled } from '@/state/summary'
import { withLimits } from '@/views/money/limits'

export interface Point {
  time: number
  tokens: number
  usd: number
}

/** A step of the degradation ladder that began, or ended where `active` is false. */
export interface Rung {
  time: number
  rung: string
  active: boolean
}

export interface Spending {
  tokens: number
  input: number
  output: number
  cached: number
  usd: number
  saved: number
  turns: number
  failed: number
}

export interface ExpertSpending extends Spending {
  expert: PageExpert
}

export interface Money {
  startedAt: number
  points: Point[]
  limits: PageAmounts | null
  forecast: PageForecast | null
  rungs: Rung[]
  /** The ids of experts to what they spent; without an expert, an empty id. */
  experts: Map<string, ExpertSpending>
  purposes: Map<string, Spending>
  total: Spending
  hasPrices: boolean
  verdicts: PageVerdict[]
}

const nothing = (): Spending => ({ tokens: 0, input: 0, output: 0, cached: 0, usd: 0, saved: 0, turns: 0, failed: 0 })

function add(before: Spending, event: PageExpertResult): void {
  const { usage } = event
  before.tokens += usage.total_tokens
  before.input += usage.input_tokens
  before.output += usage.output_tokens
  before.cached += usage.cached_tokens
  before.usd += event.cost ?? 0
  before.saved += usage.saved_usd ?? 0
  before.turns += 1
  before.failed += event.failure && !isCancelled(event.failure) ? 1 : 0
}

function spend(state: Money, event: PageExpertResult): void {
  const expert = event.expert ?? { id: '', name: '–', colour: '', avatar: '' }
  if (!state.experts.has(expert.id)) state.experts.set(expert.id, { ...nothing(), expert })
  if (!state.purposes.has(event.purpose)) state.purposes.set(event.purpose, nothing())
  for (const one of [state.experts.get(expert.id)!, state.purposes.get(event.purpose)!, state.total]) add(one, event)
  if (event.cost) state.hasPrices = true
}

function applyBudget(state: Money, event: PageBudget): void {
  if (event.level === '') state.points.push({ time: event.time, tokens: event.spent.tokens ?? 0, usd: event.spent.usd ?? 0 })
  if (event.limits && !event.level.includes('/')) state.limits = withLimits(state.limits, event.limits)
  if (event.rung) state.rungs.push({ time: event.time, rung: event.rung, active: event.rungs.includes(event.rung) })
}

function apply(state: Money, event: PageEvent): void {
  state.startedAt ||= event.time
  switch (event.kind) {
    case 'run':
      if (event.limits) state.limits = withLimits(state.limits, event.limits)
      state.forecast = event.forecast ?? state.forecast
      break
    case 'budget':
      applyBudget(state, event)
      break
    case 'expert_result':
      spend(state, event)
      break
    case 'verdict':
      state.verdicts.push(event)
      break
  }
}

export const money: Fold<Money> = {
  initial: () => ({
    startedAt: 0,
    points: [],
    limits: null,
    forecast: null,
    rungs: [],
    experts: new Map(),
    purposes: new Map(),
    total: nothing(),
    hasPrices: false,
    verdicts: [],
  }),
  apply,
}

/** The share of tokens that coordination took; `null` where nothing was spent. */
export function coordinationRatio(state: Money): number | null {
  return state.total.tokens ? (state.purposes.get('coordinate')?.tokens ?? 0) / state.total.tokens : null
}

export type Unit = 'tokens' | 'usd'

export interface Burn {
  limit: number | null
  /** Seconds since the start, and what is left; what is spent, where there is no limit. */
  points: { at: number; value: number }[]
  /** When all would be spent at the present rate; `null` without a limit, or where nothing is spent. */
  emptyAt: number | null
  /** Where the line goes on from the last point: to the end of the plan, or at the present rate; `null` after the end. */
  ahead: { at: number; value: number; to: 'plan' | 'rate' } | null
  /** What the whole plan will have spent, if the rest costs as much as what is done. */
  projected: number | null
}

/** How far a run is: the steps of its plan, none where it has no plan. */
export interface Progress {
  done: number
  count: number
  isOver: boolean
}
const UNKNOWN: Progress = { done: 0, count: 0, isOver: false }
const LONGEST_AHEAD = 1.6

/** What is left of a budget over the time that the run worked. */
export function burnDown(state: Money, unit: Unit, place: (time: number) => number, progress: Progress = UNKNOWN): Burn {
  const limit = state.limits?.[unit] ?? null
  const value = (spent: number) => (limit === null ? spent : Math.max(0, limit - spent))
  const points = [{ at: 0, value: value(0) }, ...state.points.map((point) => ({ at: place(point.time), value: value(point[unit]) }))]
  const spent = state.points.at(-1)?.[unit] ?? 0
  const elapsed = points.at(-1)!.at
  const emptyAt = limit !== null && spent > 0 && elapsed > 0 ? (elapsed * limit) / spent : null
  const share = progress.count ? progress.done / progress.count : 0
  const projected = !progress.isOver && spent > 0 && share > 0 && share < 1 ? spent / share : null
  return { limit, points, emptyAt, ahead: progress.isOver || elapsed <= 0 ? null : aheadOf(), projected }

  function aheadOf(): Burn['ahead'] {
    const empty = emptyAt ?? Infinity
    if (projected !== null) {
      const at = Math.min(elapsed / share, empty)
      return { at, value: value((spent * at) / elapsed), to: 'plan' }
    }
    if (emptyAt === null) return null
    const at = Math.min(emptyAt, elapsed * LONGEST_AHEAD)
    return at > elapsed ? { at, value: value((spent * at) / elapsed), to: 'rate' } : null
  }
}

export interface JudgedWork {
  step: string
  expert: PageExpert | null
  verdicts: PageVerdict[]
}

/** Verdicts by the work that they judge: a revision belongs to what it revises. */
export function verdictBoard(verdicts: readonly PageVerdict[]): JudgedWork[] {
  const rows = new Map<string, JudgedWork>()
  const first = new Map<string, string>()
  for (const verdict of verdicts) {
    const root = first.get(verdict.revises) ?? (verdict.revises || verdict.work)
    first.set(verdict.work, root)
    const row = rows.get(root) ?? { step: verdict.step, expert: verdict.expert, verdicts: [] }
    row.verdicts.push(verdict)
    rows.set(root, row)
  }
  return [...rows.values()]
}
