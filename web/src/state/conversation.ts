// The conversation: turns of experts with what belongs to them, and between them what else happened, in order.
import type {
  PageAnswer,
  PageEvent,
  PageExpert,
  PageExpertResult,
  PageExpertStep,
  PageIntervention,
  PageQuestion,
  PageThinking,
  PageToolCall,
  PageToolResult,
} from '@/api/page_events'
import { wordsOf } from '@/state/event-text'
import type { Fold } from '@/state/fold'

export interface ToolUse {
  call: PageToolCall
  result: PageToolResult | null
}

/** An expert was asked; its reply arrives later. */
export interface TurnEntry {
  kind: 'turn'
  id: string
  time: number
  expert: PageExpert | null
  asked: PageExpertStep
  thinking: PageThinking[]
  tools: ToolUse[]
  result: PageExpertResult | null
  /** The run stopped before the reply. */
  broken: boolean
  /** Whether it stands still because a person is asked in it. */
  waits: boolean
}

export interface QuestionEntry {
  kind: 'question'
  id: string
  time: number
  expert: PageExpert | null
  question: PageQuestion
  answer: PageAnswer | null
}

/** What a person did to the run, with each of its states. */
export interface InterventionEntry {
  kind: 'intervention'
  id: string
  time: number
  expert: PageExpert | null
  states: PageIntervention[]
  /** When a pause of a member was undone before it took effect. */
  withdrawnAt: number | null
}

export interface EventEntry {
  kind: 'event'
  id: string
  time: number
  expert: PageExpert | null
  event: PageEvent
}

export type Entry = TurnEntry | QuestionEntry | InterventionEntry | EventEntry

export interface Conversation {
  /** An entry that changes is replaced by another object, so that its row is drawn again. */
  entries: Entry[]
  /** The index of the entry of each turn, question and intervention. */
  turns: Map<string, number>
  questions: Map<string, number>
  interventions: Map<number, number>
}

/** Kinds that other views show, or that only complete an entry. */
const UNSHOWN = new Set<PageEvent['kind']>(['budget', 'step', 'wait', 'team_life'])

function apply(state: Conversation, event: PageEvent): void {
  switch (event.kind) {
    case 'expert_step':
      return addTurn(state, event)
    case 'expert_result':
      return change<TurnEntry>(state, state.turns.get(event.key), () => ({ result: event, broken: false, waits: false }))
    case 'thinking':
      return change<TurnEntry>(state, state.turns.get(event.turn), (turn) => ({ thinking: [...turn.thinking, event] }))
    case 'tool_call':
      return change<TurnEntry>(state, state.turns.get(event.turn), (turn) => ({ tools: withCall(turn.tools, event) }))
    case 'tool_result':
      return change<TurnEntry>(state, state.turns.get(event.turn), (turn) => ({ tools: withResult(turn.tools, event) }))
    case 'question':
      state.questions.set(event.key, state.entries.length)
      state.entries.push({ kind: 'question', ...head(event), question: event, answer: null })
      return
    case 'answer':
      return change<QuestionEntry>(state, state.questions.get(event.key), () => ({ answer: event }))
    case 'intervention':
      return addIntervention(state, event)
    case 'run':
      if (event.state !== 'started' && event.state !== 'resumed') breakTurns(state)
  }
  if (!UNSHOWN.has(event.kind) && !repeats(state, event)) state.entries.push({ kind: 'event', ...head(event), event })
}

const head = (event: PageEvent) => ({ id: `${event.number}.${event.index}`, time: event.time, expert: event.expert })

function change<E extends Entry>(state: Conversation, index: number | undefined, changes: (entry: E) => Partial<E>): void {
  if (index === undefined) return
  const entry = state.entries[index] as E
  state.entries[index] = { ...entry, ...changes(entry) }
}

function addTurn(state: Conversation, asked: PageExpertStep): void {
  const known = state.turns.get(asked.key)
  if (known !== undefined && !(state.entries[known] as TurnEntry).result) {
    // A driver that took the run over asks again for what was not recorded.
    return change<TurnEntry>(state, known, () => ({ asked, broken: false, waits: false, tools: [], thinking: [] }))
  }
  state.turns.set(asked.key, state.entries.length)
  state.entries.push({ kind: 'turn', ...head(asked), asked, thinking: [], tools: [], result: null, broken: false, waits: false })
}

/** Calls by key: an attempt after the first takes the place of the one before. */
function withCall(tools: ToolUse[], call: PageToolCall): ToolUse[] {
  const use = { call, result: null }
  return tools.some((one) => one.call.key === call.key) ? tools.map((one) => (one.call.key === call.key ? use : one)) : [...tools, use]
}

const withResult = (tools: ToolUse[], result: PageToolResult): ToolUse[] =>
  tools.map((one) => (one.call.key === result.key ? { ...one, result } : one))

