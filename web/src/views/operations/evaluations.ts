// Reports of experiments, as the server has them from the journal. Nothing is computed here but what a table shows.
import { formatShare } from '@/i18n/format'

export interface Interval {
  value: number
  low: number
  high: number
}

export interface Variant {
  variant: string
  cases: number
  trials: number
  passed: number
  pass_rate: Interval | null
  pass_all: number[]
  pass_any: number[]
  score: Interval | null
  usd: number | null
  usd_per_pass: number | null
  tokens: number
  seconds: number
  flaky: string[]
}

export interface Group {
  name: string
  variant: string
  trials: number
  passed: number
  pass_rate: Interval
  reason: string
}

export interface Attempt {
  case: string
  attempt: number
  variant: string
  run_id: string
  passed: boolean | null
  reason: string
}

export interface Report {
  run_id: string
  /** What the figures say, in sentences of the server. */
  findings: string[]
  report: { variants: Variant[]; by_case: Group[]; by_tag: Group[]; trials: Attempt[] }
}

export interface Listed {
  run_id: string
  title: string
  started_at: string
}

export interface CaseRow extends Group {
  attempts: Attempt[]
  state: 'passed' | 'flaky' | 'failed'
}

/** A rate with its 95 % interval. */
export const rate = (found: Interval | null) => (found ? `${formatShare(found.value)} [${Math.round(100 * found.low)}–${Math.round(100 * found.high)}]` : '–')

/** The cases of each team with their attempts; those that fail come first, and then those that pass at times. */
export function casesOf({ report }: Report): CaseRow[] {
  const key = (...names: string[]) => JSON.stringify(names)
  const attempts = new Map<string, Attempt[]>()
  for (const one of report.trials) {
    const known = attempts.get(key(one.case, one.variant))
    known ? known.push(one) : attempts.set(key(one.case, one.variant), [one])
  }
  const rows = report.by_case.map((one): CaseRow => {
    const state = one.passed === one.trials ? 'passed' : one.passed ? 'flaky' : 'failed'
    return { ...one, state, attempts: attempts.get(key(one.name, one.variant)) ?? [] }
  })
  const order = ['failed', 'flaky', 'passed']
  return rows.sort((one, other) => order.indexOf(one.state) - order.indexOf(other.state))
}
