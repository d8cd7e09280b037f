// A page event in one line.
import type { PageEvent } from '@/api/page_events'
import { named, t } from '@/i18n'
import { formatCompact } from '@/i18n/format'
import { isCancelled } from '@/state/summary'

const LONGEST = 160
const short = (text: string) => {
  const line = text.replace(/\s+/g, ' ').trim()
  return line.length > LONGEST ? `${line.slice(0, LONGEST)}…` : line
}

export function eventLine(event: PageEvent): string {
  switch (event.kind) {
    case 'run':
      return t(`event.run.${event.state}`, { status: named('status', event.status) })
    case 'team_formed':
      return short(t('event.team_formed', { team: event.team, members: event.members.map((one) => one.name).join(', ') }))
    case 'team_life':
      return named('life', event.state)
    case 'team_dissolved':
      return event.failure ? t('event.team_failed', { team: event.team, error: event.failure.message }) : t('event.team_dissolved', { team: event.team })
    case 'team_synthesis':
      return `${t('event.answer', { team: event.team })}: ${short(event.text)}`
    case 'expert_joined':
      return t('event.expert_joined', { name: event.expert?.name ?? '' })
    case 'expert_left':
      return t('event.expert_left', { name: event.expert?.name ?? '' })
    case 'expert_step':
      return `${event.step ? `${event.step} · ` : ''}${named('purpose', event.purpose)}: ${short(event.task)}`
    case 'expert_result':
      if (isCancelled(event.failure)) return t('turn.cancelled', { reason: event.failure!.message })
      return event.failure ? t('turn.failed', { error: event.failure.message }) : short(event.text)
    case 'message':
      return `${named('message', event.type)}: ${short(event.text)}`
    case 'tool_call':
      return t('tool.calls', { tool: event.tool })
    case 'tool_result':
      return `${event.tool}: ${event.failure ? t('tool.failed') : t('tool.done')}`
    case 'thinking':
      return `${t('turn.thinking')}: ${short(event.text)}`
    case 'verdict':
      return named('verdict', event.outcome)
    case 'vote':
      return t('vote.title', { step: event.step })
    case 'plan_update':
      return event.version ? t('plan.title', { version: event.version }) : t('plan.declared')
    case 'step':
      return `${event.step}: ${named('step', event.state)}`
    case 'intervention':
      return short(`${event.by || t('intervention.someone')} ${named('intervention', event.what)} ${event.text}`)
    case 'question':
      return `${t('question.title')}: ${short(event.text)}`
    case 'answer':
      return `${t('question.answered')}: ${short(event.text)}`
    case 'budget':
      return `${t('travel.spent')} ${formatCompact(event.spent.tokens ?? 0)}`
    case 'wait':
      return t('talk.waitsFor', { whom: event.whom.join(', ') || named('wait', event.what) })
    case 'checkpoint':
      return t('event.checkpoint', { name: event.name })
    case 'warning':
    case 'note':
      return short(event.text)
  }
}
