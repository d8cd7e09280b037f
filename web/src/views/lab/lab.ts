// Questions to the lab, and heat maps from the rows of a sweep.
import { api } from '@/api/client'

export const TOPOLOGIES = ['single', 'lead_subagent', 'star_team', 'mesh_team'] as const
export const WORKLOADS = ['mixed', 'implementation', 'debugging', 'research'] as const
export const BUDGETS = ['low', 'medium', 'high'] as const
export const PREFERENCES = ['balanced', 'cost', 'quality'] as const

export interface Work {
  workload: (typeof WORKLOADS)[number]
  budget: (typeof BUDGETS)[number]
  recommend: (typeof PREFERENCES)[number]
}

export interface TopologyRow {
  topology: string
  participants: number
  total_tokens: number
  coordination_ratio: number
  estimated_pass_rate: number
  estimated_p95_latency_s: number
  gates: { coordination_ratio_ok: boolean; quality_ok: boolean; latency_ok: boolean; budget_ok: boolean }
  gate_pass: boolean
}

export interface Evaluated {
  results: TopologyRow[]
  recommendation: { recommended_topology: string | null }
}

export type SweepRow = { topology: string; gate_pass: boolean; recommended: boolean } & Record<string, number | string | boolean | null | string[]>

interface Quantiles {
  p50: number
  p90: number
}

export interface Shape {
  shape: string
  strategy: string
  completed: number
  pass_rate: number | null
  total_tokens: Quantiles
  coordination_ratio: number | null
  usd: Quantiles | null
  seconds: Quantiles
  bottleneck: { step: string; member: string; share_of_time: number } | null
}

export interface Simulated {
  runs: number
  shapes: Shape[]
  missing: Record<string, string>
  notes: string[]
}

export interface Advice {
  recommended: string
  sentence: string
  confidence: { level: string; value: number; own_runs: number }
  shapes: { topology: string; score: number; pass_rate: number; total_tokens: number; seconds: number; within_gates: boolean }[]
  reasons: string[]
  priors: { finding: string; source: string; here: string }[]
}

export const lab = {
  evaluate: (work: Work, tasks: number | string) => api.post<Evaluated>('/api/lab/evaluate', { ...work, tasks }),
  sweep: (work: Work, tasks: number[], rounds: number[]) =>
    api.post<{ results: SweepRow[] }>('/api/lab/sweep', { workloads: [work.workload], recommend: work.recommend, budgets: [work.budget], tasks, coordination_rounds: rounds }),
  simulate: (team: string, task: string, runs: number) => api.post<Simulated>('/api/lab/simulate', { team, task, runs, topologies: TOPOLOGIES }),
  advise: (team: string, task: string, work: Work) => api.post<Advice>('/api/lab/advise', { team, task, ...work }),
}

export interface HeatMap {
  topology: string
  columns: number[]
  rows: { value: number; cells: (HeatCell | null)[] }[]
}

export interface HeatCell {
  value: number
  /** From 0, the lowest value of all maps, to 1, the highest. */
  heat: number
  passes: boolean
  recommended: boolean
}

/** One map for each topology: `x` across, `y` down; all maps have the same scale. */
export function heatMaps(results: readonly SweepRow[], x: string, y: string, metric: string): HeatMap[] {
  const numbers = (field: string) => [...new Set(results.map((row) => Number(row[field])))].sort((a, b) => a - b)
  const [columns, lines, all] = [numbers(x), numbers(y), results.map((row) => Number(row[metric]))]
  const [low, high] = [Math.min(...all), Math.max(...all)]
  const cell = (row: SweepRow): HeatCell => {
    const value = Number(row[metric])
    return { value, heat: high > low ? (value - low) / (high - low) : 0, passes: row.gate_pass, recommended: row.recommended }
  }
  return [...new Set(results.map((row) => row.topology))].map((topology) => {
    const own = new Map(results.filter((row) => row.topology === topology).map((row) => [`${Number(row[x])} ${Number(row[y])}`, cell(row)]))
    return { topology, columns, rows: lines.map((value) => ({ value, cells: columns.map((column) => own.get(`${column} ${value}`) ?? null) })) }
  })
}
