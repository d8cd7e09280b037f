// A forecast in words.
import { t } from '@/i18n'
import { formatCompact, formatDuration, formatMoney, formatNumber } from '@/i18n/format'
import type { Forecast } from '@/state/teams'

const FORMATS = { tokens: formatCompact, usd: formatMoney, asks: formatNumber }

/** What is expected of each amount: in the middle, and what nine of ten runs stay below. */
export const amountsOf = (forecast: Forecast) =>
  (['tokens', 'usd', 'asks'] as const).flatMap((name) => {
    const found = forecast[name]
    return found ? [{ name, p50: FORMATS[name](found.p50), p90: FORMATS[name](found.p90) }] : []
  })

/** What the run can't exceed, or that nothing limits it. */
export function ceilingOf({ ceiling }: Forecast): { text: string; isSet: boolean } {
  const { tokens, usd, seconds } = ceiling
  const amounts = [
    ...(tokens != null ? [t('new.tokens', { count: formatNumber(tokens) })] : []),
    ...(usd != null ? [formatMoney(usd)] : []),
    ...(seconds ? [formatDuration(seconds)] : []),
  ].join(' · ')
  return amounts ? { text: t('new.ceiling', { amounts }), isSet: true } : { text: t('new.noCeiling'), isSet: false }
}
