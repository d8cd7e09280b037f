// What a turn received, as the server rebuilds it from the record.

export interface PromptMessage {
  role: string
  content: unknown
  name: string
  tool: string
  call: string
}

export interface PromptTool {
  name: string
  description: string
  parameters: unknown
}

export interface PromptRequest {
  key: string
  model: string
  /** The digest of what was rebuilt is the recorded one. */
  is_exact: boolean
  instructions: string
  messages: PromptMessage[]
  tools: PromptTool[]
  settings: unknown
  output_schema: unknown
  max_output: number | null
}

export interface TurnPrompt {
  run_id: string
  key: string
  member: string
  member_kind: string
  purpose: string
  task: string
  history: PromptMessage[]
  requests: PromptRequest[]
  /** Why it is not all there, where that is so. */
  problem: string
}
