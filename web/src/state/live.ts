// What is being written at this moment, by the key of its turn; a turn's result takes its place.
import type { Delta, ExpertBadge, PageEvent } from '@/api/page-events'

export interface Writing {
  key: string
  scope: string
  expert: ExpertBadge | null
  text: string
  thinking: string
}

export type Live = Map<string, Writing>

export const live = {
  initial: (): Live => new Map(),

  write(state: Live, delta: Delta): void {
    const { key, scope, expert } = delta
    let found = state.get(key)
    if (!found) state.set(key, (found = { key, scope, expert, text: '', thinking: '' }))
    if (delta.part === 'text') found.text += delta.text
    if (delta.part === 'thinking') found.thinking += delta.text
  },

  apply(state: Live, event: PageEvent): void {
    if (event.kind === 'expert_result') state.delete(event.key)
    if (event.kind === 'run' && event.state !== 'started' && event.state !== 'resumed') state.clear()
  },
}
