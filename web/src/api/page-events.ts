// Page events as the server sends them.

export interface ExpertBadge {
  id: string
  name: string
  colour: string
  avatar: string
}

export interface PageEvent {
  number: number
  index: number
  time: string
  kind: string
  scope: string
  key: string
  expert: ExpertBadge | null
  [field: string]: unknown
}

export interface Delta {
  kind: 'delta'
  key: string
  scope: string
  expert: ExpertBadge | null
  part: 'text' | 'thinking' | 'arguments'
  text: string
}
