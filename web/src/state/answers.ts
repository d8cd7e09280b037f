// Answers of a person to questions of a run.
import { api, runPath } from '@/api/client'

/** What a person is asked, in a run or in the inbox. */
export interface Asked {
  key: string
  text: string
  reason: string
  choices: readonly string[]
  to: string
  draft: string | null
  form: 'text' | 'json'
}

/** Send an answer; the decision about a draft is `approve`, `edit` or `reject`, with the new content or the reason. */
export function sendAnswer(runId: string, key: string, text: string, data: unknown = null): Promise<unknown> {
  return api.post(runPath(runId, '/answers'), { key, text, data })
}
