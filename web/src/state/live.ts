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
  /** The steps of a plan that are complete so far. */
  steps: string[]
  /** How many characters of each part are there, as the server counts them: an emoji is one. */
  lengths: Record<PageDelta['part'], number>
}

export type Live = Map<string, Writing>

function write(state: Live, { key, expert, attempt, part, text, offset, tool, steps }: PageDelta): void {
  const known = state.get(key)
  const fresh = { expert, attempt, text: '', thinking: '', arguments: '', tool: '', steps: [], lengths: { text: 0, thinking: 0, arguments: 0 } }
  // Another object with each piece, so that its row is drawn again.
  const found: Writing = known?.attempt === attempt ? { ...known, lengths: { ...known.lengths } } : fresh
  state.set(key, found)
  if (part === 'arguments' && offset === 0) found.tool = tool
  // Who comes in the middle of a part gets all of it so far; after a gap, a part waits for its next beginning.
  if (offset === 0) found[part] = text
  else if (offset === found.lengths[part]) found[part] += text
  else return
  if (part !== 'thinking') found.steps = offset === 0 ? steps : [...found.steps, ...steps]
  found.lengths[part] = offset + [...text].length
}

function apply(state: Live, event: PageEvent): void {
  if (event.kind === 'expert_result') state.delete(event.key)
  if (event.kind === 'run' && event.state !== 'started' && event.state !== 'resumed') state.clear()
}

export const live = { initial: (): Live => new Map(), write, apply }
