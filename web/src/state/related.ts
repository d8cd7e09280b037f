// The runs that a run belongs to: its parent, its children, and the turns of its conversation in order.
import { shallowReactive } from 'vue'
import { api, runPath } from '@/api/client'
import type { RunRow } from '@/state/runs'

export interface Related {
  parent: string
  children: RunRow[]
  turns: RunRow[]
}

const known = shallowReactive(new Map<string, Related>())

/** What was read last; a run can be shown without it. */
export const relatedOf = (runId: string): Related | null => known.get(runId) ?? null

export async function readRelated(runId: string): Promise<void> {
  const found = await api.get<Related>(runPath(runId, '/related')).catch(() => null)
  if (found) known.set(runId, found)
}

/** The first line of what a run was asked. */
export const nameOf = (row: RunRow) => row.task.split('\n')[0]?.slice(0, 60) || row.id
