// The limits of a run: those of the run itself and of its outermost team.
import type { PageAmounts } from '@/api/page_events'

/** The limits after new ones were given; what is not given stays as it was. */
export function withLimits(before: PageAmounts | null, now: PageAmounts): PageAmounts {
  const given = Object.entries(now).filter(([, value]) => value !== null)
  return { tokens: null, usd: null, calls: null, seconds: null, ...before, ...Object.fromEntries(given) }
}
