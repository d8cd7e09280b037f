// The run that is embedded in an exported file; `null` where the page has a server.
import type { PageEvent } from '@/api/page_events'
import type { TurnPrompt } from '@/api/prompts'

export interface ExportedRun {
  run_id: string
  events: PageEvent[]
  /** What each turn received, by the key of the turn. */
  prompts?: Record<string, TurnPrompt>
}

let found: ExportedRun | null | undefined

export function exportedRun(): ExportedRun | null {
  if (found === undefined) {
    const element = document.querySelector('script[type="application/json"]#run')
    found = element?.textContent ? (JSON.parse(element.textContent) as ExportedRun) : null
  }
  return found
}