function addIntervention(state: Conversation, event: PageIntervention): void {
  if (event.what === 'resume_member' && event.state !== 'refused') withdraw(state, event)
  const known = state.interventions.get(event.id)
  if (known !== undefined) return change<InterventionEntry>(state, known, ({ states }) => ({ states: [...states, event] }))
  state.interventions.set(event.id, state.entries.length)
  state.entries.push({ kind: 'intervention', ...head(event), states: [event], withdrawnAt: null })
}

/** A member that is let go on before its pause took effect: the pause never will. */
function withdraw(state: Conversation, { to, time }: PageIntervention): void {
  for (const index of state.interventions.values()) {
    const { states, withdrawnAt } = state.entries[index] as InterventionEntry
    const [first] = states
    const isOpen = first!.what === 'pause_member' && first!.to === to && states.every((one) => one.state === 'accepted')
    if (isOpen && withdrawnAt === null) change<InterventionEntry>(state, index, () => ({ withdrawnAt: time }))
  }
}

function breakTurns(state: Conversation): void {
  const questions = [...state.questions].filter(([, index]) => !(state.entries[index] as QuestionEntry).answer)
  for (const [key, index] of state.turns) {
    if ((state.entries[index] as TurnEntry).result) continue
    const waits = questions.some(([asked]) => asked === key || asked.startsWith(`${key}/`))
    change<TurnEntry>(state, index, () => ({ broken: !waits, waits }))
  }
}

/** Whether an event says again what the entry before it shows. */
function repeats(state: Conversation, event: PageEvent): boolean {
  if (event.kind !== 'message' || event.type !== 'chat') return false
  return state.entries.slice(-5).some((one) => one.kind === 'turn' && one.expert?.id === event.expert?.id && one.result?.text === event.text)
}

export const conversation: Fold<Conversation> = {
  initial: () => ({ entries: [], turns: new Map(), questions: new Map(), interventions: new Map() }),
  apply,
}

const QUIET = new Set<PageEvent['kind']>(['team_formed', 'team_dissolved', 'note', 'checkpoint'])

/** Whether an entry is about how the team works together, and not about its work: coordination, joins and statuses. */
export function isQuiet(entry: Entry): boolean {
  if (entry.kind === 'turn') return entry.asked.purpose !== 'work' && entry.result !== null && !entry.result.failure
  if (entry.kind !== 'event') return false
  const { event } = entry
  if (event.kind === 'expert_joined') return event.role !== 'member'
  if (event.kind === 'run') return event.state === 'resumed' || event.state === 'queued'
  return QUIET.has(event.kind) && !('failure' in event && event.failure)
}

/** Quiet entries one after the other, in one line. */
export interface FoldedEntries {
  kind: 'folded'
  id: string
  count: number
  isOpen: boolean
}

/** The entries with quiet ones behind a line for each group of them; the groups in `open` are shown. */
export function foldQuiet(entries: readonly Entry[], open: ReadonlySet<string>): (Entry | FoldedEntries)[] {
  const shown: (Entry | FoldedEntries)[] = []
  let group: Entry[] = []
  const close = () => {
    if (!group.length) return
    const id = `folded-${group[0]!.id}`
    shown.push({ kind: 'folded', id, count: group.length, isOpen: open.has(id) }, ...(open.has(id) ? group : []))
    group = []
  }
  for (const entry of entries) {
    if (isQuiet(entry)) {
      group.push(entry)
      continue
    }
    close()
    shown.push(entry)
  }
  close()
  return shown
}

const texts = new WeakMap<Entry, string>()

/** Everything that an entry says, in lower case; an entry that changes is another object. */
export function textOf(entry: Entry): string {
  let found = texts.get(entry)
  if (found === undefined) texts.set(entry, (found = parts(entry).map((one) => (typeof one === 'string' ? one : JSON.stringify(one))).join('\n').toLowerCase()))
  return found
}

function parts(entry: Entry): unknown[] {
  const name = entry.expert?.name ?? ''
  switch (entry.kind) {
    case 'turn':
      return [name, entry.asked.step, entry.result?.text ?? '', entry.result?.data ?? '', entry.result?.failure?.message ?? '', ...entry.thinking.map((one) => one.text), ...entry.tools.flatMap(({ call, result }) => [call.tool, call.arguments ?? '', result?.result ?? ''])]
    case 'question':
      return [name, entry.question.text, entry.question.draft ?? '', entry.answer?.text ?? '', entry.answer?.data ?? '']
    case 'intervention':
      return [name, ...entry.states.flatMap((one) => [one.by, one.what, one.text, one.reason])]
    case 'event':
      return [name, ...wordsOf(entry.event)]
  }
}

/** The ids of experts that an entry is about: who speaks, and whom it is for. */
export function expertsOf(entry: Entry): string[] {
  const own = entry.expert ? [entry.expert.id] : []
  if (entry.kind === 'event' && entry.event.kind === 'message') return [...own, ...entry.event.to]
  return own
}
