// What happened between messages, in one line, and in the words of its card: what is shown is what is found.
import type { PageEvent } from '@/api/page_events'
import { named, t, type MessageKey } from '@/i18n'

/** The line of an event that has no card of its own. */
export function lineOf(event: PageEvent): string {
  switch (event.kind) {
    case 'run':
      return t(`event.run.${event.state}` as MessageKey, { status: named('status', event.status) })
    case 'team_formed':
      return t('event.team_formed', { team: event.team, members: event.members.map((one) => one.name).join(', ') })
    case 'team_dissolved':
      return event.failure ? t('event.team_failed', { team: event.team, error: event.failure.message }) : t('event.team_dissolved', { team: event.team })
    case 'expert_joined':
    case 'expert_left':
      return t(`event.${event.kind}`, { name: event.expert?.name ?? '' })
    case 'checkpoint':
      return t('event.checkpoint', { name: event.name })
    case 'warning':
    case 'note':
      return event.text
    default:
      return event.kind
  }
}

/** What follows the line. */
export function detailOf(event: PageEvent): string {
  if (event.kind === 'run') return event.failure?.message ?? ''
  return event.kind === 'expert_joined' || event.kind === 'expert_left' ? event.reason : ''
}

/** The task, which stands below the line of the run that starts with it. */
export const taskOf = (event: PageEvent) => (event.kind === 'run' && event.state === 'started' ? event.task : '')

/** Everything that is shown of an event. */
export function wordsOf(event: PageEvent): unknown[] {
  switch (event.kind) {
    case 'message':
      return [named('message', event.type), event.text, ...event.to]
    case 'verdict':
      return [event.step, named('verdict', event.outcome), ...event.criteria.flatMap((one) => [one.id, one.reason]), event.feedback, ...event.suggestions]
    case 'vote':
      return [event.step, event.merge, ...Object.values(event.entries), ...Object.keys(event.votes), event.reason]
    case 'plan_update':
      return [named('planStatus', event.status), event.reason, ...event.difference, ...event.steps.flatMap((one) => [one.name || one.id, ...one.assignees])]
    case 'team_synthesis':
      return [event.team, event.text, event.data ?? '', ...event.warnings]
    default:
      return [lineOf(event), detailOf(event), taskOf(event)]
  }
}
