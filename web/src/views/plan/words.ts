// Steps, spans and verdicts in a sentence, for screen readers and tooltips.
import type { PageExpert } from '@/api/page_events'
import { named, t } from '@/i18n'
import { formatDuration } from '@/i18n/format'
import type { StepView } from '@/views/plan/plan'
import type { Span } from '@/views/plan/timeline'

export function stepLabel(step: StepView, experts: readonly PageExpert[], isCritical: boolean): string {
  const parts = [step.name, named('step', step.state), experts.map((one) => one.name).join(', ')]
  if (isCritical) parts.push(t('plan.critical'))
  if (step.mode === 'compete') parts.push(t('plan.compete'))
  return parts.filter(Boolean).join('; ')
}

export function spanLabel(span: Span, who: string, seconds: number): string {
  const what = span.kind === 'turn' ? named('purpose', span.what) : t('talk.waitsFor', { whom: named('wait', span.what) })
  const parts = [who, what, span.step, formatDuration(seconds)]
  if (span.attempt > 1) parts.push(t('plan.attempt', { number: span.attempt }))
  if (span.failed) parts.push(t('timeline.failed'))
  if (span.to === null) parts.push(t('timeline.lasts'))
  return parts.filter(Boolean).join('; ')
}
