// What the reader may do to a run now: nothing in an exported file, in the past, or after its end.
import { exportedRun } from '@/state/exported'
import type { RunStore } from '@/state/run'
import { useSession, type Role } from '@/state/session'

export const hasServer = () => exportedRun() === null

export function useMay(run: RunStore): (role: Role) => boolean {
  const session = hasServer() ? useSession() : null
  return (role) => session !== null && session.may(role) && run.isLive && !isOver(run)
}

const OVER = new Set(['completed', 'failed', 'degraded', 'timeout', 'cancelled'])
export const isOver = (run: RunStore) => OVER.has(run.overview.status)
