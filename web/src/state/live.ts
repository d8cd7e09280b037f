// What is being written at this moment, by the key of its turn; a turn's result takes its place.
import type { PageDelta, PageEvent, PageExpert } from '@/api/page_events'

export interface Writing {
  expert: PageExpert | null
  attempt: number
  text: string
  thinking: string
  /** The arguments of the tool call that is being written, and the tool. */
  arguments: string
  tool: string
}

export type Live = Map<string, Writing>

function write(state: Live, { key, expert, attempt, part, text, offset, tool }: PageDelta): void {
  const known = state.get(key)
  const fresh = { expert, attempt, text: '', thinking: '', arguments: '', tool: '' }
  // Another object with each piece, so that its row is drawn again.
  const found: Writing = known?.attempt === attempt ? { ...known } : fresh
  state.set(key, found)
  if (part === 'arguments' && offset === 0) found.tool = tool
  // A reader that came in the middle of a part waits for its next beginning.
  if (offset === 0) found[part] = text
  else if (offset === found[part].length) found[part] += text
}

function apply(state: Live, event: PageEvent): void {
  if (event.kind === 'expert_result') state.delete(event.key)
  if (event.kind === 'run' && event.state !== 'started' && event.state !== 'resumed') state.clear()
}

export const live = { initial: (): Live => new Map(), write, apply }
