// Spans of the timeline in a sentence, for screen readers and tooltips.
import { named, t } from '@/i18n'
import { formatDuration } from '@/i18n/format'
import type { Span } from '@/views/plan/timeline'

export function spanLabel(span: Span, who: string, seconds: number): string {
  const what = span.kind === 'turn' ? named('purpose', span.what) : t('talk.waitsFor', { whom: named('wait', span.what) })
  const parts = [who, what, span.step, formatDuration(seconds)]
  if (span.attempt > 1) parts.push(t('plan.attempt', { number: span.attempt }))
  if (span.cancelled) parts.push(t('step.cancelled'))
  if (span.failed) parts.push(t('timeline.failed'))
  if (span.to === null) parts.push(t('timeline.lasts'))
  return parts.filter(Boolean).join('; ')
}
